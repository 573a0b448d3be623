"""What the inferences of several families share: operands that must be arrays, element types of two operands, steps of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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


_BY_PRECISION: Final = (
    *(
        ("pred", "u1"),
        ("s1",),
        ("u2",),
        ("s2",),
        ("u4",),
        ("s4",),
        ("u8",),
        ("s8",),
        ("u16",),
        ("s16",),
        ("u32",),
        ("s32",),
    ),
    *(("u64",), ("s64",), ("f4e2m1fn",), ("f8e3m4",), ("f8e4m3b11fnuz",), ("f8e4m3fnuz", "f8e4m3"), ("f8e4m3fn",)),
    *(("f8e5m2", "f8e5m2fnuz"), ("f16",), ("f8e8m0fnu",), ("bf16",), ("f32",), ("f64",), ("c64",), ("c128",)),
)
"""The element types in the order in which one gives way to the other in a result that text has no shape of. Between two of equal rank XLA
ends the process."""
_RANKS: Final = {PrimitiveType.parse(name): rank for rank, names in enumerate(_BY_PRECISION) for name in names}


def wider_type(a: Shape, b: Shape) -> PrimitiveType:
    """The element type of both operands, or the more precise of two floating ones. Raises CannotInfer for any other pair."""
    x, y = a.element_type, b.element_type
    if x != y and not (x.is_floating and y.is_floating):
        raise CannotInfer(f"the operand types {x} and {y} do not fit together")
    return promoted_type(a, b)


def promoted_type(a: Shape, b: Shape) -> PrimitiveType:
    """The more precise of two element types of any kinds. Raises CannotInfer for two of equal rank."""
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    rank_x, rank_y = _RANKS.get(x), _RANKS.get(y)
    if rank_x is None or rank_y is None or rank_x == rank_y:
        raise CannotInfer(f"the operand types {x} and {y} do not fit together")
    return x if rank_x > rank_y else y


def window_steps(size: int, window: xla.WindowDimension) -> int:
    """The number of positions that a window takes along a dimension of `size` elements."""
    if window.size <= 0 or window.stride <= 0 or window.base_dilation <= 0 or window.window_dilation <= 0:
        raise CannotInfer("the sizes, strides and dilations of a window must be positive")
    dilated = 0 if size == 0 else (size - 1) * window.base_dilation + 1
    padded = dilated + window.padding_low + window.padding_high
    reach = (window.size - 1) * window.window_dilation + 1
    return 0 if padded < reach else (padded - reach) // window.stride + 1
