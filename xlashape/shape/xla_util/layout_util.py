"""XLA's `LayoutUtil`: making layouts, asking about them, checking them against shapes, tiled indices.

Functions that change their argument in XLA return a new value here; functions that return a status in XLA raise an
error. An array without a layout counts as one with the default layout if a function needs an order. Functions with a
dimension number as parameter also accept negative numbers.

Three functions are exact where XLA takes a shortcut. `linear_index` applies all tiles, while XLA's function applies the
first tile alone; `linear_index_for_nested_tiling` and its inverse also apply the combine size `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import overload

from xlashape.base.math import ceil_div, checked_product
from xlashape.errors import InvalidArgumentError, InvalidIndexError, InvalidShapeError
from xlashape.shape import tiling
from xlashape.shape.arguments import array_of, dimension_number, guard_all
from xlashape.shape.parts.checks import brief, int64s, shown
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, SplitConfig, Tile
from xlashape.shape.tiling.untiled import moves_nothing
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape, check_layout_fits, equal_layouts, ignored_fields, tiles_of

__all__ = [
    "are_dimensions_consecutive", "byte_strides_is_major_to_minor", "clear_layout", "clear_tiles",
    "copy_layout_between_shapes", "delinearize_index_for_nested_tiling", "equal", "get_default_layout_for_r2",
    "get_default_layout_for_r3", "get_default_layout_for_r4", "get_default_layout_for_rank",
    "get_default_layout_for_shape", "get_split_config", "get_with_default_layout", "has_any_layout",
    "has_ascending_layout", "has_custom_element_size_in_bits", "has_descending_layout", "has_layout", "human_string",
    "is_dense_array", "is_monotonic_with_dim_0_major", "is_monotonic_with_dim_0_minor", "is_untiled_layout",
    "layouts_in_shapes_equal", "linear_index", "linear_index_for_nested_tiling", "major", "make_ascending_layout",
    "make_descending_layout", "make_layout", "make_layout_from_major_to_minor", "make_logical_to_physical",
    "max_elements_in_per_split", "max_split_size", "memory_space", "minor", "minor_to_major", "move_dim_to_major",
    "move_dim_to_minor", "set_to_default_layout", "validate_layout_for_shape", "validate_layout_in_shape",
]  # fmt: skip


_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID


def make_layout(
    minor_to_major: Iterable[int],
    tiles: Iterable[Tile | Iterable[int]] = (),
    tail_padding_alignment_in_elements: int = 1,
    index_primitive_type: PrimitiveType | str | int = _INVALID,
    pointer_primitive_type: PrimitiveType | str | int = _INVALID,
    element_size_in_bits: int = 0,
    memory_space: int = 0,
    split_configs: Iterable[SplitConfig] = (),
    physical_shape: Shape | None = None,
    dynamic_shape_metadata_prefix_bytes: int = 0,
) -> Layout:
    """A layout; the same as calling `Layout`.

    >>> make_layout((1, 0), [(8, 128)], memory_space=1)
    Layout('{1,0:T(8,128)S(1)}')
    """
    return Layout(
        minor_to_major,
        tiles,
        tail_padding_alignment_in_elements,
        index_primitive_type,
        pointer_primitive_type,
        element_size_in_bits,
        memory_space,
        split_configs,
        physical_shape,
        dynamic_shape_metadata_prefix_bytes,
    )


def make_layout_from_major_to_minor(major_to_minor: Iterable[int]) -> Layout:
    """The layout with these dimensions, the one that varies slowest first.

    >>> make_layout_from_major_to_minor((0, 2, 1))
    Layout('{1,2,0}')
    """
    return Layout(tuple(major_to_minor)[::-1])


def make_descending_layout(num_dims: int) -> Layout:
    """The layout with the order major to minor, `{n-1,…,0}`."""
    return Layout.default(num_dims)


def make_ascending_layout(num_dims: int) -> Layout:
    """The layout with the order minor to major, `{0,…,n-1}`."""
    return Layout(Layout.default(num_dims).major_to_minor)


def get_default_layout_for_rank(num_dims: int) -> Layout:
    """The default layout, major to minor.

    >>> get_default_layout_for_rank(3)
    Layout('{2,1,0}')
    """
    return Layout.default(num_dims)


def get_default_layout_for_r2() -> Layout:
    """The default layout of two dimensions, `{1,0}`."""
    return Layout.default(2)


def get_default_layout_for_r3() -> Layout:
    """The default layout of three dimensions, `{2,1,0}`."""
    return Layout.default(3)


def get_default_layout_for_r4() -> Layout:
    """The default layout of four dimensions, `{3,2,1,0}`."""
    return Layout.default(4)


def get_default_layout_for_shape(shape: Shape) -> Layout:
    """The default layout of an array's number of dimensions."""
    return Layout.default(array_of(shape).rank)


def move_dim_to_major(layout: Layout, dim: int) -> Layout:
    """The layout with dimension `dim` varying slowest; the others keep their order, and the other parts of the layout
    are kept.

    >>> move_dim_to_major(Layout((1, 2, 0)), 1)
    Layout('{2,0,1}')
    """
    number = dimension_number(layout.rank, dim, "dim")
    return layout.replace(minor_to_major=[*[d for d in layout.minor_to_major if d != number], number])


def move_dim_to_minor(layout: Layout, dim: int) -> Layout:
    """The layout with dimension `dim` varying fastest.

    >>> move_dim_to_minor(Layout((1, 2, 0)), 0)
    Layout('{0,1,2}')
    """
    number = dimension_number(layout.rank, dim, "dim")
    return layout.replace(minor_to_major=[number, *[d for d in layout.minor_to_major if d != number]])


# -- questions to one layout -------------------------------------------------------------------


def layout_of(shape: Shape) -> Layout:
    """The layout of an array; the default one if it has none."""
    array = array_of(shape)
    return Layout.default(array.rank) if array.layout is None else array.layout


def has_layouts(shape: Shape) -> bool:
    """Whether the shape is an array, or a buffer of an array."""
    return shape.is_array or shape.is_buffer


def equal(lhs: Layout, rhs: Layout, *, ignore: Iterable[str] = ()) -> bool:
    """Whether two layouts are the same to XLA, which ignores `dynamic_shape_metadata_prefix_bytes`.

    `ignore` names what else does not count, as the methods of XLA's `Layout::Equal`: `tiles`,
    `tail_padding_alignment_in_elements`, `index_primitive_type`, `pointer_primitive_type`, `element_size`,
    `memory_space`, `split_configs`, `physical_shape`; and `minor_to_major_only` for all of these. `==` compares every
    field, also unknown protobuf fields.

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
    """Whether the shape is an array; XLA no longer has sparse arrays."""
    return shape.is_array


def is_untiled_layout(tiles: Layout | Iterable[Tile | Iterable[int]], sizes: Iterable[int] | None = None) -> bool:
    """Whether an array of these sizes lies in its buffer with these tiles as it lies without tiles: nothing moves, and
    nothing is padded.

    `tiles` are those of a layout, or the layout itself. `sizes` are the physical sizes, most major first. Without sizes
    only a layout without tiles is untiled, because every tile moves or pads some array.

    XLA's function, as called in libtpu 0.0.42, looks at each tile by itself. It returns false for some empty arrays,
    and for tiles of which one moves elements back to where they were.

    >>> (
    ...     is_untiled_layout([(8, 128)], (64, 128)),
    ...     is_untiled_layout([(8, 128)], (64, 256)),
    ...     is_untiled_layout([(8, 128)], (3, 128)),
    ... )
    (True, False, False)
    >>> is_untiled_layout(Layout.parse("{1,0}")), is_untiled_layout(Layout.parse("{1,0:T(8,128)}"))
    (True, False)
    """
    applied = tiles.tiles if isinstance(tiles, Layout) else tiles_of(tiles)
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
    """Whether strides are those of an array with the default layout; the strides of dimensions of size 1 are compared
    too.

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

    Without `dim`: the only split of the layout, or None if nothing is split. InvalidShapeError if several dimensions
    are split.

    >>> (
    ...     get_split_config(Shape.parse("f32[8,4]{0,1:SC(1:2)}")),
    ...     get_split_config(Shape.parse("f32[8,4]{0,1:SC(1:2)}"), 1),
    ... )
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
    """The position of an element in the array's buffer, in elements. All tiles are applied, also the combine size `*`.

    XLA's `LinearIndex` applies the first tile alone, and returns the index of a one-dimensional array unchanged. If
    that is exact, the two functions are equal.

    >>> linear_index(Shape.parse("f32[3,5]{1,0:T(2,2)}"), (2, 3))
    17
    """
    return tiling.linear_index(shape, indices)


def linear_index_for_nested_tiling(shape: Shape, indices: Iterable[int]) -> int:
    """The position of an element in the array's buffer, in elements. XLA's function applies all tiles, but not the
    combine size `*`.
    """
    return tiling.linear_index(shape, indices)


def delinearize_index_for_nested_tiling(shape: Shape, linear_index: int) -> tuple[int, ...]:
    """The element at a position of the array's buffer; the inverse of `linear_index_for_nested_tiling`.

    InvalidIndexError if the position is padding or outside the buffer; `tiling.multi_index` returns None for padding.

    >>> delinearize_index_for_nested_tiling(Shape.parse("f32[3,5]{1,0:T(2,2)}"), 17)
    (2, 3)
    """
    index = tiling.multi_index(shape, linear_index)
    if index is None:
        raise InvalidIndexError(f"position {shown(linear_index)} of {shape} is padding", field="linear_index")
    return index


# -- the layouts in a shape --------------------------------------------------------------------


@overload
def clear_layout(shape: Shape) -> Shape: ...
@overload
def clear_layout(shape: ProgramShape) -> ProgramShape: ...
def clear_layout(shape: Shape | ProgramShape) -> Shape | ProgramShape:
    """The shape, or the program, without layouts.

    >>> clear_layout(Shape.parse("(f32[2]{0}, token[])"))
    Shape('(f32[2], token[])')
    """
    return shape.map_shapes(clear_layout) if isinstance(shape, ProgramShape) else shape.without_layout()


def clear_tiles(shape: Shape) -> Shape:
    """The shape without tiles.

    >>> clear_tiles(Shape.parse("f32[2,3]{1,0:T(8,128)S(1)}"))
    Shape('f32[2,3]{1,0:S(1)}')
    """
    if shape.is_array:
        return shape if shape.layout is None else shape.with_layout(shape.layout.replace(tiles=()))
    return shape.replace(tuple_shapes=[clear_tiles(inner) for inner in shape.tuple_shapes])


@overload
def set_to_default_layout(shape: Shape) -> Shape: ...
@overload
def set_to_default_layout(shape: ProgramShape) -> ProgramShape: ...
def set_to_default_layout(shape: Shape | ProgramShape) -> Shape | ProgramShape:
    """The shape, or the program, with every array's order of dimensions major to minor.

    As in XLA the other parts of a layout are kept: tiles, memory space and so on.

    >>> set_to_default_layout(Shape.parse("f32[2,3]{0,1:S(1)}"))
    Shape('f32[2,3]{1,0:S(1)}')
    """
    if isinstance(shape, ProgramShape):
        return shape.map_shapes(set_to_default_layout)
    if shape.is_array:
        default = Layout.default(shape.rank)
        order = default.minor_to_major
        return shape.with_layout(default if shape.layout is None else shape.layout.replace(minor_to_major=order))
    return shape.replace(tuple_shapes=[set_to_default_layout(inner) for inner in shape.tuple_shapes])


def get_with_default_layout(shape: Shape) -> Shape:
    """The same as `set_to_default_layout`. In XLA, `SetToDefaultLayout` changes its argument and this function does
    not.
    """
    return set_to_default_layout(shape)


def copy_layout_between_shapes(src: Shape, dst: Shape) -> Shape:
    """`dst` with the layouts of `src`, array by array. An array whose counterpart in `src` has no layout gets none.

    InvalidShapeError unless both have the same tuples, with arrays of the same number of dimensions at the same
    indices, or if a layout does not fit its new array. Tokens and opaques in `src` are skipped.

    >>> copy_layout_between_shapes(Shape.parse("(f32[2,3]{0,1})"), Shape.parse("(s8[4,5])"))
    Shape('(s8[4,5]{0,1})')
    """
    if has_layouts(src) and has_layouts(dst):
        source, target = array_of(src), array_of(dst)
        if source.rank != target.rank:
            raise InvalidShapeError(f"{source} has {source.rank} dimensions, {target} has {target.rank}", field="dst")
        if source.layout is not None:
            validate_layout_for_shape(source.layout, target)
        copied = target.with_layout(source.layout)
        return copied if dst.is_array else dst.replace(tuple_shapes=(copied,))
    if not has_layouts(src) and not src.is_tuple:
        return dst
    if not (src.is_tuple and dst.is_tuple) or len(src.tuple_shapes) != len(dst.tuple_shapes):
        raise InvalidShapeError(f"{brief(src)} and {brief(dst)} do not have the same structure", field="dst")
    inner = zip(src.tuple_shapes, dst.tuple_shapes, strict=True)
    return dst.replace(tuple_shapes=[copy_layout_between_shapes(a, b) for a, b in inner])


def has_layout(shape: Shape | ProgramShape) -> bool:
    """Whether every array in the shape, or in the program shape, has a layout."""
    if isinstance(shape, ProgramShape):
        return all(has_layout(inner) for inner in (*shape.parameters, shape.result))
    if shape.is_array:
        return shape.layout is not None
    return all(has_layout(inner) for inner in shape.tuple_shapes)


def has_any_layout(shape: Shape) -> bool:
    """Whether some array in the shape has a layout; tokens and opaques, which need none, count as having one.

    >>> has_any_layout(Shape.parse("()")), has_any_layout(Shape.parse("(token[])"))
    (False, True)
    """
    if shape.is_tuple or shape.is_buffer:
        return any(has_any_layout(inner) for inner in shape.tuple_shapes)
    return not shape.is_array or shape.layout is not None


def has_custom_element_size_in_bits(shape: Shape) -> bool:
    """Whether some array in the shape has `E(n)`."""
    if shape.is_array:
        return shape.layout is not None and shape.layout.element_size_in_bits != 0
    return any(has_custom_element_size_in_bits(inner) for inner in shape.tuple_shapes)


def layouts_in_shapes_equal(lhs: Shape, rhs: Shape) -> bool:
    """Whether the layouts are equal, array by array; element types and sizes are ignored.

    False if two tuples differ in length, if two arrays differ in their number of dimensions, or if the structures
    differ in another way. True if `lhs` is a token or an opaque.
    """
    if lhs.is_tuple:
        return (
            rhs.is_tuple
            and len(lhs.tuple_shapes) == len(rhs.tuple_shapes)
            and all(layouts_in_shapes_equal(a, b) for a, b in zip(lhs.tuple_shapes, rhs.tuple_shapes, strict=True))
        )
    if not has_layouts(lhs):
        return True
    if not has_layouts(rhs):
        return False
    a, b = array_of(lhs), array_of(rhs)
    return a.rank == b.rank and equal_layouts(a.layout, b.layout)


def validate_layout_for_shape(layout: Layout, shape: Shape) -> None:
    """Raises InvalidShapeError if the layout cannot be that of the shape.

    It must have as many dimensions as the shape, and every tile at least one size. No dimension may be split twice, and
    split indices must ascend strictly inside their dimension. Index and pointer types and a physical shape are for
    sparse arrays only. For tokens and opaques every layout is valid, for tuples none.
    """
    if shape.is_tuple:
        raise InvalidShapeError("a tuple has no layout of its own", field="layout")
    if shape.is_token or shape.is_opaque:
        return
    array = array_of(shape)
    check_layout_fits(array.dimensions, layout)
    if layout.index_primitive_type is not _INVALID:
        raise InvalidShapeError(
            "index_primitive_type belongs to sparse arrays", field=("layout", "index_primitive_type")
        )
    if layout.pointer_primitive_type is not _INVALID:
        raise InvalidShapeError(
            "pointer_primitive_type belongs to sparse arrays", field=("layout", "pointer_primitive_type")
        )
    if layout.physical_shape is not None:
        raise InvalidShapeError("physical_shape belongs to sparse arrays", field=("layout", "physical_shape"))
    for i, tile in enumerate(layout.tiles):
        if not tile.dimensions:
            raise InvalidShapeError("a tile has one size or more", field=("layout", "tiles", i, "dimensions"))
    seen: set[int] = set()
    for i, split in enumerate(layout.split_configs):
        field = ("layout", "split_configs", i)
        if split.dimension in seen:
            raise InvalidShapeError(f"physical dimension {split.dimension} is split twice", field=field)
        seen.add(split.dimension)
        size = array.dimensions[layout.major_to_minor[split.dimension]]
        if size == UNBOUNDED_SIZE:
            continue
        ends = (0, *split.split_indices, size)
        if split.split_indices and any(b <= a for a, b in pairwise(ends)):
            raise InvalidShapeError(
                f"split indices ascend strictly between 0 and {size}", field=(*field, "split_indices")
            )


def validate_layout_in_shape(shape: Shape, allow_missing_layouts: bool = False) -> None:
    """Raises InvalidShapeError if an array in the shape has a layout that `validate_layout_for_shape` refuses, or,
    unless `allow_missing_layouts` is set, no layout.
    """
    for leaf in shape.leaves():
        if not has_layouts(leaf):
            continue
        array = array_of(leaf)
        if array.layout is not None:
            validate_layout_for_shape(array.layout, array)
        elif not allow_missing_layouts:
            raise InvalidShapeError(f"{array} has no layout", field="layout")


guard_all(globals(), __all__)
