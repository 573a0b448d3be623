"""Shapes of elementwise results: the operands' sizes and layout, the element type that the operation makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlashape.hlo.ops.infer_windowed import CannotInfer, array
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = ["ELEMENTWISE", "Infer", "is_floating", "wider"]

Infer = Callable[[xla.HloInstructionProto, Sequence[Shape], Sequence[Shape]], Shape]
"""From the instruction so far, its operands' shapes and the results of what it calls, to the result's shape."""

_P = PrimitiveType


def _element(shape: Shape, kind: PrimitiveType) -> Shape:
    return shape if shape.element_type == kind else shape.with_element_type(kind)


def _unary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
        shape = array(operands[0])
        if not allowed(shape.element_type):
            raise CannotInfer(f"its operand is {what}, found {shape}")
        return shape

    return infer


def is_floating(kind: PrimitiveType) -> bool:
    """Whether a type is floating or complex."""
    return kind.is_floating or kind.is_complex


def _is_number(kind: PrimitiveType) -> bool:
    return kind.is_integral or kind.is_floating or kind.is_complex


def _is_bits(kind: PrimitiveType) -> bool:
    return kind.is_integral or kind == _P.PRED


_FLOATING = _unary(is_floating, "floating or complex")
_NUMBER = _unary(_is_number, "a number")
_BITS = _unary(_is_bits, "an integer or pred")
_INTEGER = _unary(lambda kind: kind.is_integral, "an integer")
_REAL_FLOATING = _unary(lambda kind: kind.is_floating, "floating")
_SIGNED = _unary(lambda kind: is_floating(kind) or kind.is_signed_integral, "a signed number")


def _abs(message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    shape = _SIGNED(message, operands, results)
    return _real_part(shape) if shape.element_type.is_complex else shape


def _real_part(shape: Shape) -> Shape:
    kind = {_P.C64: _P.F32, _P.C128: _P.F64}.get(shape.element_type, shape.element_type)
    return _element(shape, kind)


def _real(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not is_floating(shape.element_type):
        raise CannotInfer(f"its operand is floating or complex, found {shape}")
    return _real_part(shape)


def _is_finite(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    shape = array(operands[0])
    if not shape.element_type.is_floating:
        raise CannotInfer(f"its operand is floating, found {shape}")
    return _element(shape, _P.PRED)


def wider(a: Shape, b: Shape) -> PrimitiveType:
    """The element type of both, or the wider of two floating ones."""
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    if x.is_floating and y.is_floating and x.bit_width != y.bit_width:
        return x if x.bit_width > y.bit_width else y
    raise CannotInfer(f"operands of types {x} and {y}")


def _merged(a: Shape, b: Shape, kind: PrimitiveType) -> Shape:
    """Two operands' dimensions: equal, or one of them a scalar, or 1 where the other is more."""
    if a.dimensions == b.dimensions:
        dynamic = tuple(x or y for x, y in zip(a.dynamic_dimensions, b.dynamic_dimensions, strict=True))
        return Shape(kind, a.dimensions, dynamic, a.layout)
    if a.rank == 0 or b.rank == 0:
        other = b if a.rank == 0 else a
        return Shape(kind, other.dimensions, other.dynamic_dimensions).with_default_layout()
    if a.rank != b.rank:
        raise CannotInfer(f"operands {a} and {b} have different ranks")
    sizes: list[int] = []
    dynamic_dims: list[bool] = []
    for x, y, moves_x, moves_y in zip(
        a.dimensions, b.dimensions, a.dynamic_dimensions, b.dynamic_dimensions, strict=True
    ):
        if x == y:
            sizes.append(x)
            dynamic_dims.append(moves_x or moves_y)
        elif x == 1 or y == 1:
            sizes.append(y if x == 1 else x)
            dynamic_dims.append(moves_y if x == 1 else moves_x)
        elif x < 0 or y < 0:
            # The other side's bound holds for an unbounded size.
            sizes.append(y if x < 0 else x)
            dynamic_dims.append(moves_y if x < 0 else moves_x)
        else:
            raise CannotInfer(f"operands {a} and {b} have different sizes")
    return Shape(kind, sizes, dynamic_dims).with_default_layout()


def _binary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
        a, b = array(operands[0]), array(operands[1])
        kind = wider(a, b)
        if not allowed(kind):
            raise CannotInfer(f"its operands are {what}, found {a}")
        return _merged(a, b, kind)

    return infer


def _compare(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    a, b = array(operands[0]), array(operands[1])
    wider(a, b)
    return _merged(a, b, _P.PRED)


def _complex(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    a, b = array(operands[0]), array(operands[1])
    kind = {_P.F32: _P.C64, _P.F64: _P.C128}.get(wider(a, b))
    if kind is None:
        raise CannotInfer(f"its operands are f32 or f64, found {a}")
    return _merged(a, b, kind)


def _select(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    pred, on_true, on_false = map(array, operands)
    if pred.element_type != _P.PRED:
        raise CannotInfer(f"its first operand is pred, found {pred}")
    if on_true.dimensions != on_false.dimensions:
        raise CannotInfer(f"operands {on_true} and {on_false} have different sizes")
    if pred.rank and pred.dimensions != on_true.dimensions:
        raise CannotInfer(f"the predicate {pred} has other sizes than {on_true}")
    kind = wider(on_true, on_false)
    if pred.rank:
        # Sizes and layout are the predicate's.
        return _element(pred, kind)
    return _element(on_true, kind)


def _clamp(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    low, value, high = map(array, operands)
    for bound in (low, high):
        if bound.element_type != value.element_type or (bound.rank and bound.dimensions != value.dimensions):
            raise CannotInfer(f"the bound {bound} does not fit {value}")
    return value


ELEMENTWISE: dict[str, Infer] = {
    **dict.fromkeys(
        "acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one logistic "
        "rsqrt sine sinh sqrt tan tanh".split(),
        _FLOATING,
    ),
    **dict.fromkeys("ceil floor round-nearest-afz round-nearest-even".split(), _REAL_FLOATING),
    **dict.fromkeys("popcnt count-leading-zeros".split(), _INTEGER),
    **dict.fromkeys("add multiply maximum minimum".split(), _binary(lambda kind: True, "arrays")),
    **dict.fromkeys("divide power remainder subtract".split(), _binary(_is_number, "numbers")),
    **dict.fromkeys("and or xor".split(), _binary(_is_bits, "integers or pred")),
    **dict.fromkeys(
        "shift-left shift-right-arithmetic shift-right-logical mulhi".split(),
        _binary(lambda kind: kind.is_integral, "integers"),
    ),
    "abs": _abs,
    "atan2": _binary(is_floating, "floating"),
    "clamp": _clamp,
    "compare": _compare,
    "complex": _complex,
    "imag": _real,
    "is-finite": _is_finite,
    "negate": _NUMBER,
    "not": _BITS,
    "real": _real,
    "select": _select,
    "sign": _SIGNED,
}
"""The inference of elementwise operations, by opcode."""
