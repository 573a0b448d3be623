"""Table rows (`Operation`) and rules of operations that make values without reading arrays: parameters, constants,
iota, the number of the replica or partition, and random numbers.
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import required, written_only
from xlashape.hlo.ops.inference import is_number
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import (
    Contents,
    Given,
    MemoryTraffic,
    Operation,
    Result,
    ResultSource,
    at_least,
    exactly,
    rows,
)
from xlashape.hlo.ops.verification import any_shape, check_array
from xlashape.hlo.values.enums import DISTRIBUTION, RNG_ALGORITHM
from xlashape.hlo.values.plain import DELTA, IOTA_DIMENSION, PARAMETER_REPLICATION
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.shape import compatible_shapes


def _infer_device_number(_: Given) -> Shape:
    return Shape.array("u32", ())


def _verify_constant(result: Result) -> str | None:
    if not result.message.HasField("literal"):
        return "has no literal"
    literal = Shape.from_proto(result.message.literal.shape)
    return None if compatible_shapes(result.shape, literal) else f"its shape is {result.shape}, its literal's {literal}"


def _verify_iota(result: Result) -> str | None:
    shape = result.shape
    problem = check_array(shape, "shape")
    if not problem and not is_number(shape.element_type):
        problem = f"its elements must be numbers, found {shape}"
    dimension = result.message.dimensions[0] if result.message.dimensions else 0
    if problem or 0 <= dimension < shape.rank:
        return problem
    return f"iota_dimension={dimension} is not a dimension of {shape}"


def _verify_rng(result: Result) -> str | None:
    shape, operands = result.shape, result.operands
    if len(operands) != 2:
        return f"rng takes 2 operands, found {len(operands)}"
    for operand in operands:
        if not operand.is_scalar or operand.element_type != shape.element_type:
            return f"its operands must be scalars of its element type, {shape.element_type}, found {operand}"
    if shape.element_type.is_complex:
        return f"random numbers must not be complex, found {shape}"
    if result.message.distribution == xla.RNG_NORMAL and not shape.element_type.is_floating:
        return f"normally distributed numbers must be floating, found {shape}"
    return None


def _verify_bit_generator(result: Result) -> str | None:
    shape = result.shape
    if not shape.is_tuple:
        return None  # the result is the random bits, without the state
    if len(shape.tuple_shapes) != 2:
        return f"its shape must be a tuple of its state and its bits, found {shape}"
    state = shape.tuple_shapes[0]
    return (
        None
        if compatible_shapes(state, result.operands[0])
        else f"its state is {result.operands[0]}, its result has {state}"
    )


def _verify_state(result: Result) -> str | None:
    # In modules of older versions of XLA the state is u64[1].
    shape = result.shape
    if shape.is_array and shape.element_type == PrimitiveType.U64 and shape.dimensions in ((2,), (1,)):
        return None
    return f"its shape must be u64[2], found {shape}"


OPERATIONS: Final = (
    Operation(
        Opcode.PARAMETER,
        operands=exactly(0),
        source=ResultSource.ARGUMENT,
        traffic=MemoryTraffic.NOTHING,
        is_given=True,
        contents=Contents.PARAMETER_NUMBER,
        # The reader accepts this attribute for any instruction; the writer writes it for a parameter alone.
        attributes=(written_only(PARAMETER_REPLICATION),),
        verify=any_shape,
    ),
    Operation(
        Opcode.CONSTANT,
        operands=exactly(0),
        contents=Contents.LITERAL,
        verify=_verify_constant,
        traffic=MemoryTraffic.NOTHING,
        is_given=True,
    ),
    Operation(Opcode.IOTA, operands=exactly(0), attributes=(required(IOTA_DIMENSION),), verify=_verify_iota),
    *rows((Opcode.PARTITION_ID, Opcode.REPLICA_ID), operands=exactly(0), infer=_infer_device_number, is_given=True),
    Operation(
        Opcode.RNG, operands=at_least(0), attributes=(required(DISTRIBUTION),), verify=_verify_rng, has_effect=True
    ),
    Operation(
        Opcode.RNG_BIT_GENERATOR,
        operands=exactly(1),
        attributes=(required(RNG_ALGORITHM),),
        verify=_verify_bit_generator,
    ),
    Operation(
        Opcode.RNG_GET_AND_UPDATE_STATE,
        operands=exactly(0),
        attributes=(required(DELTA),),
        verify=_verify_state,
        has_effect=True,
    ),
)
