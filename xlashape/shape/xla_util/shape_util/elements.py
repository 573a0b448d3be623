"""Element types: the predicates and conversions of XLA's `ShapeUtil`."""

from __future__ import annotations

from xlashape.errors import InvalidShapeError
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.value.shape import Shape
from xlashape.shape.xla_util.shape_util._common import map_leaves, on_array

__all__ = [
    "change_element_type", "complex_component_shape", "element_can_upcast", "element_has_bit_width",
    "element_is_complex", "element_is_floating", "element_is_integral", "element_is_integral_with_bits",
    "element_is_signed", "has_primitive_type", "higher_precision_element_type", "same_element_type",
    "same_element_type_ignoring_fp_precision", "update_element_size_in_bits",
]  # fmt: skip


def element_type_of(shape: Shape) -> PrimitiveType:
    """The element type of an array or of the array in a buffer. For other shapes, their own kind, such as TUPLE."""
    return shape.tuple_shapes[0].element_type if shape.is_buffer else shape.element_type


def element_is_integral(shape: Shape) -> bool:
    """Whether the elements are signed or unsigned integers; pred is neither. False if the shape is not an array."""
    return element_type_of(shape).is_integral


def element_is_floating(shape: Shape) -> bool:
    """Whether the elements are real floating-point numbers. False if the shape is not an array."""
    return element_type_of(shape).is_floating


def element_is_complex(shape: Shape) -> bool:
    """Whether the elements are complex. False if the shape is not an array."""
    return element_type_of(shape).is_complex


def element_is_signed(shape: Shape) -> bool:
    """Whether the elements are signed integers or real floating-point numbers. False if the shape is not an array."""
    return element_type_of(shape).is_signed


def element_has_bit_width(shape: Shape, bits: int) -> bool:
    """Whether an element has that many bits: a pred has 1 here, f6e3m2fn and f6e2m3fn have 8.

    >>> element_has_bit_width(Shape.parse("pred[2]"), 1), element_has_bit_width(Shape.parse("s4[2]"), 4)
    (True, True)
    """
    kind = element_type_of(shape)
    return kind.is_array_type and bits == (1 if kind is PrimitiveType.PRED else kind.bit_width)


def element_is_integral_with_bits(shape: Shape, bits: int) -> bool:
    """Whether the elements are integers of that many bits."""
    return element_is_integral(shape) and element_has_bit_width(shape, bits)


def has_primitive_type(shape: Shape, primitive_type: PrimitiveType | str | int) -> bool:
    """Whether the shape, or anything inside it, is of that type.

    >>> has_primitive_type(Shape.parse("(f32[2], (s32[]))"), "s32")
    True
    """
    kind = PrimitiveType.of(primitive_type, "primitive_type")
    return shape.element_type == kind or any(has_primitive_type(inner, kind) for inner in shape.tuple_shapes)


def same_element_type(lhs: Shape, rhs: Shape) -> bool:
    """Whether the element types are the same."""
    return element_type_of(lhs) == element_type_of(rhs)


def same_element_type_ignoring_fp_precision(a: Shape, b: Shape) -> bool:
    """Whether the element types are the same, or both real floating point."""
    return same_element_type(a, b) or (element_is_floating(a) and element_is_floating(b))


def element_can_upcast(from_: Shape, to: Shape) -> bool:
    """Whether the element type of `from_` is no wider than that of `to` in XLA's order of precision.

    `PrimitiveType.precision` is that order. It does not imply that values are kept: s64 comes before f4e2m1fn.

    >>> (
    ...     element_can_upcast(Shape.parse("bf16[]"), Shape.parse("f32[]")),
    ...     element_can_upcast(Shape.parse("f32[]"), Shape.parse("bf16[]")),
    ... )
    (True, False)
    """
    return array_of(from_).element_type.precision <= array_of(to).element_type.precision


def higher_precision_element_type(a: Shape, b: Shape) -> PrimitiveType:
    """The wider of two element types in the order that `element_can_upcast` describes.

    InvalidShapeError if neither type is wider: pred and u1, f8e4m3 and f8e4m3fnuz, f8e5m2 and f8e5m2fnuz.

    >>> higher_precision_element_type(Shape.parse("bf16[]"), Shape.parse("f16[]"))
    <PrimitiveType.BF16: 16>
    """
    first, second = array_of(a).element_type, array_of(b).element_type
    if first == second or first.precision > second.precision:
        return first
    if first.precision == second.precision:
        raise InvalidShapeError(f"neither {first} nor {second} has the higher precision", field="element_type")
    return second


def change_element_type(original: Shape, type: PrimitiveType | str | int) -> Shape:  # noqa: A002 - XLA's name
    """The shape with another element type in every array. `E(n)` is removed if the new type has 8 bits or more.

    InvalidShapeError if the shape contains a token or an opaque.

    >>> change_element_type(Shape.parse("s4[3]{0:E(4)}"), "f32")
    Shape('f32[3]{0}')
    """
    kind = PrimitiveType.of(type, "type")
    if not kind.is_array_type:
        raise InvalidShapeError(f"{kind.text} is not the element type of an array", field="type")
    for leaf in original.leaves():
        if leaf.is_token or leaf.is_opaque:
            raise InvalidShapeError(f"a {leaf.element_type.text} has no element type to change", field="original")
    return map_leaves(original, lambda array: _with_type(array, kind))


def _with_type(array: Shape, kind: PrimitiveType) -> Shape:
    layout = array.layout
    if layout is not None and layout.element_size_in_bits and not _is_packable(kind):
        layout = layout.replace(element_size_in_bits=0)
    return array.replace(element_type=kind, layout=layout)


def _is_packable(kind: PrimitiveType) -> bool:
    return kind.bit_width < 8


def complex_component_shape(complex_shape: Shape) -> Shape:
    """The shape of the real or the imaginary parts. InvalidShapeError unless the elements are complex.

    >>> complex_component_shape(Shape.parse("c64[2,3]"))
    Shape('f32[2,3]{1,0}')
    """
    if not element_is_complex(complex_shape):
        raise InvalidShapeError(f"the elements of {brief(complex_shape)} are not complex", field="complex_shape")
    kind = PrimitiveType.F32 if element_type_of(complex_shape) is PrimitiveType.C64 else PrimitiveType.F64
    return on_array(complex_shape, lambda array: _with_type(array, kind))


def update_element_size_in_bits(shape: Shape, pack_subbyte_types: bool) -> Shape:
    """The shape with `E(n)` set in every array whose type is below 8 bits, and cleared in the others. If
    `pack_subbyte_types` is false, `E(n)` is cleared in all arrays. Arrays without a layout get the default one.

    >>> update_element_size_in_bits(Shape.parse("(s4[2], f32[3])"), True)
    Shape('(s4[2]{0:E(4)}, f32[3]{0})')
    """

    def update(array: Shape) -> Shape:
        kind = array.element_type
        if array.layout is None:
            array = array.with_default_layout()
        assert array.layout is not None
        bits = kind.bit_width if pack_subbyte_types and _is_packable(kind) else 0
        return array.with_layout(array.layout.replace(element_size_in_bits=bits))

    return map_leaves(shape, update)
