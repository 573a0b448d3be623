"""Tiled indexing: where an element lies in the buffer of its array, which element lies there, how big the buffer is.

>>> shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
>>> linear_index(shape, (2, 3)), multi_index(shape, 17), physical_elements(shape), physical_bytes(shape)
(17, (2, 3), 24, 96)

Positions count elements, not bytes, from the start of the data (behind the sizes of dynamic dimensions, where a layout
has `dynamic_shape_metadata_prefix_bytes`). All tiles count, and so do combine (`*`), tail padding and the bounds of
dynamic dimensions; split configs are ignored. A shape without a layout has the default one. A buffer counts as the
array inside.

XLA's nearest relatives are `LayoutUtil::LinearIndex` (the first tile alone), `LayoutUtil::LinearIndexForNestedTiling`
(no combine) and `ShapeUtil::ArraySize` (the first tile's padding alone); these functions are exact.

- `formula`: the formula itself, for ints, arrays and expressions: `physical_position`, `logical_index`
- `floor_sums`: the form that the formula is compiled to; the compiled formulas of shapes, kept in a cache
- `batches`: compiled formulas over NumPy arrays
- `untiled`: whether tiles move nothing
- `padding`: the dimensions, elements and bytes of a buffer; how much of it is padding, and why
- `buffers`, `strided_copy`: arrays to buffers and back
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlashape.shape.arguments import checked_index, checked_position, not_a_shape
from xlashape.shape.tiling.floor_sums import index_sums, position_sums
from xlashape.shape.tiling.formula import Condition, logical_index, physical_position
from xlashape.shape.tiling.padding import physical_bytes, physical_dimensions, physical_elements, stored_bits
from xlashape.shape.value.shape import Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from xlashape.shape.tiling.buffers import pack as pack
    from xlashape.shape.tiling.buffers import relayout as relayout
    from xlashape.shape.tiling.buffers import unpack as unpack
    from xlashape.shape.tiling.padding import PaddingReport as PaddingReport
    from xlashape.shape.tiling.padding import padding_report as padding_report


# Names that are imported on first use, so that NumPy loads no earlier: public name → its module.
_HOMES = {
    "PaddingReport": "xlashape.shape.tiling.padding",
    "pack": "xlashape.shape.tiling.buffers",
    "padding_report": "xlashape.shape.tiling.padding",
    "relayout": "xlashape.shape.tiling.buffers",
    "unpack": "xlashape.shape.tiling.buffers",
}

__all__ = [
    *_HOMES,
    "Condition",
    "linear_index",
    "linear_indices",
    "logical_index",
    "multi_index",
    "multi_indices",
    "physical_bytes",
    "physical_dimensions",
    "physical_elements",
    "physical_position",
    "stored_bits",
]  # pyright: ignore[reportUnsupportedDunderAll] - `__getattr__` imports the names in `_HOMES`


def linear_index(shape: Shape, index: Iterable[int]) -> int:
    """The position in the buffer, in elements, of the element at `index`. An index has an int, which may be NumPy's,
    for each dimension.

    InvalidIndexError for too few or too many numbers, a number outside its dimension, a bool or a float;
    InvalidShapeError for a shape that is not an array or has an unbounded dimension; SizeOverflowError if the padded
    array has more elements than int64 can count.

    >>> linear_index(Shape.parse("bf16[4,8]{1,0:T(2,4)(2,1)}"), (1, 3))
    7
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    dimensions, sums = position_sums(shape)
    return sums.evaluate(checked_index(shape, dimensions, index))[0]


def multi_index(shape: Shape, position: int) -> tuple[int, ...] | None:
    """The index of the element at `position` of the buffer, None where there is padding. The inverse of `linear_index`.

    InvalidIndexError for a position outside the buffer, a bool or a float; errors for shapes as in `linear_index`.

    >>> shape = Shape.parse("f32[3,5]{1,0:T(2,2)}")
    >>> multi_index(shape, 17), multi_index(shape, 18)
    ((2, 3), None)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    array, sums, conditions = index_sums(shape)
    results = sums.evaluate((checked_position(shape, array.elements, position),))
    for output, size in conditions:
        if results[output] >= size:
            return None
    return tuple(results[: len(array.dimensions)])


def linear_indices(shape: Shape, rows: ArrayLike) -> NDArray[np.int64]:
    """`linear_index` of each row: int64[n, rank] → int64[n].

    `rows` is an array of any integer type and strides, also a read-only one, or nested sequences of ints. If a row is
    wrong there is no result: InvalidIndexError names the first wrong row.

    >>> linear_indices(Shape.parse("f32[3,5]{1,0:T(2,2)}"), [(0, 0), (2, 3)]).tolist()
    [0, 17]
    """
    from xlashape.shape.tiling import batches  # NumPy loads on first use

    if type(shape) is not Shape:
        raise not_a_shape(shape)
    dimensions, sums = position_sums(shape)
    return batches.linear_indices(shape, dimensions, sums, rows)


def multi_indices(shape: Shape, positions: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`multi_index` of each position: int64[n] → (int64[n, rank], bool[n]).

    The second array says which positions hold an element; the rows of the others are filled with -1. `positions` is an
    array of any integer type and strides, or a sequence of ints. InvalidIndexError names the first position that is
    outside the buffer.

    >>> rows, is_element = multi_indices(Shape.parse("f32[3,5]{1,0:T(2,2)}"), [17, 18])
    >>> rows.tolist(), is_element.tolist()
    ([[2, 3], [-1, -1]], [True, False])
    """
    from xlashape.shape.tiling import batches  # NumPy loads on first use

    if type(shape) is not Shape:
        raise not_a_shape(shape)
    array, sums, conditions = index_sums(shape)
    return batches.multi_indices(shape, len(array.dimensions), array.elements, sums, conditions, positions)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
