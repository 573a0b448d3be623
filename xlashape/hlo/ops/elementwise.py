"""Table rows (`Operation`) and rules of elementwise operations: each element of the result depends on the operands'
elements at the same index.

The inferred shape has the sizes and the layout of the operands, and the element type that the operation gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.inference import array, is_floating, is_number, wider_type
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, Infer, Operation, ReadPattern, Result, exactly, rows
from xlashape.hlo.ops.verification import check_arrays, check_shape, same_type_or_both_floating
from xlashape.hlo.values import enums
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.plain import EXPONENT_BITS, MANTISSA_BITS
from xlashape.hlo.values.precision import RESULT_ACCURACY
from xlashape.proto import xla
from xlashape.shape import Layout, PrimitiveType, Shape

_P = PrimitiveType


def _with_type(shape: Shape, element_type: PrimitiveType) -> Shape:
    """The shape with another element type. A layout's element_size_in_bits is then 0, the default of the type."""
    if shape.element_type == element_type:
        return shape
    return _with_element_size(shape.with_element_type(element_type), 0)


def _with_element_size(shape: Shape, bits: int) -> Shape:
    layout = shape.layout
    if layout is None or layout.element_size_in_bits == bits:
        return shape
    proto = layout.to_proto()
    proto.element_size_in_bits = bits
    return shape.with_layout(Layout.from_proto(proto))


# -- one operand ----------------------------------------------------------------------------


def _unary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(given: Given) -> Shape:
        shape = array(given.operands[0])
        if not allowed(shape.element_type):
            raise CannotInfer(f"its operand must be {what}, found {shape}")
        return shape

    return infer


def _is_bits(element_type: PrimitiveType) -> bool:
    return element_type.is_integral or element_type == _P.PRED


_signed = _unary(lambda each: is_floating(each) or each.is_signed_integral, "a signed number")
_floating_or_complex = _unary(is_floating, "floating or complex")
_floating = _unary(lambda each: each.is_floating, "floating")


def _part_of_complex(shape: Shape) -> Shape:
    return _with_type(shape, {_P.C64: _P.F32, _P.C128: _P.F64}.get(shape.element_type, shape.element_type))


def _infer_abs(given: Given) -> Shape:
    shape = _signed(given)
    return _part_of_complex(shape) if shape.element_type.is_complex else shape


def _infer_real(given: Given) -> Shape:
    return _part_of_complex(_floating_or_complex(given))


def _infer_is_finite(given: Given) -> Shape:
    return _with_type(_floating(given), _P.PRED)


def _verify_convert(result: Result) -> str | None:
    shape, operands = result.shape, result.operands
    problem = check_arrays(shape, operands)
    if problem or shape.dimensions == operands[0].dimensions:
        return problem
    return f"its dimensions must be its operand's, {operands[0]}, found {shape}"


def _verify_bitcast_convert(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = check_arrays(shape, result.operands)
    if problem:
        return problem
    if shape.element_type.is_complex != operand.element_type.is_complex:
        return f"its operand and result must both be complex or both real, found {shape} of {operand}"
    to_bits, from_bits = shape.element_type.bit_width, operand.element_type.bit_width
    wide, narrow = (shape, operand) if to_bits >= from_bits else (operand, shape)
    ratio = max(to_bits, from_bits) // max(min(to_bits, from_bits), 1)
    expected = wide.dimensions if ratio == 1 else (*wide.dimensions, ratio)
    return None if narrow.dimensions == expected else f"{shape} does not hold the bits of its operand {operand}"


def _verify_reduce_precision(result: Result) -> str | None:
    message = result.message
    exponent, mantissa = message.exponent_bits, message.mantissa_bits
    if exponent < 1 or mantissa < 0:
        return f"it needs a bit of exponent at least, found exponent_bits={exponent}, mantissa_bits={mantissa}"
    return check_shape(result.shape, _floating(result))


def _verify_stochastic_convert(result: Result) -> str | None:
    shape = result.shape
    value, random = result.operands
    problem = check_arrays(shape, result.operands)
    if problem:
        return problem
    if not value.element_type.is_floating:
        return f"its operand must be floating, found {value}"
    if not random.element_type.is_unsigned_integral or random.element_type.bit_width != value.element_type.bit_width:
        return f"its random numbers must be unsigned integers as wide as {value.element_type}, found {random}"
    if value.dimensions != shape.dimensions:
        return f"its operands and result must have equal dimensions, found {value}, {random} and {shape}"
    if random.with_element_type(value.element_type) != value:
        return f"its random numbers must have the dimensions and the layout of {value}, found {random}"
    return None


# -- two operands ---------------------------------------------------------------------------


def _broadcast_together(a: Shape, b: Shape, element_type: PrimitiveType) -> Shape:
    """The shape of the result of two operands. Their sizes must be equal, except that one operand may be a scalar, may
    have the size 1, or may be unbounded where the other is not.
    """
    if a.dimensions == b.dimensions:
        dynamic = tuple(x or y for x, y in zip(a.dynamic_dimensions, b.dynamic_dimensions, strict=True))
        shape = Shape(element_type, a.dimensions, dynamic, a.layout)
        return shape if element_type == a.element_type else _with_element_size(shape, 0)
    if a.rank == 0 or b.rank == 0:
        other = b if a.rank == 0 else a
        return Shape(element_type, other.dimensions, other.dynamic_dimensions).with_default_layout()
    if a.rank != b.rank:
        raise CannotInfer(f"operands {a} and {b} have different ranks")
    sizes: list[int] = []
    dynamic_dims: list[bool] = []
    for x, y, x_is_dynamic, y_is_dynamic in zip(
        a.dimensions, b.dimensions, a.dynamic_dimensions, b.dynamic_dimensions, strict=True
    ):
        if x == y:
            sizes.append(x)
            dynamic_dims.append(x_is_dynamic or y_is_dynamic)
        elif x == 1 or y == 1:
            sizes.append(y if x == 1 else x)
            dynamic_dims.append(y_is_dynamic if x == 1 else x_is_dynamic)
        elif x < 0 or y < 0:
            # A negative size is unbounded: the result has the bound of the other operand.
            sizes.append(y if x < 0 else x)
            dynamic_dims.append(y_is_dynamic if x < 0 else x_is_dynamic)
        else:
            raise CannotInfer(f"operands {a} and {b} have different sizes")
    return Shape(element_type, sizes, dynamic_dims).with_default_layout()


def _binary(allowed: Callable[[PrimitiveType], bool], what: str) -> Infer:
    def infer(given: Given) -> Shape:
        a, b = array(given.operands[0]), array(given.operands[1])
        element_type = wider_type(a, b)
        if not allowed(element_type):
            raise CannotInfer(f"its operands must be {what}, found {a}")
        return _broadcast_together(a, b, element_type)

    return infer


def _infer_compare(given: Given) -> Shape:
    a, b = array(given.operands[0]), array(given.operands[1])
    if not same_type_or_both_floating(a, b):
        raise CannotInfer(f"the operand types {a.element_type} and {b.element_type} do not fit together")
    return _broadcast_together(a, b, _P.PRED)


def _verify_compare(result: Result) -> str | None:
    message, shape = result.message, _infer_compare(result)
    if _is_bits(result.operands[0].element_type):
        order = enums.comparison_order(message.comparison_order, message.comparison_type)
        if order not in ("", "TOTAL"):
            return f"the order of {result.operands[0]} must be TOTAL, found {order}"
    return check_shape(result.shape, shape)


def _comparison_type(written: Written, value: bytes | None) -> bytes:
    # XLA turns a written type into an order: `_comparison_order` reads it.
    if value is not None and written.has("order"):
        raise CannotComplete("compare takes an order or a type, not both")
    return b""


def _comparison_order(written: Written, value: bytes | None) -> bytes:
    if value is not None:
        return value
    comparison_type = xla.HloInstructionProto.FromString(written.value("type")).comparison_type
    order = enums.comparison_order("", comparison_type) or enums.default_comparison_order(
        written.operands[0].element_type
    )
    return FIELDS.string("comparison_order", order)


def _infer_complex(given: Given) -> Shape:
    a, b = array(given.operands[0]), array(given.operands[1])
    element_type = {_P.F32: _P.C64, _P.F64: _P.C128}.get(a.element_type)
    if element_type is None or b.element_type != a.element_type:
        raise CannotInfer(f"its operands must both be f32 or both f64, found {a} and {b}")
    return _broadcast_together(a, b, element_type)


# -- three operands -------------------------------------------------------------------------


def _infer_select(given: Given) -> Shape:
    pred, on_true, on_false = map(array, given.operands)
    if pred.element_type != _P.PRED:
        raise CannotInfer(f"its first operand must be pred, found {pred}")
    if on_true.dimensions != on_false.dimensions:
        raise CannotInfer(f"operands {on_true} and {on_false} have different sizes")
    if pred.rank and pred.dimensions != on_true.dimensions:
        raise CannotInfer(f"the predicate {pred} has other sizes than {on_true}")
    element_type = wider_type(on_true, on_false)
    # Unless the predicate is a scalar, XLA takes sizes and layout from it, but element_size_in_bits from `on_true`.
    if not pred.rank:
        return _with_type(on_true, element_type)
    bits = 0 if on_true.layout is None else on_true.layout.element_size_in_bits
    return _with_element_size(_with_type(pred, element_type), bits)


def _infer_clamp(given: Given) -> Shape:
    low, value, high = map(array, given.operands)
    for bound in (low, high):
        if not same_type_or_both_floating(bound, value) or (bound.rank and bound.dimensions != value.dimensions):
            raise CannotInfer(f"the bound {bound} does not fit {value}")
    return value


# -- rows -----------------------------------------------------------------------------------

_O = Opcode
_ONE, _TWO, _THREE = exactly(1), exactly(2), exactly(3)
_SAME = ReadPattern.SAME

OPERATIONS: Final = (
    *rows(
        (
            *(_O.ACOS, _O.ACOSH, _O.ASIN, _O.ASINH, _O.ATANH, _O.COSH, _O.COSINE, _O.EXP2, _O.EXPONENTIAL),
            *(_O.EXPONENTIAL_MINUS_ONE, _O.LOG, _O.LOG2, _O.LOG_PLUS_ONE, _O.LOGISTIC, _O.RSQRT, _O.SINE, _O.SINH),
            *(_O.SQRT, _O.TAN, _O.TANH),
        ),
        operands=_ONE,
        reads=_SAME,
        attributes=(optional(RESULT_ACCURACY),),
        infer=_floating_or_complex,
    ),
    *rows((_O.CBRT, _O.ERF), operands=_ONE, reads=_SAME, attributes=(optional(RESULT_ACCURACY),), infer=_floating),
    *rows(
        (_O.CEIL, _O.FLOOR, _O.ROUND_NEAREST_AFZ, _O.ROUND_NEAREST_EVEN), operands=_ONE, reads=_SAME, infer=_floating
    ),
    *rows(
        (_O.POPCNT, _O.COUNT_LEADING_ZEROS),
        operands=_ONE,
        reads=_SAME,
        infer=_unary(lambda each: each.is_integral, "an integer"),
    ),
    Operation(_O.ABS, operands=_ONE, reads=_SAME, infer=_infer_abs),
    Operation(_O.NEGATE, operands=_ONE, reads=_SAME, infer=_unary(is_number, "a number")),
    Operation(_O.NOT, operands=_ONE, reads=_SAME, infer=_unary(_is_bits, "an integer or pred")),
    Operation(_O.SIGN, operands=_ONE, reads=_SAME, infer=_signed),
    *rows((_O.IMAG, _O.REAL), operands=_ONE, reads=_SAME, infer=_infer_real),
    Operation(_O.IS_FINITE, operands=_ONE, reads=_SAME, infer=_infer_is_finite),
    Operation(_O.CONVERT, operands=_ONE, reads=_SAME, verify=_verify_convert),
    Operation(_O.BITCAST_CONVERT, operands=_ONE, reads=_SAME, verify=_verify_bitcast_convert),
    Operation(
        _O.REDUCE_PRECISION,
        operands=_ONE,
        reads=_SAME,
        attributes=(required(EXPONENT_BITS), required(MANTISSA_BITS)),
        verify=_verify_reduce_precision,
    ),
    *rows(
        (_O.ADD, _O.MULTIPLY, _O.MAXIMUM, _O.MINIMUM),
        operands=_TWO,
        reads=_SAME,
        infer=_binary(lambda _: True, "arrays"),
        one_precision=True,
        operands_of_equal_sizes=True,
    ),
    *rows(
        (_O.DIVIDE, _O.POWER, _O.REMAINDER, _O.SUBTRACT),
        operands=_TWO,
        reads=_SAME,
        infer=_binary(is_number, "numbers"),
        one_precision=True,
        operands_of_equal_sizes=True,
    ),
    *rows(
        (_O.AND, _O.OR, _O.XOR),
        operands=_TWO,
        reads=_SAME,
        infer=_binary(_is_bits, "integers or pred"),
        operands_of_equal_sizes=True,
    ),
    *rows(
        (_O.SHIFT_LEFT, _O.SHIFT_RIGHT_ARITHMETIC, _O.SHIFT_RIGHT_LOGICAL),
        operands=_TWO,
        reads=_SAME,
        infer=_binary(is_number, "numbers"),
        one_precision=True,
        operands_of_equal_sizes=True,
    ),
    Operation(
        _O.MULHI,
        operands=_TWO,
        reads=_SAME,
        infer=_binary(lambda _: True, "arrays"),
        one_precision=True,
        operands_of_equal_sizes=True,
    ),
    Operation(
        _O.ATAN2,
        operands=_TWO,
        reads=_SAME,
        infer=_binary(is_floating, "floating"),
        one_precision=True,
        operands_of_equal_sizes=True,
    ),
    Operation(
        _O.COMPLEX, operands=_TWO, reads=_SAME, infer=_infer_complex, one_precision=True, operands_of_equal_sizes=True
    ),
    Operation(
        _O.COMPARE,
        operands=_TWO,
        reads=_SAME,
        attributes=(
            required(enums.DIRECTION),
            optional(enums.COMPARISON_TYPE, _comparison_type),
            optional(enums.COMPARISON_ORDER, _comparison_order),
        ),
        infer=_infer_compare,
        verify=_verify_compare,
        one_precision=True,
        operands_of_equal_sizes=True,
        text_depends_on_operands=True,  # an order is not written if it is the default for the operands' type
    ),
    Operation(_O.STOCHASTIC_CONVERT, operands=_TWO, reads=_SAME, verify=_verify_stochastic_convert),
    Operation(_O.SELECT, operands=_THREE, reads=_SAME, infer=_infer_select, one_precision=True),
    Operation(_O.CLAMP, operands=_THREE, reads=_SAME, infer=_infer_clamp, one_precision=True),
)
