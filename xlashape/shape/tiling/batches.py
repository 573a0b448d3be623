"""Compiled formulas over NumPy arrays: many indices or positions at once, in chunks that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xlashape.errors import InvalidIndexError
from xlashape.limits import INT64_MAX, INT64_MIN
from xlashape.shape.arguments.indices import index_length, outside_buffer, outside_dimension
from xlashape.shape.parts.checks import integer
from xlashape.shape.parts.error_text import brief, shown
from xlashape.shape.tiling.floor_sums import FloorSums, Terms
from xlashape.shape.value.shape import Shape

__all__ = ["linear_indices", "multi_indices"]

_CHUNK_NUMBERS = 1 << 16
"""int64 numbers in the registers of one chunk: 512 KiB, which fit in a core's second-level cache."""


def linear_indices(shape: Shape, dimensions: tuple[int, ...], sums: FloorSums, rows: ArrayLike) -> NDArray[np.int64]:
    """The positions of the rows of int64[n, rank]."""
    rank = len(dimensions)
    table = _integers(rows, "rows", shape, rank)
    result = np.empty(len(table), np.int64)
    if not len(table):
        return result
    sizes = np.array(dimensions, np.uint64)
    chunk = _Chunk(sums, len(table))
    # A negative number is a huge unsigned one: one comparison checks both ends.
    unsigned = chunk.inputs.view(np.uint64)
    is_wide = table.dtype == np.uint64
    for start in range(0, len(table), chunk.length):
        stop = min(start + chunk.length, len(table))
        chunk.cut(stop - start)
        part = table[start:stop]
        np.copyto(chunk.inputs[:, : stop - start], np.transpose(part), casting="unsafe" if is_wide else "same_kind")
        if rank and (unsigned[:, : stop - start].max(axis=1) >= sizes).any():
            raise _bad_row(shape, dimensions, part, start)
        chunk.run()
        chunk.sum(sums.outputs[0], result[start:stop])
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
    is_element = np.ones(len(numbers), np.bool_)
    if not len(numbers):
        return rows, is_element
    outputs = len(sums.outputs)
    chunk = _Chunk(sums, len(numbers), outputs)
    unsigned = chunk.inputs.view(np.uint64)
    is_wide = numbers.dtype == np.uint64
    columns = np.empty((outputs, chunk.length), np.int64)
    for start in range(0, len(numbers), chunk.length):
        stop = min(start + chunk.length, len(numbers))
        length = stop - start
        chunk.cut(length)
        part = numbers[start:stop]
        np.copyto(chunk.inputs[0, :length], part, casting="unsafe" if is_wide else "same_kind")
        if int(unsigned[0, :length].max()) >= elements:
            raise _bad_position(shape, elements, part, start)
        chunk.run()
        for column, terms in zip(columns, sums.outputs, strict=True):
            chunk.sum(terms, column[:length])
        np.copyto(rows[start:stop], np.transpose(columns[:rank, :length]))
        if conditions:
            inside = is_element[start:stop]
            for output, size in conditions:
                inside &= columns[output, :length] < size
            if not inside.all():
                rows[start:stop][~inside] = -1
    return rows, is_element


class _Chunk:
    """The registers of a compiled formula for up to `length` rows at a time."""

    def __init__(self, sums: FloorSums, rows: int, columns: int = 0) -> None:
        registers = sums.inputs + len(sums.steps)
        # One more row is scratch space; the caller has `columns` rows of its own.
        self.length = min(rows, max(1024, _CHUNK_NUMBERS // (registers + columns + 1)))
        self.registers = np.empty((registers + 1, self.length), np.int64)
        self.inputs = self.registers[: sums.inputs]
        self._steps = [(terms, _wrap(divisor)) for terms, divisor in sums.steps]
        self._first = sums.inputs
        self.cut(self.length)

    def cut(self, length: int) -> None:
        """Sets the number of rows in use."""
        self._rows = [register[:length] for register in self.registers]
        self._scratch = self._rows[-1]

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

    def sum(self, terms: Terms, out: NDArray[np.int64]) -> None:
        """Σ coefficient · register, modulo 2^64."""
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
                    np.multiply(source, _wrap(coefficient), out=out)
                started = True
            elif coefficient == 1:
                np.add(out, source, out=out)
            elif coefficient == -1:
                np.subtract(out, source, out=out)
            else:
                np.multiply(source, _wrap(coefficient), out=self._scratch)
                np.add(out, self._scratch, out=out)


def _wrap(number: int) -> int:
    """The int64 that equals the number modulo 2^64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


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
    """Python objects as int64, or InvalidIndexError for the first that is no int or does not fit."""
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
