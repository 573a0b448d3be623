"""Tiled indexing: where an element lies in the buffer of its array, which element lies there, how big the buffer is.

>>> shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
>>> linear_index(shape, (2, 3)), multi_index(shape, 17), physical_elements(shape), physical_bytes(shape)
(17, (2, 3), 24, 96)

Positions count elements, not bytes, from the start of the data (behind the sizes of dynamic dimensions, where a layout has
`dynamic_shape_metadata_prefix_bytes`). All tiles count, and combine, tail padding and dynamic bounds; split configs are left
aside. A shape without a layout has the default one; of a buffer, the array inside counts.

XLA's nearest relatives are `LayoutUtil::LinearIndex` (the first tile alone), `LayoutUtil::LinearIndexForNestedTiling` (no
combine) and `ShapeUtil::ArraySize` (the first tile's padding alone); these are exact. The formula itself stands in
`tile_formula`, and is offered here for expressions: `physical_position`, `logical_index`. `pack`, `unpack` and `relayout`
move whole arrays (`buffers`), `padding_report` says where padding comes from (`padding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX
from xlashape.math import ceil_div
from xlashape.shape.index_check import brief, checked_index, checked_position
from xlashape.shape.shape import Shape
from xlashape.shape.tile_formula import Condition, array_of, geometry, logical_index, not_a_shape, physical_position
from xlashape.shape.tile_program import Program, trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from xlashape.shape.buffers import pack as pack
    from xlashape.shape.buffers import relayout as relayout
    from xlashape.shape.buffers import unpack as unpack
    from xlashape.shape.padding import PaddingReport as PaddingReport
    from xlashape.shape.padding import padding_report as padding_report

__all__ = [
    "Condition",
    "PaddingReport",
    "linear_index",
    "linear_indices",
    "logical_index",
    "multi_index",
    "multi_indices",
    "pack",
    "padding_report",
    "physical_bytes",
    "physical_dimensions",
    "physical_elements",
    "physical_position",
    "relayout",
    "stored_bits",
    "unpack",
]

# Loaded on first use: they stand above this file.
_HOMES = {
    "PaddingReport": "xlashape.shape.padding",
    "pack": "xlashape.shape.buffers",
    "padding_report": "xlashape.shape.padding",
    "relayout": "xlashape.shape.buffers",
    "unpack": "xlashape.shape.buffers",
}


def linear_index(shape: Shape, index: Iterable[int]) -> int:
    """The position in the buffer, in elements, of the element at `index`: one int a dimension, NumPy's ints too.

    InvalidIndexError for too few or too many numbers, one outside its dimension, a bool or a float; InvalidShapeError for
    what is no array or has an unbounded dimension; SizeOverflowError if the padded array is beyond int64.

    >>> linear_index(Shape.parse("bf16[4,8]{1,0:T(2,4)(2,1)}"), (1, 3))
    7
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    dimensions, program = forward_program(shape)
    return program.run(checked_index(shape, dimensions, index))[0]


def multi_index(shape: Shape, position: int) -> tuple[int, ...] | None:
    """The index of the element at `position` of the buffer, None where there is padding. The inverse of `linear_index`.

    InvalidIndexError for a position outside the buffer, a bool or a float; errors for shapes as in `linear_index`.

    >>> shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    >>> multi_index(shape, 17), multi_index(shape, 18)
    ((2, 3), None)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    array = geometry(shape)
    number = checked_position(shape, array.elements, position)
    program, conditions = _inverse(shape)
    results = program.run((number,))
    for output, size in conditions:
        if results[output] >= size:
            return None
    return tuple(results[: len(array.dimensions)])


def linear_indices(shape: Shape, rows: ArrayLike) -> NDArray[np.int64]:
    """`linear_index` of each row: int64[n, rank] → int64[n].

    `rows` is an array of any integer type and strides, read-only ones too, or nested sequences of ints. The answer is whole
    or an error: InvalidIndexError names the first wrong row.

    >>> linear_indices(Shape.parse("f32[3,5]{1,0:T(2,2)}"), [(0, 0), (2, 3)]).tolist()
    [0, 17]
    """
    from xlashape.shape import tile_batches  # NumPy loads on first use

    if type(shape) is not Shape:
        raise not_a_shape(shape)
    dimensions, program = forward_program(shape)
    return tile_batches.linear_indices(shape, dimensions, program, rows)


def multi_indices(shape: Shape, positions: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`multi_index` of each position: int64[n] → (int64[n, rank], bool[n]).

    The second array says which positions hold an element; the rows of the others are filled with -1. `positions` is an
    array of any integer type and strides, or a sequence of ints. InvalidIndexError names the first position that is outside
    the buffer.

    >>> rows, is_element = multi_indices(Shape.parse("f32[3,5]{1,0:T(2,2)}"), [17, 18])
    >>> rows.tolist(), is_element.tolist()
    ([[2, 3], [-1, -1]], [True, False])
    """
    from xlashape.shape import tile_batches  # NumPy loads on first use

    if type(shape) is not Shape:
        raise not_a_shape(shape)
    array = geometry(shape)
    program, conditions = _inverse(shape)
    return tile_batches.multi_indices(shape, len(array.dimensions), array.elements, program, conditions, positions)


def physical_dimensions(shape: Shape) -> tuple[int, ...]:
    """The sizes after all tiles, most major first; the tail padding is behind them. Errors as in `linear_index`.

    >>> physical_dimensions(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}"))
    (3, 3, 4, 128, 2, 1)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).physical


def physical_elements(shape: Shape) -> int:
    """The elements of the buffer, padding included. Errors as in `linear_index`.

    >>> physical_elements(Shape.parse("f32[3,5]{1,0:T(8,128)}"))
    1024
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).elements


def physical_bytes(shape: Shape) -> int:
    """The bytes of the buffer, padding included; elements packed by `E(n)` share bytes. Errors as in `linear_index`.

    Of an array with split configs this is the whole, of one with dynamic dimensions that of their bounds, without the
    metadata that some devices put before the data.

    >>> physical_bytes(Shape.parse("f32[3,5]{1,0:T(8,128)}")), physical_bytes(Shape.parse("s4[5]{0:E(4)}"))
    (4096, 3)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    size = ceil_div(geometry(shape).elements * stored_bits(shape), 8)
    if size > INT64_MAX:
        raise SizeOverflowError(
            f"the bytes of {brief(shape)}, padding included, do not fit int64: {size}", field="shape"
        )
    return size


def stored_bits(shape: Shape) -> int:
    """The bits from one element of the buffer to the next: the layout's `E(n)`, else the type's own, a byte at least.

    >>> stored_bits(Shape.parse("s4[5]")), stored_bits(Shape.parse("s4[5]{0:E(4)}")), stored_bits(Shape.parse("pred[5]"))
    (8, 4, 8)
    """
    array = array_of(shape)
    bits = array.layout.element_size_in_bits if array.layout else 0
    return bits or max(8, array.element_type.bit_width)


@lru_cache(maxsize=4096)
def forward_program(shape: Shape) -> tuple[tuple[int, ...], Program]:
    """The sizes, and the program index → position."""
    array = geometry(shape)
    if not array.elements:
        return array.dimensions, Program(len(array.dimensions), (), ((),))
    return array.dimensions, trace(array.dimensions, lambda index: [physical_position(shape, index)])


@lru_cache(maxsize=4096)
def _inverse(shape: Shape) -> tuple[Program, tuple[tuple[int, int], ...]]:
    """The program position → (index…, further values…), and conditions (output, size): there is an element where output < size."""
    sizes: list[int] = []

    def formula(position: Sequence[Any]) -> list[Any]:
        index, conditions = logical_index(shape, position[0])
        sizes.extend(condition.size for condition in conditions)
        return [*index, *[condition.value for condition in conditions]]

    array = geometry(shape)
    rank = len(array.dimensions)
    program = trace((array.elements,), formula)
    # A condition is mostly about a number that is part of the index already.
    outputs = list(program.outputs[:rank])
    conditions: list[tuple[int, int]] = []
    for terms, size in zip(program.outputs[rank:], sizes, strict=True):
        if terms not in outputs:
            outputs.append(terms)
        condition = (outputs.index(terms), size)
        if condition not in conditions:
            conditions.append(condition)
    return program._replace(outputs=tuple(outputs)), tuple(conditions)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
