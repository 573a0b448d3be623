"""Compiled formulas over NumPy arrays: many indices or positions at once, in chunks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

__all__ = ["linear_indices", "multi_chunks", "multi_indices"]

_CHUNK_BYTES = 512 << 10
"""Bytes of the registers of one chunk, which fit in a core's second-level cache."""


def linear_indices(shape: Shape, dimensions: tuple[int, ...], sums: FloorSums, rows: ArrayLike) -> NDArray[np.int64]:
    """The positions of the rows of int64[n, rank]."""
    rank = len(dimensions)
    table = _integers(rows, "rows", shape, rank)
    result = np.empty(len(table), np.int64)
    if not len(table):
        return result
    # In int32 it takes as long: reading the table takes most of the time.
    chunk = _Chunk(sums._replace(fits_int32=False), len(table))
    for start in range(0, len(table), chunk.length):
        part = table[start : start + chunk.length]
        if not chunk.take(np.transpose(part), dimensions):
            raise _bad_row(shape, dimensions, part, start)
        chunk.run()
        chunk.sum(sums.outputs[0], result[start : start + len(part)])
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
    at = 0
    for part, inside in multi_chunks(shape, rank, elements, sums, conditions, numbers):
        rows[at : at + len(part)] = part
        is_element[at : at + len(part)] = inside
        at += len(part)
    return rows, is_element


def multi_chunks(
    shape: Shape,
    rank: int,
    elements: int,
    sums: FloorSums,
    conditions: tuple[tuple[int, int], ...],
    numbers: NDArray[Any],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """The same for an array of integers [n], of some positions at a time: arrays that are overwritten by the next ones."""
    if not len(numbers):
        return
    outputs = len(sums.outputs)
    chunk = _Chunk(sums, len(numbers), outputs + rank)
    rows = np.empty((chunk.length, rank), np.int64)
    is_element = np.empty(chunk.length, np.bool_)
    for start in range(0, len(numbers), chunk.length):
        part = numbers[start : start + chunk.length]
        length = len(part)
        if not chunk.take(part[np.newaxis], (elements,)):
            raise _bad_position(shape, elements, part, start)
        chunk.run()
        columns = [chunk.output(number) for number in range(outputs)]
        inside = is_element[:length]
        inside.fill(True)
        for output, size in conditions:
            inside &= columns[output] < size
        # -1 where there is no element has all bits set: for a million positions 1 ms, instead of 6 by an index of rows.
        padding = inside.astype(columns[0].dtype) - 1 if conditions and not inside.all() else None
        for number, column in enumerate(columns[:rank]):
            if padding is not None:
                column |= padding
            rows[:length, number] = column
        yield rows[:length], inside


class _Chunk:
    """The registers of a compiled formula for up to `length` rows at a time, in int32 where the formula fits. `outputs`: how many of its results are kept."""

    def __init__(self, sums: FloorSums, rows: int, outputs: int = 0) -> None:
        registers = sums.inputs + len(sums.steps)
        self._bits = 32 if sums.fits_int32 else 64
        self._signed, self._unsigned = (np.int32, np.uint32) if sums.fits_int32 else (np.int64, np.uint64)
        # One more row is scratch space.
        room = _CHUNK_BYTES * 8 // self._bits // (registers + outputs + 1)
        self.length = min(rows, max(1024, room))
        self.registers = np.empty((registers + 1, self.length), self._signed)
        self.inputs = self.registers[: sums.inputs]
        self._results = np.empty((min(outputs, len(sums.outputs)), self.length), self._signed)
        self._sums = sums
        self._steps = [(terms, self._wrap(divisor)) for terms, divisor in sums.steps]
        self._first = sums.inputs
        self.cut(self.length)

    def cut(self, length: int) -> None:
        """Sets the number of rows in use."""
        self._used = length
        self._rows = [register[:length] for register in self.registers]
        self._scratch = self._rows[-1]

    def take(self, columns: NDArray[Any], sizes: tuple[int, ...]) -> bool:
        """Sets the inputs, a row of integers for each, which may have more bits. False if a number is not in [0, its size)."""
        self.cut(columns.shape[1])
        if self._bits == 32 and columns.dtype.itemsize == 8 and columns.size:
            # A negative number is a huge unsigned one: one comparison checks both ends.
            native = columns.astype(np.int64 if columns.dtype.kind == "i" else np.uint64, copy=False)
            if int(native.view(np.uint64).max()) > INT32_MAX:
                return False
        inputs = self.inputs[:, : self._used]
        np.copyto(inputs, columns, casting="unsafe")
        return not columns.size or not (inputs.view(self._unsigned).max(axis=1) >= np.array(sizes, np.uint64)).any()

    def run(self) -> None:
        """Computes every step from the inputs."""
        for number, (terms, divisor) in enumerate(self._steps, self._first):
            target = self._rows[number]
            if len(terms) == 1 and terms[0][1] == 1:
                source = self._rows[terms[0][0]]
            else:
                self.sum(terms, target)
                source = target
            if divisor & (divisor - 1):
                np.floor_divide(source, divisor, out=target)
            else:
                np.right_shift(source, divisor.bit_length() - 1, out=target)

    def output(self, number: int) -> NDArray[np.signedinteger[Any]]:
        """An output of the formula. It is overwritten by the next chunk."""
        result = self._results[number, : self._used]
        self.sum(self._sums.outputs[number], result)
        return result

    def sum(self, terms: Terms, out: NDArray[np.signedinteger[Any]]) -> None:
        """Σ coefficient · register, modulo 2^64 or 2^32. `out` has the type of the registers."""
        if not terms:
            out.fill(0)
            return
        started = False
        for register, coefficient in terms:
            source = self._rows[register]
            if not started:
                if coefficient == 1:
                    np.copyto(out, source)
                else:
                    np.multiply(source, self._wrap(coefficient), out=out)
                started = True
            elif coefficient == 1:
                np.add(out, source, out=out)
            elif coefficient == -1:
                np.subtract(out, source, out=out)
            else:
                np.multiply(source, self._wrap(coefficient), out=self._scratch)
                np.add(out, self._scratch, out=out)

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
