"""What the inferences of several families share: operands that must be arrays, element types of two operands, steps of windows."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.hlo.ops.operation import CannotInfer
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = [
    "array",
    "called_result",
    "first_operand",
    "is_floating",
    "is_number",
    "promoted_type",
    "token",
    "token_shape",
    "wider_type",
    "window_steps",
]


def first_operand(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    """The shape of the first operand, layout included."""
    return operands[0]


def called_result(_: xla.HloInstructionProto, _operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    """The result of the first computation that is called."""
    if not results:
        raise CannotInfer("it calls no computation")
    return results[0]


def token(_: xla.HloInstructionProto, _operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    """A token."""
    return Shape.token()


def token_shape(_written: Shape, _operands: Sequence[Shape]) -> Shape:
    """A token, as a `fixed_shape`."""
    return Shape.token()


def array(shape: Shape) -> Shape:
    """`shape`, which must be an array. Raises CannotInfer."""
    if not shape.is_array:
        raise CannotInfer(f"its operands must be arrays, found {shape}")
    return shape


def is_floating(element_type: PrimitiveType) -> bool:
    """Whether a type is floating or complex."""
    return element_type.is_floating or element_type.is_complex


def is_number(element_type: PrimitiveType) -> bool:
    """Whether a type is integral, floating or complex."""
    return element_type.is_integral or element_type.is_floating or element_type.is_complex


def wider_type(a: Shape, b: Shape) -> PrimitiveType:
    """The element type of both operands, or the wider of two floating ones. Raises CannotInfer for any other pair."""
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    if x.is_floating and y.is_floating and x.bit_width != y.bit_width:
        return x if x.bit_width > y.bit_width else y
    raise CannotInfer(f"the operand types {x} and {y} do not fit together")


def promoted_type(a: Shape, b: Shape) -> PrimitiveType:
    """As `wider_type`, but also the wider of two integral types, and the first of two types of the same width."""
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    if (x.is_floating and y.is_floating) or (x.is_integral and y.is_integral):
        return x if x.bit_width >= y.bit_width else y
    raise CannotInfer(f"the operand types {x} and {y} do not fit together")


def window_steps(size: int, window: xla.WindowDimension) -> int:
    """The number of positions that a window takes along a dimension of `size` elements."""
    if window.size <= 0 or window.stride <= 0 or window.base_dilation <= 0 or window.window_dilation <= 0:
        raise CannotInfer("the sizes, strides and dilations of a window must be positive")
    dilated = 0 if size == 0 else (size - 1) * window.base_dilation + 1
    padded = dilated + window.padding_low + window.padding_high
    reach = (window.size - 1) * window.window_dilation + 1
    return 0 if padded < reach else (padded - reach) // window.stride + 1
