"""Table rows (`Operation`) and rules of operations that work along whole dimensions: sort and topk, Cholesky
decomposition, triangular solve, and Fourier transforms.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops import verification
from xlashape.hlo.ops.attributes import optional, required
from xlashape.hlo.ops.calls import TO_APPLY, TO_APPLY_WRITTEN_ONLY
from xlashape.hlo.ops.inference import array, exactly_one_dimension, is_floating
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.enums import CHOLESKY_LOWER, FFT_TYPE, LEFT_SIDE, TRANSPOSE_A, TRIANGULAR_LOWER, UNIT_DIAGONAL
from xlashape.hlo.values.plain import DIMENSIONS, FFT_LENGTH, IS_STABLE, LARGEST, TOPK_IS_STABLE, K
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape


def _infer_sort(given: Given) -> Shape:
    operands = given.operands
    if not operands:
        raise CannotInfer("it needs operands")
    return operands[0] if len(operands) == 1 else Shape.tuple(operands)


def _verify_sort(result: Result) -> str | None:
    operands = result.operands
    expected = _infer_sort(result)
    for dim in result.message.dimensions:
        if not -operands[0].rank <= dim < operands[0].rank:
            return f"dimensions={{{dim}}} must be a dimension of its operand, {operands[0]}"
    return verification.check_shape(result.shape, expected)


def _verify_comparator(result: Result) -> str | None:
    problem = verification.check_one_call(result.parameters)
    if problem:
        return problem
    # Two elements of each operand are compared.
    scalars = [
        Shape.array(operand.element_type, ()) for operand in result.operands if operand.is_array for _side in range(2)
    ]
    return verification.check_parameters(
        scalars, result.parameters[0], "element", verification.same_type_or_both_floating
    ) or verification.check_predicate(result.results[0], "comparator")


def _infer_topk(given: Given) -> Shape:
    message = given.message
    shape = array(given.operands[0])
    if not shape.rank or not 0 <= message.k <= shape.dimensions[-1]:
        raise CannotInfer(f"k={message.k} does not fit the last dimension of {shape}")
    sizes = [*shape.dimensions[:-1], message.k]
    return Shape.tuple([Shape.array(element_type, sizes) for element_type in (shape.element_type, PrimitiveType.S32)])


# -- linear algebra ----------------------------------------------------------------------------


_P = PrimitiveType


def _infer_cholesky(given: Given) -> Shape:
    shape = array(given.operands[0])
    if not is_floating(shape.element_type) or shape.rank < 2 or shape.dimensions[-1] != shape.dimensions[-2]:
        raise CannotInfer(f"its operand must be square and floating, found {shape}")
    return shape


def _infer_triangular_solve(given: Given) -> Shape:
    a, b = array(given.operands[0]), array(given.operands[1])
    if not given.message.triangular_solve_options.transpose_a:
        raise CannotInfer("transpose_a is not given")
    if not is_floating(a.element_type):
        raise CannotInfer(f"its operands must be floating or complex, found {a}")
    if a.rank != b.rank or a.rank < 2 or a.dimensions[-1] != a.dimensions[-2] or a.element_type != b.element_type:
        raise CannotInfer(f"operands {a} and {b} do not fit together")
    side = -2 if given.message.triangular_solve_options.left_side else -1
    if a.dimensions[-1] != b.dimensions[side] or a.dimensions[:-2] != b.dimensions[:-2]:
        raise CannotInfer(f"operands {a} and {b} do not fit together")
    return b


def _infer_fft(given: Given) -> Shape:
    message = given.message
    shape, lengths = array(given.operands[0]), list(message.fft_length)
    if not 1 <= len(lengths) <= 3 or shape.rank < len(lengths):
        raise CannotInfer(f"fft_length must name 1 to 3 of the last dimensions of {shape}, found {lengths}")
    sizes = list(shape.dimensions)
    last_sizes = sizes[-len(lengths) :]
    if message.fft_type in (xla.FFT, xla.IFFT):
        # As in XLA, fft_length is not compared with the sizes of the operand here.
        if not shape.element_type.is_complex:
            raise CannotInfer(f"its operand must be complex, found {shape}")
        return shape
    # The transform of real numbers is symmetric, so only half of it is kept.
    half = [*lengths[:-1], lengths[-1] // 2 + 1]
    if message.fft_type == xla.RFFT:
        types, expected, sizes[-1] = {_P.F32: _P.C64, _P.F64: _P.C128}, lengths, half[-1] if lengths[-1] else 0
    else:
        types, expected, sizes[-1] = {_P.C64: _P.F32, _P.C128: _P.F64}, half, lengths[-1]
    if not lengths[-1] and not last_sizes[-1]:
        expected = [*expected[:-1], 0]  # the transform of no elements has none, although 0 // 2 + 1 is 1
    if shape.element_type not in types or last_sizes != expected:
        raise CannotInfer(f"the last sizes must be {expected}, found {shape}")
    return Shape(types[shape.element_type], sizes, shape.dynamic_dimensions, shape.layout)


OPERATIONS: Final = (
    Operation(
        Opcode.SORT,
        restricts_layouts=True,
        operands=at_least(0),
        attributes=(required(DIMENSIONS, exactly_one_dimension), optional(IS_STABLE)),
        calls=TO_APPLY,
        infer=_infer_sort,
        verify=_verify_sort,
        verify_calls=_verify_comparator,
    ),
    Operation(
        Opcode.TOPK,
        restricts_layouts=True,
        operands=exactly(1),
        attributes=(
            required(K),
            optional(LARGEST, default=FIELDS.integer("largest", 1)),
            optional(TOPK_IS_STABLE, default=FIELDS.integer("is_stable", 1)),
        ),
        calls=TO_APPLY_WRITTEN_ONLY,
        infer=_infer_topk,
    ),
    Operation(
        Opcode.CHOLESKY,
        restricts_layouts=True,
        operands=exactly(1),
        attributes=(optional(CHOLESKY_LOWER),),
        fields=FIELDS.message("cholesky_options", b""),
        infer=_infer_cholesky,
    ),
    Operation(
        Opcode.TRIANGULAR_SOLVE,
        restricts_layouts=True,
        operands=exactly(2),
        attributes=(optional(LEFT_SIDE), optional(TRIANGULAR_LOWER), optional(UNIT_DIAGONAL), optional(TRANSPOSE_A)),
        fields=FIELDS.message("triangular_solve_options", b""),
        infer=_infer_triangular_solve,
    ),
    Operation(
        Opcode.FFT,
        restricts_layouts=True,
        operands=exactly(1),
        attributes=(required(FFT_TYPE), required(FFT_LENGTH)),
        infer=_infer_fft,
    ),
)
