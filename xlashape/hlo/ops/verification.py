"""What the verification rules of several families share. Each function gives a sentence that says what is wrong, or None."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = [
    "any_shape",
    "check_array",
    "check_arrays",
    "check_element_type",
    "check_one_call",
    "check_parameters",
    "check_predicate",
    "check_result",
    "check_scalar_parameters",
    "check_shape",
    "same_type_or_both_floating",
]


def any_shape(_message: xla.HloInstructionProto, _shape: Shape, _operands: Sequence[Shape]) -> str | None:
    """The rule of an operation whose shape is not checked."""
    return None


def same_type_or_both_floating(lhs: Shape, rhs: Shape) -> bool:
    """Whether element types are equal apart from the precision of floating-point numbers."""
    return lhs.element_type == rhs.element_type or (lhs.element_type.is_floating and rhs.element_type.is_floating)


def check_array(shape: Shape, what: str) -> str | None:
    """`shape` must be an array; `what` names it in the sentence."""
    return None if shape.is_array else f"its {what} must be an array, found {shape}"


def check_arrays(shape: Shape, operands: Sequence[Shape]) -> str | None:
    """The result and all operands must be arrays."""
    problem = check_array(shape, "shape")
    for operand in operands:
        problem = problem or check_array(operand, "operand")
    return problem


def check_element_type(shape: Shape, operand: Shape) -> str | None:
    """The element types must be equal."""
    if shape.element_type == operand.element_type:
        return None
    return f"its element type must be its operand's, {operand.element_type}, found {shape.element_type}"


def check_shape(shape: Shape, expected: Shape) -> str | None:
    """The shape of the instruction must be `expected`, which follows from its operands."""
    return None if compatible_shapes(shape, expected) else f"its shape is {shape}, its operands give {expected}"


def check_one_call(called: Sequence[Sequence[Shape]]) -> str | None:
    """Exactly one computation must be called."""
    return None if len(called) == 1 else f"calls {len(called)} computations, not one"


def check_parameters(expected: Sequence[Shape], parameters: Sequence[Shape], what: str = "operand") -> str | None:
    """The parameters of a called computation must have the shapes `expected`."""
    if len(expected) != len(parameters):
        return f"calls a computation of {len(parameters)} parameters with {len(expected)}"
    for index, (given, parameter) in enumerate(zip(expected, parameters, strict=True)):
        if not compatible_shapes(given, parameter):
            return f"{what} {index} is {given}, the parameter of the called computation {parameter}"
    return None


def check_result(shape: Shape, result: Shape) -> str | None:
    """A called computation must give the shape of the instruction."""
    return None if compatible_shapes(shape, result) else f"its shape is {shape}, the called computation gives {result}"


def check_predicate(result: Shape, what: str) -> str | None:
    """A called computation must give one predicate; `what` names it in the sentence."""
    is_predicate = result.is_scalar and result.element_type == PrimitiveType.PRED
    return None if is_predicate else f"its {what} must give pred[], found {result}"


def check_scalar_parameters(
    _shape: Shape, operands: Sequence[Shape], called: Sequence[Sequence[Shape]], _results: Sequence[Shape]
) -> str | None:
    """The rule of a reducer: one computation, a scalar parameter for each operand."""
    problem = check_one_call(called)
    if problem:
        return problem
    if len(called[0]) != len(operands):
        return f"calls a computation of {len(called[0])} parameters for {len(operands)} operands"
    for parameter in called[0]:
        if not parameter.is_scalar:
            return f"its computation must take scalars, found {parameter}"
    return None
