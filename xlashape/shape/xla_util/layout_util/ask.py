"""Questions about a layout: its order, its properties, its splits, and the positions of elements. XLA's `LayoutUtil`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidShapeError
from xlashape.math import ceil_div, checked_product
from xlashape.shape import tiling
from xlashape.shape.arguments import array_of, dimension_number
from xlashape.shape.parts import constructor_checks
from xlashape.shape.parts.checks import int64s, shown
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, SplitConfig, Tile
from xlashape.shape.tiling.untiled import moves_nothing
from xlashape.shape.value.equality import equal_layouts, ignored_fields
from xlashape.shape.value.shape import Layout, Shape


def layout_of(shape: Shape) -> Layout:
    """The layout of an array; the default one if it has none."""
    array = array_of(shape)
    return Layout.default(array.rank) if array.layout is None else array.layout


def has_layouts(shape: Shape) -> bool:
    """Whether it is an array or a buffer of one."""
    return shape.is_array or shape.is_buffer


__all__ = [
    "are_dimensions_consecutive",
    "byte_strides_is_major_to_minor",
    "delinearize_index_for_nested_tiling",
    "equal",
    "get_split_config",
    "has_ascending_layout",
    "has_descending_layout",
    "human_string",
    "is_dense_array",
    "is_monotonic_with_dim_0_major",
    "is_monotonic_with_dim_0_minor",
    "is_untiled_layout",
    "linear_index",
    "linear_index_for_nested_tiling",
    "major",
    "make_logical_to_physical",
    "max_elements_in_per_split",
    "max_split_size",
    "memory_space",
    "minor",
    "minor_to_major",
]


def equal(lhs: Layout, rhs: Layout, *, ignore: Iterable[str] = ()) -> bool:
    """Whether two layouts are the same to XLA, which ignores `dynamic_shape_metadata_prefix_bytes`.

    `ignore` names what else does not count, as the methods of XLA's `Layout::Equal`: `tiles`, `tail_padding_alignment_in_elements`,
    `index_primitive_type`, `pointer_primitive_type`, `element_size`, `memory_space`, `split_configs`, `physical_shape`; and
    `minor_to_major_only` for all of them. `==` compares every field, and unknown protobuf fields.

    >>> equal(Layout.parse("{0}"), Layout.parse("{0:M(8)}")), equal(Layout.parse("{0}"), Layout.parse("{0:S(1)}"))
    (True, False)
    >>> equal(Layout.parse("{0:T(8)S(5)}"), Layout.parse("{0:S(1)}"), ignore=["tiles", "memory_space"])
    True
    """
    return equal_layouts(lhs, rhs, ignored_fields(ignore))


def human_string(layout: Layout) -> str:
    """The text of a layout."""
    return str(layout)


def minor_to_major(value: Shape | Layout) -> tuple[int, ...]:
    """The order of a layout, or of an array's layout."""
    return value.minor_to_major if isinstance(value, Layout) else layout_of(value).minor_to_major


def major(layout: Layout, physical_dimension_number: int) -> int:
    """The dimension that is `physical_dimension_number`-th most major, counted from 0.

    >>> major(Layout((0, 2, 1)), 0)
    1
    """
    return layout.major_to_minor[dimension_number(layout.rank, physical_dimension_number, "physical_dimension_number")]


def minor(layout: Layout, physical_dimension_number: int) -> int:
    """The dimension that is `physical_dimension_number`-th most minor, counted from 0.

    >>> minor(Layout((0, 2, 1)), 0)
    0
    """
    return layout.minor_to_major[dimension_number(layout.rank, physical_dimension_number, "physical_dimension_number")]


def make_logical_to_physical(layout: Layout) -> tuple[int, ...]:
    """For every dimension the number of dimensions that are more major: the inverse of `major`.

    >>> make_logical_to_physical(Layout((0, 2, 1)))
    (2, 0, 1)
    """
    order = layout.major_to_minor
    physical = [0] * len(order)
    for number, dimension in enumerate(order):
        physical[dimension] = number
    return tuple(physical)


def memory_space(shape: Shape) -> int:
    """The memory space of an array's layout, 0 without a layout."""
    layout = array_of(shape).layout
    return 0 if layout is None else layout.memory_space


def is_dense_array(shape: Shape) -> bool:
    """Whether it is an array; XLA no longer has sparse arrays."""
    return shape.is_array


def is_untiled_layout(tiles: Layout | Iterable[Tile | Iterable[int]], sizes: Iterable[int] | None = None) -> bool:
    """Whether an array of these sizes lies under these tiles as it lies without tiles: nothing moves, and nothing is padded.

    `tiles` are those of a layout, or the layout itself. `sizes` are the physical sizes, most major first. Without sizes only a layout
    without tiles is untiled, because every tile moves or pads some array.

    XLA's function of 2025 (asked in libtpu 0.0.42) looks at each tile by itself. It says no of some empty arrays, and of tiles of which
    one moves elements back to where they were.

    >>> is_untiled_layout([(8, 128)], (64, 128)), is_untiled_layout([(8, 128)], (64, 256)), is_untiled_layout([(8, 128)], (3, 128))
    (True, False, False)
    >>> is_untiled_layout(Layout.parse("{1,0}")), is_untiled_layout(Layout.parse("{1,0:T(8,128)}"))
    (True, False)
    """
    applied = tiles.tiles if isinstance(tiles, Layout) else constructor_checks.tiles_of(tiles)
    if sizes is None:
        return not applied
    numbers = int64s(sizes, "sizes")
    for i, size in enumerate(numbers):
        if size < 0:
            raise InvalidArgumentError(f"a size is 0 or more, not {shown(size)}", field=("sizes", i))
    return moves_nothing(applied, numbers)


def has_descending_layout(layout: Layout) -> bool:
    """Whether the order is major to minor, `{n-1,…,0}`."""
    return is_monotonic_with_dim_0_major(layout)


def has_ascending_layout(layout: Layout) -> bool:
    """Whether the order is `{0,…,n-1}`."""
    return is_monotonic_with_dim_0_minor(layout)


def is_monotonic_with_dim_0_major(layout: Layout) -> bool:
    """Whether dimension 0 varies slowest and every further one faster; true for 0 and 1 dimensions."""
    return layout.major_to_minor == tuple(range(layout.rank))


def is_monotonic_with_dim_0_minor(layout: Layout) -> bool:
    """Whether dimension 0 varies fastest and every further one slower; true for 0 and 1 dimensions."""
    return layout.minor_to_major == tuple(range(layout.rank))


def are_dimensions_consecutive(layout: Layout, dims: Iterable[int]) -> bool:
    """Whether the dimensions are neighbours in the layout's order. They may be given in any order.

    >>> are_dimensions_consecutive(Layout((0, 2, 1)), (2, 0)), are_dimensions_consecutive(Layout((0, 2, 1)), (0, 1))
    (True, False)
    """
    positions = sorted([layout.minor_to_major.index(dimension_number(layout.rank, dim, "dim")) for dim in dims])
    return all(b == a + 1 for a, b in pairwise(positions))


def byte_strides_is_major_to_minor(
    byte_strides: Sequence[int], dims: Sequence[int], element_type: PrimitiveType | str | int
) -> bool:
    """Whether strides are those of an array with the default layout; the strides of dimensions of size 1 are compared too.

    >>> byte_strides_is_major_to_minor((12, 4), (2, 3), "f32"), byte_strides_is_major_to_minor((4, 8), (2, 3), "f32")
    (True, False)
    """
    strides, sizes = list(byte_strides), list(dims)
    if len(strides) != len(sizes):
        raise InvalidArgumentError(f"{len(strides)} strides for {len(sizes)} dimensions", field="byte_strides")
    stride = ceil_div(PrimitiveType.of(element_type).bit_width, 8)
    for size, actual in zip(reversed(sizes), reversed(strides), strict=True):
        if actual != stride:
            return False
        stride *= size
    return True


def get_split_config(shape: Shape | Layout, dim: int | None = None) -> SplitConfig | None:
    """The split of a dimension, or None. `dim` is its number in the shape; a SplitConfig has its physical number.

    Without `dim`: the only split of the layout, or None if nothing is split. InvalidShapeError if several dimensions are split.

    >>> get_split_config(Shape.parse("f32[8,4]{0,1:SC(1:2)}")), get_split_config(Shape.parse("f32[8,4]{0,1:SC(1:2)}"), 1)
    (SplitConfig('(1:2)'), None)
    """
    layout = shape if isinstance(shape, Layout) else layout_of(shape)
    if dim is None:
        if len(layout.split_configs) > 1:
            count = len(layout.split_configs)
            raise InvalidShapeError(f"{layout} splits {count} dimensions: `dim` says which", field="shape")
        return layout.split_configs[0] if layout.split_configs else None
    physical = make_logical_to_physical(layout)[dimension_number(layout.rank, dim, "dim")]
    return next((split for split in layout.split_configs if split.dimension == physical), None)


def max_split_size(shape: Shape, dim: int) -> int:
    """The size of the largest part of a dimension; its size where it is not split.

    >>> max_split_size(Shape.parse("f32[100,5]{1,0:SC(0:30,40)}"), 0)
    60
    """
    array = array_of(shape)
    size = array.dimensions[dimension_number(layout_of(array).rank, dim, "dim")]
    split = get_split_config(array, dim)
    if split is None or not split.split_indices or size == UNBOUNDED_SIZE:
        return size
    ends = (*split.split_indices, size)
    return max([end - start for start, end in zip((0, *ends), ends, strict=False)])


def max_elements_in_per_split(shape: Shape) -> int:
    """The number of elements of the largest part of an array, padding not counted.

    >>> max_elements_in_per_split(Shape.parse("f32[100,5]{1,0:SC(0:30,40)}"))
    300
    """
    array = array_of(shape)
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{array} has an unbounded dimension, so no number of elements", field="shape")
    return checked_product([max_split_size(array, dim) for dim in range(array.rank)], "the number of elements")


def linear_index(shape: Shape, indices: Iterable[int]) -> int:
    """The position of an element in the array's buffer, in elements: all tiles count, and combine.

    XLA's `LinearIndex` applies the first tile alone, and returns the index of a one-dimensional array unchanged. Where that is
    exact, the two functions are equal.

    >>> linear_index(Shape.parse("f32[3,5]{1,0:T(2,2)}"), (2, 3))
    17
    """
    return tiling.linear_index(shape, indices)


def linear_index_for_nested_tiling(shape: Shape, indices: Iterable[int]) -> int:
    """The position of an element in the array's buffer, in elements. XLA's function applies all tiles but not combine."""
    return tiling.linear_index(shape, indices)


def delinearize_index_for_nested_tiling(shape: Shape, linear_index: int) -> tuple[int, ...]:
    """The element at a position of the array's buffer; the inverse of `linear_index_for_nested_tiling`.

    InvalidIndexError where the position is padding or outside the buffer; `tiling.multi_index` returns None for padding.

    >>> delinearize_index_for_nested_tiling(Shape.parse("f32[3,5]{1,0:T(2,2)}"), 17)
    (2, 3)
    """
    index = tiling.multi_index(shape, linear_index)
    if index is None:
        raise InvalidIndexError(f"position {shown(linear_index)} of {shape} is padding", field="linear_index")
    return index
