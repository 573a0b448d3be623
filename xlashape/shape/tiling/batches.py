"""Compiled formulas over NumPy arrays: many indices or positions at once, in chunks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import InvalidIndexError
from xlashape.limits import INT32_MAX, INT64_MAX, INT64_MIN
from xlashape.shape.arguments.indices import index_length, outside_buffer, outside_dimension
from xlashape.shape.parts.checks import integer
from xlashape.shape.parts.error_text import brief, shown
from xlashape.shape.tiling.floor_sums import FloorSums, Terms
from xlashape.shape.value.shape import Shape

__all__ = ["linear_indices", "multi_indices", "write_multi_indices"]

_CHUNK_BYTES = 2 << 20
"""Bytes of the registers of one chunk. An operation reads and writes some of them, which fit in a core's second-level cache. With smaller chunks, calls
of NumPy take more time than that saves."""


def linear_indices(shape: Shape, dimensions: tuple[int, ...], sums: FloorSums, rows: ArrayLike) -> NDArray[np.int64]:
    """The positions of the rows of int64[n, rank]."""
    rank = len(dimensions)
    table = _integers(rows, "rows", shape, rank)
    result = np.empty(len(table), np.int64)
    if not len(table):
        return result
    chunk = _Chunk(sums, len(table), 1)
    for start in range(0, len(table), chunk.length):
        part = table[start : start + chunk.length]
        if not chunk.take(np.transpose(part), dimensions):
            raise _bad_row(shape, dimensions, part, start)
        chunk.run()
        result[start : start + len(part)] = chunk.output(0)
    return result


def multi_indices(
    shape: Shape,
    rank: int,
    elements: int,
    sums: FloorSums,
    conditions: tuple[tuple[int, int], ...],
    positions: ArrayLike,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The indices of the elements at int64[n], and whether there is an element."""
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
    """The same for an array of integers [n], written to `rows` int64[n, rank] and `is_element` bool[n]."""
    if not len(numbers):
        return
    outputs, rank = len(sums.outputs), rows.shape[1]
    chunk = _Chunk(sums, len(numbers), outputs)
    for start in range(0, len(numbers), chunk.length):
        part = numbers[start : start + chunk.length]
        end = start + len(part)
        if not chunk.take(part[np.newaxis], (elements,)):
            raise _bad_position(shape, elements, part, start)
        chunk.run()
        columns = [chunk.output(number) for number in range(outputs)]
        inside = is_element[start:end]
        if conditions:
            output, size = conditions[0]
            np.less(columns[output], size, out=inside)
            for output, size in conditions[1:]:
                inside &= columns[output] < size
            if not inside.all():
                # -1 where there is no element has all bits set: for a million positions 1 ms, instead of 6 by an index of rows.
                padding = inside.astype(columns[0].dtype)
                padding -= 1
                for column in columns[:rank]:
                    column |= padding
        else:
            inside.fill(True)
        for number, column in enumerate(columns[:rank]):
            rows[start:end, number] = column


class _Chunk:
    """The registers of a compiled formula for up to `length` rows at a time, in int32 where the formula fits. `outputs`: how many of its results are kept."""

    def __init__(self, sums: FloorSums, rows: int, outputs: int = 0) -> None:
        registers = sums.inputs + len(sums.steps)
        self._bits = 32 if sums.fits_int32 else 64
        self._signed, self._unsigned = (np.int32, np.uint32) if sums.fits_int32 else (np.int64, np.uint64)
        # One more row is scratch space.
        room = max(1024, _CHUNK_BYTES * 8 // self._bits // (registers + outputs + 1))
        self.length = -(-rows // -(-rows // room)) if rows else 0  # chunks of about the same length
        self.registers = np.empty((registers + 1, self.length), self._signed)
        self.inputs = self.registers[: sums.inputs]
        self._results = np.empty((min(outputs, len(sums.outputs)), self.length), self._signed)
        self._first = sums.inputs
        self._steps: list[tuple[Terms, int, bool]] = []
        positive = [True] * sums.inputs  # registers that are never negative, as far as the signs of coefficients show
        for terms, divisor in sums.steps:
            positive.append(all(coefficient > 0 and positive[register] for register, coefficient in terms))
            self._steps.append((self._plan(terms), self._wrap(divisor), positive[-1]))
        self._outputs = [self._plan(terms) for terms in sums.outputs]
        self.cut(self.length)

    def cut(self, length: int) -> None:
        """Sets the number of rows in use."""
        self._used = length
        self._rows = [register[:length] for register in self.registers]
        self._scratch = self._rows[-1]

    def take(self, columns: NDArray[Any], sizes: tuple[int, ...]) -> bool:
        """Sets the inputs, a row of integers for each, which may have more bits. False if a number is not in [0, its size)."""
        if columns.shape[1] != self._used:
            self.cut(columns.shape[1])
        if self._bits == 32 and columns.dtype.itemsize == 8 and columns.size:
            # A negative number is a huge unsigned one: one comparison checks both ends.
            native = columns.astype(np.int64 if columns.dtype.kind == "i" else np.uint64, copy=False)
            unsigned: NDArray[np.uint64] = native.view(np.uint64)
            if unsigned.flags.f_contiguous:  # of a flat array, NumPy finds the largest number in half the time
                unsigned = cast("NDArray[np.uint64]", unsigned.T.reshape(-1))
            if int(unsigned.max()) > INT32_MAX:
                return False
        inputs = self.inputs[:, : self._used]
        np.copyto(inputs, columns, casting="unsafe")
        return not columns.size or not (inputs.view(self._unsigned).max(axis=1) >= np.array(sizes, np.uint64)).any()

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
        """Σ coefficient · register, modulo 2^64 or 2^32. `out` has the type of the registers, and the terms are as `_plan` gives them."""
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
                np.multiply(source, coefficient, out=self._scratch)
                np.add(total, self._scratch, out=out)
            total = out

    def _plan(self, terms: Terms) -> Terms:
        """The terms with coefficients modulo 2^64 or 2^32, in an order that takes the fewest operations: first one whose product is made in place."""
        wrapped = [(register, self._wrap(coefficient)) for register, coefficient in terms]
        return tuple(sorted(wrapped, key=lambda term: 2 * (term[1] == -1) + (term[1] == 1)))

    def _wrap(self, number: int) -> int:
        """The int64 or int32 that equals the number modulo 2^64 or 2^32."""
        half = 1 << (self._bits - 1)
        return (number + half) % (2 * half) - half


def _integers(values: ArrayLike, what: str, shape: Shape, rank: int | None) -> NDArray[Any]:
    """`values` as an array of some integer type: [n, rank], or [n] where rank is None. InvalidIndexError otherwise."""
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
