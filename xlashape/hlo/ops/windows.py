"""Operations on sliding windows: reduce-window and select-and-scatter."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, optional
from xlashape.hlo.ops.calls import SELECT_AND_SCATTER, TO_APPLY
from xlashape.hlo.ops.inference import EMPTY_WINDOW, array, check_even_operand_count, window_steps
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import (
    check_parameters,
    check_predicate,
    check_reducer,
    check_reduction,
    same_type_or_both_floating,
)
from xlashape.hlo.values.window import WINDOW, Window
from xlashape.shape import Shape


def _steps(window: Window, shape: Shape) -> list[int]:
    return [window_steps(size, dim) for size, dim in zip(shape.dimensions, window.dimensions, strict=True)]


def _check_reduce_window(written: Written) -> None:
    check_even_operand_count(written)
    if written.shape is None and len(written.operands) > 2:  # an input and its initial value
        raise CannotComplete("the shape of a reduce-window of several inputs must be written")


def _infer_reduce_window(given: Given) -> Shape:
    operands = given.operands
    inputs = [array(operand) for operand in operands[: len(operands) // 2]]
    window = Window.of_proto(given.message.window)
    if not inputs or not given.results or len(window.dimensions) != inputs[0].rank:
        raise CannotInfer("its window must have as many dimensions as its operands")
    sizes, dynamic = _steps(window, inputs[0]), inputs[0].dynamic_dimensions
    # The values that are combined are those that the initial values begin.
    initial = operands[len(inputs) :]
    shapes = [Shape(each.element_type, sizes, dynamic).with_default_layout() for each in initial]
    return Shape.tuple(shapes) if given.results[0].is_tuple else shapes[0]


def _infer_select_and_scatter(given: Given) -> Shape:
    """The operand's shape. The source has one element for each position of the window."""
    shape, source = array(given.operands[0]), array(given.operands[1])
    window = Window.of_proto(given.message.window)
    if len(window.dimensions) != shape.rank:
        raise CannotInfer("its window must have as many dimensions as its operand")
    sizes = _steps(window, shape)
    if list(source.dimensions) != sizes:
        raise CannotInfer(f"the source must have the sizes {sizes}, found {source}")
    return shape


def _verify_select_and_scatter(result: Result) -> str | None:
    operands, called = result.operands, result.parameters
    if len(called) != 2:
        return f"calls {len(called)} computations, not select and scatter"
    scalar = Shape.array(operands[0].element_type, ())
    return (
        check_parameters([scalar, scalar], called[0], "element", same_type_or_both_floating)
        or check_predicate(result.results[0], "select")
        or check_reducer([operands[1]], [operands[2]], called[1], result.results[1])
    )


OPERATIONS: Final = (
    Operation(
        Opcode.REDUCE_WINDOW,
        operands=at_least(0),
        attributes=(optional(WINDOW, default=EMPTY_WINDOW),),
        calls=TO_APPLY,
        check=_check_reduce_window,
        infer=_infer_reduce_window,
        verify_calls=check_reduction,
    ),
    Operation(
        Opcode.SELECT_AND_SCATTER,
        operands=exactly(3),
        attributes=(optional(WINDOW, default=EMPTY_WINDOW),),
        calls=SELECT_AND_SCATTER,
        infer=_infer_select_and_scatter,
        verify_calls=_verify_select_and_scatter,
        one_precision=True,
    ),
)
