"""Evaluates compiled tiling formulas (`FloorSums`) on NumPy arrays: many indices or positions at once, in chunks that
stay in the processor's cache.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.base.caches import cached
from xlashape.errors import InvalidIndexError
from xlashape.limits import INT32_MAX, INT64_MAX, INT64_MIN
from xlashape.shape.arguments import index_length, outside_buffer, outside_dimension
from xlashape.shape.parts.checks import brief, integer, shown
from xlashape.shape.tiling.floor_sums import FloorSums, Terms
from xlashape.shape.value.shape import Shape

_ALL_BITS = (1 << 64) - 1
_CHUNK_BYTES = 2 << 20
"""The number of bytes of the registers of one chunk. The few registers that an operation reads and writes fit in a
core's second-level cache. With smaller chunks, calls of NumPy take more time than the cache saves.
"""


def linear_indices(shape: Shape, dimensions: tuple[int, ...], sums: FloorSums, rows: ArrayLike) -> NDArray[np.int64]:
    """The positions of the rows of int64[n, rank]."""
    table = _integers(rows, "rows", shape, len(dimensions))
    positions = np.empty(len(table), np.int64)
    write_linear_indices(shape, dimensions, sums, table, positions)
    return positions


def write_linear_indices(
    shape: Shape, dimensions: tuple[int, ...], sums: FloorSums, table: NDArray[Any], positions: NDArray[np.int64]
) -> None:
    """Writes the positions of the rows of `table`, an array of integers [n, rank], to `positions` int64[n]."""
    if not len(table):
        return
    chunk = _Chunk(sums, len(table), 1)
    for start in range(0, len(table), chunk.length):
        part = table[start : start + chunk.length]
        if not chunk.take(np.transpose(part), dimensions):
            raise _bad_row(shape, dimensions, part, start)
        chunk.run()
        positions[start : start + len(part)] = chunk.output(0)


def multi_indices(
    shape: Shape,
    rank: int,
    elements: int,
    sums: FloorSums,
    conditions: tuple[tuple[int, int], ...],
    positions: ArrayLike,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The indices of the elements at `positions` int64[n], and whether each position holds an element."""
    numbers = _integers(positions, "positions", shape, None)
    rows = np.empty((len(numbers), rank), np.int64)
    is_element = np.empty(len(numbers), np.bool_)
    write_multi_indices(shape, elements, sums, conditions, numbers, rows, is_element)
    return rows, is_element


def write_multi_indices(
    shape: Shape,
    elements: int,
    sums: FloorSums,
    conditions: tuple[tuple[int, int], ...],
    numbers: NDArray[Any],
    rows: NDArray[np.int64],
    is_element: NDArray[np.bool_],
) -> None:
    """Writes the indices of the elements at the positions `numbers`, an array of integers [n], to `rows` int64[n,
    rank], and whether each position holds an element to `is_element` bool[n].
    """
    if not len(numbers):
        return
    rank = rows.shape[1]
    has_pairs = rank > 1 and sums.give_int16 and sums.fits_int32 and sys.byteorder == "little"
    columns = (rank + 1) // 2 if has_pairs else rank
    if has_pairs:
        sums, tests = _pairs(sums, conditions, rank)
    else:
        tests = tuple([(output, size, False) for output, size in conditions])
    chunk = _Chunk(sums, len(numbers), len(sums.outputs))
    halves = np.empty((chunk.length if has_pairs else 0, rank), np.int16)
    for start in range(0, len(numbers), chunk.length):
        part = numbers[start : start + chunk.length]
        length = len(part)
        if not chunk.take(part[np.newaxis], (elements,)):
            raise _bad_position(shape, elements, part, start)
        chunk.run()
        outputs = [chunk.output(number) for number in range(len(sums.outputs))]
        inside = is_element[start : start + length]
        inside.fill(True)
        for output, size, is_lower in tests:
            value = outputs[output]
            if is_lower:
                value = np.bitwise_and(value, 0xFFFF, out=chunk.scratch)
            np.logical_and(inside, np.less(value, size), out=inside)
        if tests and not inside.all():
            # Rows without an element become -1, whose bits are all set, by a bitwise or. This takes 1 ms for a million
            # positions; assigning to the rows by their index takes 6 ms.
            padding = np.subtract(inside, 1, out=chunk.scratch, dtype=chunk.scratch.dtype)
            for column in outputs[:columns]:
                np.bitwise_or(column, padding, out=column)
        target = rows[start : start + length]
        if not has_pairs:
            for number, column in enumerate(outputs[:columns]):
                target[:, number] = column
            continue
        for number, column in enumerate(outputs[: rank // 2]):
            pair: NDArray[np.int32] = np.ndarray((length,), np.int32, halves, 4 * number, (2 * rank,))
            pair[...] = column
        if rank % 2:
            halves[:length, -1] = outputs[columns - 1]
        target[...] = halves[:length]


_Tests: TypeAlias = tuple[tuple[int, int, bool], ...]
"""Triples (output, size, whether to compare the lower half of the output). A position holds an element if each of these
outputs or halves is below the size.
"""


def _weight(arguments: tuple[Any, ...], _: object) -> int:
    sums: FloorSums = arguments[0]
    terms = sum(len(step) for step, _ in sums.steps) + sum(map(len, sums.outputs))
    return 1000 + 400 * (len(sums.steps) + len(sums.outputs)) + 300 * terms


@cached(max_bytes=4 << 20, weigh=_weight)
def _pairs(sums: FloorSums, conditions: tuple[tuple[int, int], ...], rank: int) -> tuple[FloorSums, _Tests]:
    """The formula with its first `rank` outputs in pairs, and the conditions on these pairs. The second output of a
    pair is the upper half of an int32.

    Arithmetic takes as long for a pair as for one output, and one pass writes both. Then one pass converts the halves
    to int64.
    """
    outputs: list[Terms] = []
    for first in range(0, rank, 2):
        terms = dict(sums.outputs[first])
        for register, coefficient in sums.outputs[first + 1] if first + 1 < rank else ():
            terms[register] = terms.get(register, 0) + (coefficient << 16)
        outputs.append(tuple(sorted(terms.items())))
    tests: list[tuple[int, int, bool]] = []
    for output, size in conditions:
        if output >= rank:
            tests.append((len(outputs) + output - rank, size, False))
        elif output % 2:
            tests.append((output // 2, size << 16, False))  # whatever the lower half is
        else:
            tests.append((output // 2, size, output + 1 < rank))
    return sums._replace(outputs=(*outputs, *sums.outputs[rank:])), tuple(tests)


class _Plan(NamedTuple):
    """A formula with coefficients modulo 2^64 or 2^32. Each step also says whether its dividend is never negative."""

    steps: tuple[tuple[Terms, int, bool], ...]
    outputs: tuple[Terms, ...]


@cached(max_bytes=4 << 20, weigh=_weight)
def _plan(sums: FloorSums) -> _Plan:
    """The plan for a formula. Terms are in the order that takes the fewest operations: a term whose product is computed
    in place comes first.
    """
    half = 1 << (31 if sums.fits_int32 else 63)

    def planned(terms: Terms) -> Terms:
        wrapped = [(register, (coefficient + half) % (2 * half) - half) for register, coefficient in terms]
        return tuple(sorted(wrapped, key=lambda term: 2 * (term[1] == -1) + (term[1] == 1)))

    steps: list[tuple[Terms, int, bool]] = []
    positive = [True] * sums.inputs  # registers that are never negative, as far as the signs of coefficients show
    for terms, divisor in sums.steps:
        positive.append(all(coefficient > 0 and positive[register] for register, coefficient in terms))
        steps.append((planned(terms), divisor, positive[-1]))
    return _Plan(tuple(steps), tuple(map(planned, sums.outputs)))


class _Chunk:
    """The registers of a compiled formula for up to `length` rows at a time, in int32 if the formula fits int32.
    `outputs` says how many results of the formula are kept.
    """

    def __init__(self, sums: FloorSums, rows: int, outputs: int = 0) -> None:
        registers = sums.inputs + len(sums.steps)
        self._bits = 32 if sums.fits_int32 else 64
        self._signed, self._unsigned = (np.int32, np.uint32) if sums.fits_int32 else (np.int64, np.uint64)
        # The registers have one more row, for scratch space.
        room = max(1024, _CHUNK_BYTES * 8 // self._bits // (registers + outputs + 1))
        self.length = -(-rows // -(-rows // room)) if rows else 0  # chunks of about the same length
        self.registers = np.empty((registers + 1, self.length), self._signed)
        self.inputs = self.registers[: sums.inputs]
        self._results = np.empty((min(outputs, len(sums.outputs)), self.length), self._signed)
        self._first = sums.inputs
        self._steps, self._outputs = _plan(sums)
        self.cut(self.length)

    def cut(self, length: int) -> None:
        """Sets the number of rows in use."""
        self._used = length
        self._rows = [register[:length] for register in self.registers]
        self.scratch = self._rows[-1]

    def take(self, columns: NDArray[Any], sizes: tuple[int, ...]) -> bool:
        """Sets the inputs from `columns`, which has a row of integers of any type for each input. False if a number is
        not in [0, size) for the size of its input.
        """
        if columns.shape[1] != self._used:
            self.cut(columns.shape[1])
        if not columns.size:
            return True
        # A number of more than 32 bits could be inside its size after it is cut to 32 bits.
        if self._bits == 32 and columns.dtype.itemsize == 8 and _bits_of(np.transpose(columns)) > INT32_MAX:
            return False
        inputs = self.inputs[:, : self._used]
        np.copyto(inputs, columns, casting="unsafe")
        largest_of_each: list[int] = inputs.view(self._unsigned).max(axis=1).tolist()
        return all(number < size for number, size in zip(largest_of_each, sizes, strict=True))

    def run(self) -> None:
        """Computes every step from the inputs."""
        for number, (terms, divisor, is_positive) in enumerate(self._steps, self._first):
            target = self._rows[number]
            if len(terms) == 1 and terms[0][1] == 1:
                source = self._rows[terms[0][0]]
            else:
                self.sum(terms, target)
                source = target
            if not divisor & (divisor - 1):
                np.right_shift(source, divisor.bit_length() - 1, out=target)
            elif is_positive:  # half the time of a signed division
                np.floor_divide(source.view(self._unsigned), divisor, out=target.view(self._unsigned))
            else:
                np.floor_divide(source, divisor, out=target)

    def output(self, number: int) -> NDArray[np.signedinteger[Any]]:
        """An output of the formula. It is overwritten by the next chunk."""
        result = self._results[number, : self._used]
        self.sum(self._outputs[number], result)
        return result

    def sum(self, terms: Terms, out: NDArray[np.signedinteger[Any]]) -> None:
        """Σ coefficient · register, modulo 2^64 or 2^32. `out` has the type of the registers, and the terms are those
        of a plan.
        """
        if not terms:
            out.fill(0)
            return
        (register, coefficient), *others = terms
        total = self._rows[register]
        if coefficient != 1:
            np.multiply(total, coefficient, out=out)
            total = out
        elif not others:
            np.copyto(out, total)
        for register, coefficient in others:
            source = self._rows[register]
            if coefficient == 1:
                np.add(total, source, out=out)
            elif coefficient == -1:
                np.subtract(total, source, out=out)
            else:
                np.multiply(source, coefficient, out=self.scratch)
                np.add(total, self.scratch, out=out)
            total = out


def _bits_of(numbers: NDArray[Any]) -> int:
    """The bitwise or of integers of 64 bits, as an unsigned number.

    The numbers of a message are seldom aligned, and NumPy copies an array that is not aligned, which takes longer than
    the bitwise or. So the aligned words are combined instead. They hold all bytes except some of the first and the last
    number, and the bytes of each number in rotated order, so their result is rotated back.
    """
    if not (numbers.flags.c_contiguous and numbers.dtype.isnative and sys.byteorder == "little"):
        return int(np.bitwise_or.reduce(numbers, axis=None)) & _ALL_BITS
    flat = numbers.reshape(-1)
    data = flat.view(np.uint8)
    turn = -data.__array_interface__["data"][0] % 8
    words = int(np.bitwise_or.reduce(data[turn : turn + 8 * (len(flat) - 1)].view(np.uint64)))
    return (words << 8 * turn | words >> (64 - 8 * turn) | int(flat[0]) | int(flat[-1])) & _ALL_BITS


def _integers(values: ArrayLike, what: str, shape: Shape, rank: int | None) -> NDArray[Any]:
    """`values` as an array of some integer type: [n, rank], or [n] if rank is None. InvalidIndexError otherwise."""
    field = "positions" if rank is None else "indices"
    expected = f"{what} takes integers of the shape " + ("[n]" if rank is None else f"[n, {rank}]")
    try:
        table = np.asarray(values)
        if not hasattr(values, "dtype") and (table.dtype.kind not in "iu" or _has_bool(values)):
            # NumPy turns ints beyond int64, and empty lists, into floats. The objects themselves show what is wrong.
            table = np.asarray(values, object)
    except (ValueError, TypeError, OverflowError):
        raise InvalidIndexError(f"{expected}, found rows of different lengths", field=field) from None
    if rank is not None and table.shape == (0,) and not hasattr(values, "dtype"):
        table = table.reshape(0, rank)
    found = "[" + ", ".join(map(str, table.shape)) + "]"
    if table.ndim != (1 if rank is None else 2):
        raise InvalidIndexError(f"{expected}, found {found}", field=field)
    if rank is not None and table.shape[1] != rank:
        raise InvalidIndexError(
            f"{brief(shape)} takes {index_length(rank)}, found rows of {table.shape[1]}: {expected}", field=field
        )
    if table.dtype.kind == "O":
        table = _from_objects(table, what, field)
    if table.dtype.kind not in "iu":
        raise InvalidIndexError(f"{expected}, found {table.dtype.name}", field=field)
    return table


def _has_bool(values: object) -> bool:
    """Whether there is a bool among the numbers, which NumPy would convert to 0 or 1."""
    if not isinstance(values, (list, tuple)):
        return False
    for item in cast("Sequence[object]", values):
        if type(item) is bool or (
            isinstance(item, (list, tuple)) and bool in map(type, cast("Sequence[object]", item))
        ):
            return True
    return False


def _from_objects(table: NDArray[Any], what: str, field: str) -> NDArray[np.int64]:
    """Python objects as int64, or InvalidIndexError for the first that is not an int or does not fit."""
    numbers: list[int] = []
    for at, value in enumerate(table.ravel().tolist()):
        row, column = divmod(at, table.size // len(table))
        path = (field, row) if table.ndim == 1 else (field, row, column)
        name = f"{what}[{row}]"
        number = integer(value, path, name)
        if not INT64_MIN <= number <= INT64_MAX:
            raise InvalidIndexError(f"{name}: {shown(number)} does not fit int64", field=path)
        numbers.append(number)
    return np.array(numbers, np.int64).reshape(table.shape)


def _bad_row(shape: Shape, dimensions: tuple[int, ...], part: NDArray[Any], start: int) -> InvalidIndexError:
    for row, numbers in enumerate(part.tolist(), start):
        for d, (number, size) in enumerate(zip(numbers, dimensions, strict=True)):
            if not 0 <= number < size:
                return InvalidIndexError(
                    f"row {row}: {outside_dimension(shape, d, size, number)}", field=("indices", row, d)
                )
    return InvalidIndexError("the rows changed while they were read", field="indices")


def _bad_position(shape: Shape, elements: int, part: NDArray[Any], start: int) -> InvalidIndexError:
    for row, number in enumerate(part.tolist(), start):
        if not 0 <= number < elements:
            return InvalidIndexError(f"row {row}: {outside_buffer(shape, elements, number)}", field=("positions", row))
    return InvalidIndexError("the positions changed while they were read", field="positions")
