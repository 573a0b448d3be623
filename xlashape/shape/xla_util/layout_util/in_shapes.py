"""The layouts in a shape: setting, clearing, copying, comparing and checking them. XLA's `LayoutUtil`."""

from __future__ import annotations

from itertools import pairwise
from typing import overload

from xlashape.errors import InvalidShapeError
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.constructor_checks import check_layout_fits
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE
from xlashape.shape.value.equality import equal_layouts
from xlashape.shape.value.program_shape import ProgramShape
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.xla_util.layout_util.ask import has_layouts

__all__ = [
    "clear_layout",
    "clear_tiles",
    "copy_layout_between_shapes",
    "get_with_default_layout",
    "has_any_layout",
    "has_custom_element_size_in_bits",
    "has_layout",
    "layouts_in_shapes_equal",
    "set_to_default_layout",
    "validate_layout_for_shape",
    "validate_layout_in_shape",
]

_INVALID = PrimitiveType.PRIMITIVE_TYPE_INVALID


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
    """As `set_to_default_layout`, which in XLA changes its argument."""
    return set_to_default_layout(shape)


def copy_layout_between_shapes(src: Shape, dst: Shape) -> Shape:
    """`dst` with the layouts of `src`, array by array; without a layout where `src` has none.

    InvalidShapeError unless both have the same tuples, with arrays of the same number of dimensions at the same indices,
    or if a layout does not fit its new array. Tokens and opaques in `src` are skipped.

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
    """Whether every array in the shape, or in the program, has a layout."""
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

    False where tuples differ in length, arrays in their number of dimensions, or the structures otherwise. True where `lhs` is a
    token or an opaque.
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

    It must have as many dimensions as the shape, and every tile at least one size. No dimension may be split twice, and split indices
    must ascend strictly inside their dimension. Index and pointer types and a physical shape are for sparse arrays only. For tokens
    and opaques every layout is valid, for tuples none.
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
    """Raises InvalidShapeError if an array in the shape has a layout that `validate_layout_for_shape` refuses, or none at
    all unless that is allowed.
    """
    for leaf in shape.leaves():
        if not has_layouts(leaf):
            continue
        array = array_of(leaf)
        if array.layout is not None:
            validate_layout_for_shape(array.layout, array)
        elif not allow_missing_layouts:
            raise InvalidShapeError(f"{array} has no layout", field="layout")
