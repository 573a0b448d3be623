"""Checks that the rules of several families of operations share. The functions `check_…` and `…_problem` return a
message about what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from xlashape.hlo.ops.operation import Result
from xlashape.hlo.values.aliasing import OutputOperandAliasing
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.shape import compatible_shapes, part_of


class BufferTarget(str, Enum):
    """The targets of the custom calls that create a buffer, turn an array into a buffer, and turn a buffer into an
    array.
    """

    CREATE = "CreateBuffer"
    PIN = "Pin"
    UNPIN = "Unpin"

    def __str__(self) -> str:
        return self.value


def any_shape(_: Result) -> str | None:
    """The `verify` of an operation whose shape is not checked on its own."""
    return None


def same_type(lhs: Shape, rhs: Shape) -> bool:
    """Whether the element types of two shapes are equal."""
    return lhs.element_type == rhs.element_type


def same_type_or_both_floating(lhs: Shape, rhs: Shape) -> bool:
    """Whether the element types of two shapes are equal or both floating."""
    return lhs.element_type == rhs.element_type or (lhs.element_type.is_floating and rhs.element_type.is_floating)


def check_array(shape: Shape, what: str) -> str | None:
    """Checks that `shape` is an array; `what` names it in the message."""
    return None if shape.is_array else f"its {what} must be an array, found {shape}"


def check_arrays(shape: Shape, operands: Sequence[Shape]) -> str | None:
    """Checks that the result and all operands are arrays."""
    problem = check_array(shape, "shape")
    for operand in operands:
        problem = problem or check_array(operand, "operand")
    return problem


def check_element_type(shape: Shape, operand: Shape) -> str | None:
    """Checks that the element type of the result, `shape`, is that of the operand."""
    if shape.element_type == operand.element_type:
        return None
    return f"its element type must be its operand's, {operand.element_type}, found {shape.element_type}"


def check_shape(shape: Shape, expected: Shape) -> str | None:
    """Checks that the shape of the instruction is `expected`, which is inferred from its operands."""
    return None if compatible_shapes(shape, expected) else f"its shape is {shape}, its operands give {expected}"


def check_one_call(called: Sequence[Sequence[Shape]]) -> str | None:
    """Checks that exactly one computation is called. `called` has the parameters of each."""
    return None if len(called) == 1 else f"calls {len(called)} computations, not one"


def check_parameters(
    expected: Sequence[Shape],
    parameters: Sequence[Shape],
    what: str = "operand",
    compare: Callable[[Shape, Shape], bool] = same_type,
) -> str | None:
    """Checks that the parameters of a called computation have the shapes `expected`. `compare` compares element
    types."""
    if len(expected) != len(parameters):
        return f"calls a computation of {len(parameters)} parameters with {len(expected)}"
    for index, (given, parameter) in enumerate(zip(expected, parameters, strict=True)):
        if not compatible_shapes(given, parameter, compare):
            return f"{what} {index} is {given}, the parameter of the called computation {parameter}"
    return None


def check_result(shape: Shape, result: Shape) -> str | None:
    """Checks that the result of a called computation has the shape of the instruction."""
    return None if compatible_shapes(shape, result) else f"its shape is {shape}, the called computation gives {result}"


def check_predicate(result: Shape, what: str) -> str | None:
    """Checks that the result of a called computation is one predicate; `what` names the computation in the message."""
    is_predicate = result.is_scalar and result.element_type == PrimitiveType.PRED
    return None if is_predicate else f"its {what} must give pred[], found {result}"


_SKIPS_SHAPES: Final = "xla_skip_custom_call_alias_shape_check"
"""The frontend attribute of a custom call whose aliases may join arrays of different shapes. It may have any value."""


def check_aliasing(result: Result) -> str | None:
    """Checks that each entry of output_to_operand_aliasing joins a part of the result with a part of an operand of the
    same shape.
    """
    return aliasing_problem(result.message, result.shape, result.operands)


def aliasing_problem(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    """As `check_aliasing`, for an instruction with a result of shape `shape` and these operands."""
    for each in message.output_operand_aliasing:
        alias = OutputOperandAliasing.of_proto(each)
        number = alias.operand_index
        if not 0 <= number < len(operands):
            return f"output_to_operand_aliasing names operand {number} of {len(operands)}"
        operand = operands[number]
        target, source = part_of(shape, alias.output_shape_index), part_of(operand, alias.operand_shape_index)
        missing = "output_to_operand_aliasing names {} of {}, which does not exist"
        if target is None:
            return missing.format(list(alias.output_shape_index), shape)
        if source is None:
            return missing.format(list(alias.operand_shape_index), operand)
        if message.custom_call_target in (BufferTarget.PIN, BufferTarget.UNPIN):
            source, target = held_array(source), held_array(target)
        if not compatible_shapes(source, target) and _SKIPS_SHAPES not in message.frontend_attributes.map:
            return f"output_to_operand_aliasing joins {target} with {source} of operand {number}"
    return None


def held_array(shape: Shape) -> Shape:
    """The shape of the array that a buffer holds; any other shape is returned unchanged."""
    return shape.buffer_shape if shape.is_buffer else shape


def check_token(operands: Sequence[Shape], number: int) -> str | None:
    """Checks that operand `number` is a token."""
    return None if operands[number].is_token else f"operand {number} must be a token, found {operands[number]}"


def check_reducer(
    inputs: Sequence[Shape], initial: Sequence[Shape], parameters: Sequence[Shape], result: Shape
) -> str | None:
    """Checks that a called computation takes an accumulator for each of `initial` and an element of each of `inputs`,
    and returns accumulators.
    """
    if len(parameters) != 2 * len(inputs):
        return f"calls a computation of {len(parameters)} parameters for {len(inputs)} inputs, it needs two for each"
    results = result.tuple_shapes if result.is_tuple else (result,)
    if len(results) != len(inputs):
        return f"its computation gives {len(results)} results for {len(inputs)} inputs"
    accumulators, elements = parameters[: len(inputs)], parameters[len(inputs) :]
    for number, (accumulator, element) in enumerate(zip(accumulators, elements, strict=True)):
        if not accumulator.is_scalar or not element.is_scalar:
            return f"its computation must take scalars, found {accumulator} and {element}"
        if not compatible_shapes(accumulator, results[number]):
            return f"its computation takes {accumulator} as accumulator {number} and gives {results[number]}"
        if not compatible_shapes(accumulator, initial[number], same_type_or_both_floating):
            return f"the initial value {number} is {initial[number]}, its computation takes {accumulator}"
        if not same_type_or_both_floating(element, inputs[number]):
            return f"input {number} is {inputs[number]}, its computation takes {element}"
    return None


def check_reduction(result: Result) -> str | None:
    """Checks the called computation of a reduction, whose operands are inputs and as many initial values."""
    return reduction_problem(result.operands, result.parameters, result.results)


def reduced_types_problem(operands: Sequence[Shape], parameters: Sequence[Shape]) -> str | None:
    """Checks that the called computation of a reduction takes elements of the same precision as the inputs."""
    count = len(operands) // 2
    for number, (operand, element) in enumerate(zip(operands[:count], parameters[count:], strict=True)):
        if operand.element_type != element.element_type:
            return f"input {number} is {operand}, its computation takes {element}"
    return None


def reduction_problem(
    operands: Sequence[Shape], called: Sequence[Sequence[Shape]], results: Sequence[Shape]
) -> str | None:
    """As `check_reduction`, for these operands, and the parameters and results of the called computations."""
    count = len(operands) // 2
    return check_one_call(called) or check_reducer(operands[:count], operands[count:], called[0], results[0])
