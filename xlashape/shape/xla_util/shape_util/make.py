"""Making, checking and printing shapes: the constructors, validators and texts of XLA's `ShapeUtil`.

The constructor of Shape checks every shape, so each `make_validated_*` function is the plain function under another
name. An array gets the default layout, major to minor, unless the name of the function says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.base.math import ceil_div, checked_int64, product
from xlashape.errors import InvalidShapeError
from xlashape.shape.arguments import not_a_shape
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, SplitConfig, Tile
from xlashape.shape.text import shape_text
from xlashape.shape.value.program_shape import ProgramShape, program_shape_text
from xlashape.shape.value.shape import Layout, Shape
from xlashape.shape.xla_util.layout_util import validate_layout_in_shape
from xlashape.shape.xla_util.shape_util._common import map_leaves, minor_to_major_of
from xlashape.shape.xla_util.shape_util.dimensions import permute_dimensions

__all__ = [
    "device_shape_is_host_shape", "device_shape_to_host_shape", "human_string", "human_string_with_layout",
    "make_buffer_shape", "make_maybe_tuple_shape", "make_nil", "make_opaque_shape", "make_program_shape",
    "make_scalar_shape", "make_shape", "make_shape_with_dense_layout", "make_shape_with_descending_layout",
    "make_shape_with_descending_layout_and_same_physical_layout", "make_shape_with_static_dimensions",
    "make_shape_with_type", "make_static_shape", "make_token_shape", "make_tuple_shape", "make_validated_buffer_shape",
    "make_validated_maybe_tuple_shape", "make_validated_shape", "make_validated_shape_with_dense_layout",
    "make_validated_shape_with_descending_layout",
    "make_validated_shape_with_descending_layout_and_same_physical_layout", "make_validated_tuple_shape",
    "validate_shape", "validate_shape_with_optional_layout",
]  # fmt: skip


_Type = PrimitiveType | str | int


def make_shape(
    element_type: _Type, dimensions: Iterable[int], dynamic_dimensions: Iterable[bool] | None = None
) -> Shape:
    """An array with the default layout. TUPLE, TOKEN and OPAQUE_TYPE, without dimensions, give a tuple, token or
    opaque.

    >>> make_shape("f32", (2, 3), (False, True))
    Shape('f32[2,<=3]{1,0}')
    """
    kind = PrimitiveType.of(element_type)
    if not kind.is_array_type:
        return Shape(kind, dimensions, dynamic_dimensions)
    return Shape.array(kind, dimensions, None, dynamic_dimensions)


def make_scalar_shape(element_type: _Type) -> Shape:
    """A scalar."""
    return make_shape(element_type, ())


def make_shape_with_type(dtype: Any, dimensions: Iterable[int]) -> Shape:
    """An array whose element type corresponds to a NumPy type. XLA's template takes a C++ type.

    >>> make_shape_with_type("float32", (2,))
    Shape('f32[2]{0}')
    """
    return make_shape(PrimitiveType.from_numpy(dtype), dimensions)


def make_shape_with_dense_layout(
    element_type: _Type,
    dimensions: Iterable[int],
    minor_to_major: Iterable[int],
    tiles: Iterable[Tile | Iterable[int]] = (),
    tail_padding_alignment_in_elements: int = 1,
    element_size_in_bits: int = 0,
    memory_space: int = 0,
    split_configs: Iterable[SplitConfig] = (),
) -> Shape:
    """An array with a layout.

    >>> make_shape_with_dense_layout("bf16", (16, 256), (1, 0), [(8, 128), (2, 1)])
    Shape('bf16[16,256]{1,0:T(8,128)(2,1)}')
    """
    layout = Layout(
        minor_to_major,
        tiles,
        tail_padding_alignment_in_elements,
        element_size_in_bits=element_size_in_bits,
        memory_space=memory_space,
        split_configs=split_configs,
    )
    return Shape.array(element_type, dimensions, layout)


def make_shape_with_descending_layout(element_type: _Type, dimensions: Iterable[int]) -> Shape:
    """An array with the layout major to minor, which is the default one."""
    return Shape.array(element_type, dimensions)


def make_shape_with_descending_layout_and_same_physical_layout(shape: Shape) -> Shape:
    """The shape with dimensions renumbered so that every array's layout is major to minor and no element moves.

    As in XLA, the tiles, tail padding, element size and memory space of the layout are kept.

    >>> make_shape_with_descending_layout_and_same_physical_layout(Shape.parse("f32[2,3,4,5]{0,3,2,1}"))
    Shape('f32[3,4,5,2]{3,2,1,0}')
    """

    def change(array: Shape) -> Shape:
        physical = permute_dimensions(minor_to_major_of(array)[::-1], array)
        layout = physical.layout or Layout.default(physical.rank)
        return physical.with_layout(
            Layout(
                layout.minor_to_major,
                layout.tiles,
                layout.tail_padding_alignment_in_elements,
                element_size_in_bits=layout.element_size_in_bits,
                memory_space=layout.memory_space,
            )
        )

    return map_leaves(shape, change)


def make_static_shape(original: Shape) -> Shape:
    """The shape with every dimension static, with its bound as size, and without `M(n)` in the layouts of arrays.

    InvalidShapeError if a dimension is unbounded. As in XLA an array inside a tuple that was static already keeps its
    `M(n)`.

    >>> make_static_shape(Shape.parse("f32[<=2]{0:M(8)}"))
    Shape('f32[2]{0}')
    """

    def without_prefix(array: Shape) -> Shape:
        layout = array.layout
        if layout is None or (original.is_tuple and array.is_static):
            return array
        return array.with_layout(layout.replace(dynamic_shape_metadata_prefix_bytes=0))

    return make_shape_with_static_dimensions(map_leaves(original, without_prefix))


def make_shape_with_static_dimensions(shape: Shape) -> Shape:
    """The shape with every dimension static, with its bound as size. Layouts are kept.

    InvalidShapeError if a dimension is unbounded.
    """
    if shape.is_unbounded_dynamic:
        raise InvalidShapeError(f"{brief(shape)} has an unbounded dimension, which cannot be static", field="shape")
    return map_leaves(shape, lambda array: array.replace(dynamic_dimensions=None))


def make_tuple_shape(shapes: Iterable[Shape]) -> Shape:
    """A tuple."""
    return Shape.tuple(shapes)


def make_maybe_tuple_shape(shapes: Iterable[Shape]) -> Shape:
    """The only shape if one is given, else the tuple of the shapes.

    >>> make_maybe_tuple_shape([Shape.parse("f32[]")])
    Shape('f32[]')
    """
    together = Shape.tuple(shapes)
    return together.tuple_shapes[0] if len(together.tuple_shapes) == 1 else together


def make_nil() -> Shape:
    """The empty tuple."""
    return Shape.tuple()


def make_token_shape() -> Shape:
    """The token."""
    return Shape.token()


def make_opaque_shape() -> Shape:
    """An opaque."""
    return Shape.opaque()


def make_buffer_shape(element_type: Shape | _Type, dimensions: Iterable[int] = ()) -> Shape:
    """A buffer of an array, which is given as a shape, or as an element type and sizes.

    >>> make_buffer_shape("f32", (2, 3)), make_buffer_shape(Shape.parse("f32[2]"))
    (Shape('b(f32[2,3]{1,0})'), Shape('b(f32[2]{0})'))
    """
    if isinstance(element_type, Shape):
        return Shape.buffer(element_type)
    return Shape.buffer(Shape.array(element_type, dimensions))


def make_program_shape(parameters: Iterable[Shape], result: Shape) -> ProgramShape:
    """A program's shape, its parameters without names."""
    return ProgramShape(parameters, result)


make_validated_shape = make_shape
make_validated_shape_with_dense_layout = make_shape_with_dense_layout
make_validated_shape_with_descending_layout = make_shape_with_descending_layout
make_validated_shape_with_descending_layout_and_same_physical_layout = (
    make_shape_with_descending_layout_and_same_physical_layout
)
make_validated_tuple_shape = make_tuple_shape
make_validated_maybe_tuple_shape = make_maybe_tuple_shape
make_validated_buffer_shape = make_buffer_shape


def device_shape_to_host_shape(s: Shape) -> Shape:
    """The shape without what belongs to a device: tiles, memory space, packing, tail padding and dynamic metadata.

    >>> device_shape_to_host_shape(Shape.parse("s4[8,4]{0,1:T(8,128)E(4)S(1)}"))
    Shape('s4[8,4]{0,1}')
    """

    def change(array: Shape) -> Shape:
        if array.layout is None:
            return array
        return array.with_layout(
            array.layout.replace(
                tiles=(),
                tail_padding_alignment_in_elements=1,
                element_size_in_bits=0,
                memory_space=0,
                dynamic_shape_metadata_prefix_bytes=0,
            )
        )

    return map_leaves(s, change)


def device_shape_is_host_shape(s: Shape) -> bool:
    """Whether `device_shape_to_host_shape` would change nothing."""
    return device_shape_to_host_shape(s) == s


def validate_shape(shape: Shape) -> None:
    """Raises InvalidShapeError if an array in the shape has no layout; other errors as in
    `validate_shape_with_optional_layout`.
    """
    validate_layout_in_shape(shape)
    validate_shape_with_optional_layout(shape)


def validate_shape_with_optional_layout(shape: Shape) -> None:
    """Raises SizeOverflowError if the byte size of an array, with bounds for dynamic sizes, does not fit int64.

    The constructor of Shape checks everything else that XLA checks here.
    """
    for leaf in shape.leaves():
        array = leaf.buffer_shape if leaf.is_buffer else leaf
        if array.is_array:
            elements = product([size for size in array.dimensions if size != UNBOUNDED_SIZE])
            checked_int64(elements * ceil_div(array.element_type.bit_width, 8), f"the byte size of {brief(array)}")


# -- text --------------------------------------------------------------------------------------


def human_string(shape: Shape | ProgramShape) -> str:
    """The text without layouts.

    >>> human_string(Shape.parse("f32[2,3]{0,1}")), human_string(ProgramShape.parse("(p0: f32[2]{0}) -> f32[]"))
    ('f32[2,3]', '(p0: f32[2]) -> f32[]')
    """
    return (
        program_shape_text(shape, layout=False) if isinstance(shape, ProgramShape) else shape_text(shape, layout=False)
    )


def human_string_with_layout(shape: Shape) -> str:
    """The text with layouts; the same as `str(shape)`.

    >>> human_string_with_layout(Shape.parse("f32[2,3]"))
    'f32[2,3]{1,0}'
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return str(shape)
