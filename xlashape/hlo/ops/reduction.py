"""Table rows (`Operation`) and rules of operations that combine elements: reductions along whole dimensions and in
windows that slide over arrays, scans, maps, and batch normalization.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops import inference, verification
from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import SELECT_AND_SCATTER, TO_APPLY, TO_APPLY_OR_CALLS
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.enums import IS_ASSOCIATIVE
from xlashape.hlo.values.plain import DIMENSIONS, EPSILON, FEATURE_INDEX, IS_REVERSE, NUM_CARRIES, SCAN_DIMENSION
from xlashape.hlo.values.window import WINDOW, Window
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes


def _steps(window: Window, shape: Shape) -> list[int]:
    return [inference.window_steps(size, dim) for size, dim in zip(shape.dimensions, window.dimensions, strict=True)]


def _check_reduce_window(written: Written) -> None:
    inference.check_even_operand_count(written)
    if written.shape is None and len(written.operands) > 2:  # an input and its initial value
        raise CannotComplete("the shape of a reduce-window of several inputs must be written")


def _infer_reduce_window(given: Given) -> Shape:
    operands = given.operands
    inputs = [array(operand) for operand in operands[: len(operands) // 2]]
    window = Window.of_proto(given.message.window)
    if not inputs or not given.results or len(window.dimensions) != inputs[0].rank:
        raise CannotInfer("its window must have as many dimensions as its operands")
    if any(each.dimensions != inputs[0].dimensions for each in inputs):
        raise CannotInfer(f"its inputs must have equal dimensions, found {', '.join(map(str, inputs))}")
    sizes, dynamic = _steps(window, inputs[0]), inputs[0].dynamic_dimensions
    # The results have the element types of the initial values.
    initial = operands[len(inputs) :]
    shapes = [Shape(each.element_type, sizes, dynamic).with_default_layout() for each in initial]
    return Shape.tuple(shapes) if given.results[0].is_tuple else shapes[0]


def _infer_select_and_scatter(given: Given) -> Shape:
    """The shape of a select-and-scatter: that of its operand. The source has an element for each position of the
    window.
    """
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
        verification.check_parameters([scalar, scalar], called[0], "element", verification.same_type_or_both_floating)
        or verification.check_predicate(result.results[0], "select")
        or verification.check_reducer([operands[1]], [operands[2]], called[1], result.results[1])
    )


_WINDOWS: Final = (
    Operation(
        Opcode.REDUCE_WINDOW,
        operands=at_least(0),
        attributes=(optional(WINDOW, default=inference.EMPTY_WINDOW),),
        calls=TO_APPLY,
        check=_check_reduce_window,
        infer=_infer_reduce_window,
        verify_calls=verification.check_reduction,
    ),
    Operation(
        Opcode.SELECT_AND_SCATTER,
        operands=exactly(3),
        attributes=(optional(WINDOW, default=inference.EMPTY_WINDOW),),
        calls=SELECT_AND_SCATTER,
        infer=_infer_select_and_scatter,
        verify_calls=_verify_select_and_scatter,
        one_precision=True,
    ),
)


# -- reductions --------------------------------------------------------------------------------


def _infer_reduce(given: Given) -> Shape:
    message, results = given.message, given.results
    inputs = [array(operand) for operand in given.operands[: len(given.operands) // 2]]
    if not inputs or not results:
        raise CannotInfer("it needs operands and as many initial values")
    for other in inputs[1:]:
        if other.dimensions != inputs[0].dimensions:
            raise CannotInfer(f"its inputs must have equal dimensions, found {inputs[0]} and {other}")
    reduced = set(message.dimensions)
    if len(reduced) != len(message.dimensions) or not all(0 <= dim < inputs[0].rank for dim in reduced):
        raise CannotInfer(f"dimensions {list(message.dimensions)} are not distinct dimensions of {inputs[0]}")
    kept = [dim for dim in range(inputs[0].rank) if dim not in reduced]
    sizes = [inputs[0].dimensions[dim] for dim in kept]
    dynamic = [inputs[0].dynamic_dimensions[dim] for dim in kept]
    parts = results[0].tuple_shapes if results[0].is_tuple else (results[0],)
    shapes = [Shape(part.element_type, sizes, dynamic).with_default_layout() for part in parts]
    return Shape.tuple(shapes) if results[0].is_tuple else shapes[0]


# -- map ------------------------------------------------------------------------------------


def _map_dimensions(written: Written, value: bytes | None) -> bytes:
    # XLA sets all dimensions, whichever text names. If text leaves the shape out, `_infer_map` checks the named ones.
    if written.shape is None:
        return value or b""
    return FIELDS.integers("dimensions", range(written.shape.rank))


def _check_map(written: Written) -> None:
    if written.shape is None and not written.has("dimensions"):
        raise CannotComplete("the shape of a map without dimensions must be written")


def _infer_map(given: Given) -> Shape:
    operands = given.operands
    if not operands or not given.results:
        raise CannotInfer("it needs operands")
    # A scalar operand is used for every element.
    arrays = [operand for operand in operands if array(operand).rank] or operands
    shape = array(arrays[0])
    if list(given.message.dimensions) != list(range(shape.rank)):
        raise CannotInfer(f"its dimensions must be all those of {shape}, found {list(given.message.dimensions)}")
    if any(operand.dimensions != shape.dimensions for operand in arrays):
        raise CannotInfer(f"its operands must have equal dimensions, found {', '.join(map(str, operands))}")
    return Shape(given.results[0].element_type, shape.dimensions, shape.dynamic_dimensions).with_default_layout()


def _verify_mapped(result: Result) -> str | None:
    problem = verification.check_one_call(result.parameters)
    if problem:
        return problem
    scalars = [Shape.array(operand.element_type, ()) for operand in result.operands if operand.is_array]
    if not result.results[0].is_scalar:
        return f"its computation must give a scalar, found {result.results[0]}"
    return verification.check_parameters(scalars, result.parameters[0], "element")


# -- scan -----------------------------------------------------------------------------------


def _check_scan(written: Written) -> None:
    count = len(written.operands)
    parameters = written.called_parameters("to_apply")[0]
    if parameters >= 0 and parameters != count:
        raise CannotComplete(f"to_apply has {parameters} parameters, found {count} operands")
    carries = xla.HloInstructionProto.FromString(written.value("num_carries")).num_carries
    if count < carries:
        raise CannotComplete(f"its {carries} carries need as many operands, found {count}")


def _verify_scan(result: Result) -> str | None:
    """Checks the shape of a scan. Its operands are inputs, then carries. Its result is a tuple of outputs, then
    carries.
    """
    shape, operands = result.shape, result.operands
    carries = result.message.num_carries
    results = shape.tuple_shapes
    if not shape.is_tuple or not 0 <= carries <= min(len(operands), len(results)):
        return f"its shape must be a tuple of outputs and {carries} carries, found {shape}"
    for begin, end in zip(operands[len(operands) - carries :], results[len(results) - carries :], strict=True):
        if not compatible_shapes(begin, end):
            return f"its carry begins as {begin} and ends as {end}"
    return None


def _verify_scan_body(result: Result) -> str | None:
    """Checks the computation of a scan. It takes a slice of each input, and the carries. It gives a slice of each
    output, and the carries.
    """
    message, operands, called, results = result.message, result.operands, result.parameters, result.results
    problem = verification.check_one_call(called)
    if problem or len(called[0]) != len(operands):
        return problem or f"calls a computation of {len(called[0])} parameters with {len(operands)}"
    given, steps = result.shape.tuple_shapes, results[0].tuple_shapes
    if not results[0].is_tuple or len(given) != len(steps):
        return f"its computation must give {len(given)} outputs and carries, found {results[0]}"
    inputs, outputs = len(operands) - message.num_carries, len(given) - message.num_carries
    if not inputs and not outputs:
        return "it needs an input or an output, found carries alone"
    dim = message.dimensions[0] if message.dimensions else 0
    sliced = [*zip(operands[:inputs], called[0], strict=False), *zip(given[:outputs], steps, strict=False)]
    sizes: set[int] = set()
    for whole, step in sliced:
        if not whole.is_array or not 0 <= dim < whole.rank:
            return f"its inputs and outputs must be arrays with a dimension {dim}, found {whole}"
        rest = (*whole.dimensions[:dim], *whole.dimensions[dim + 1 :])
        if not compatible_shapes(Shape.array(whole.element_type, rest), step):
            return f"without dimension {dim}, {whole} must be as in its computation, {step}"
        sizes.add(whole.dimensions[dim])
    if len(sizes) > 1:
        return f"its inputs and outputs must have equal sizes along dimension {dim}, found {sorted(sizes)}"
    for carry, parameter in zip(operands[inputs:], called[0][inputs:], strict=True):
        if not compatible_shapes(carry, parameter):
            return f"its carry begins as {carry}, its computation takes {parameter}"
    for carry, step in zip(given[outputs:], steps[outputs:], strict=True):
        if not compatible_shapes(carry, step):
            return f"its carry ends as {carry}, its computation gives {step}"
    return None


# -- batch normalization --------------------------------------------------------------------


def _features(message: xla.HloInstructionProto, shape: Shape, vectors: Sequence[Shape]) -> Shape:
    """The shape of a vector with one value for each feature. Each of `vectors` must have the same dimensions as it."""
    dim = message.feature_index
    if not 0 <= dim < shape.rank:
        raise CannotInfer(f"{shape} has no dimension {dim}")
    if not shape.element_type.is_floating:
        raise CannotInfer(f"its operands must be floating, found {shape}")
    for vector in map(array, vectors):
        if not verification.same_type_or_both_floating(vector, shape):
            raise CannotInfer(f"its operands must have the same element type, found {shape} and {vector}")
        if vector.dimensions != (shape.dimensions[dim],):
            raise CannotInfer(f"expected a vector of {shape.dimensions[dim]} features, found {vector}")
    return Shape(shape.element_type, [shape.dimensions[dim]], [shape.dynamic_dimensions[dim]]).with_default_layout()


def _infer_training(given: Given) -> Shape:
    shape = array(given.operands[0])
    feature = _features(given.message, shape, given.operands[1:])
    return Shape.tuple([shape, feature, feature])


def _infer_inference(given: Given) -> Shape:
    shape, *vectors = map(array, given.operands)
    _features(given.message, shape, vectors[:2])
    # As in XLA, mean and variance may have any number of dimensions, of which only the first is checked.
    _features(given.message, shape, [Shape.array(each.element_type, each.dimensions[:1]) for each in vectors[2:]])
    return shape


def _infer_gradient(given: Given) -> Shape:
    # Operand 4 is the gradient of the result. It has the shape of operand 0.
    operands = given.operands
    if operands[4].dimensions != array(operands[0]).dimensions:
        raise CannotInfer(f"the gradient {operands[4]} must have the dimensions of {operands[0]}")
    if not operands[4].element_type.is_floating:
        raise CannotInfer(f"the gradient must be floating, found {operands[4]}")
    return _infer_training(Given(given.message, operands[:4]))


_BATCH_NORM = (required(EPSILON), required(FEATURE_INDEX))

OPERATIONS: Final = (
    *_WINDOWS,
    Operation(
        Opcode.REDUCE,
        operands=at_least(0),
        attributes=(required(DIMENSIONS),),
        calls=TO_APPLY,
        check=inference.check_even_operand_count,
        infer=_infer_reduce,
        verify_calls=verification.check_reduction,
        one_precision=True,
    ),
    Operation(
        Opcode.MAP,
        operands=at_least(0),
        attributes=(optional(DIMENSIONS, _map_dimensions),),
        calls=TO_APPLY,
        check=_check_map,
        infer=_infer_map,
        verify_calls=_verify_mapped,
        one_precision=True,
    ),
    Operation(
        Opcode.SCAN,
        operands=at_least(0),
        attributes=(
            required(SCAN_DIMENSION, inference.exactly_one_dimension),
            required(NUM_CARRIES),
            optional(IS_REVERSE),
            optional(IS_ASSOCIATIVE, default=FIELDS.integer("is_associative", xla.TRI_STATE_FALSE)),
        ),
        calls=TO_APPLY_OR_CALLS,
        check=_check_scan,
        verify=_verify_scan,
        verify_calls=_verify_scan_body,
    ),
    Operation(
        Opcode.BATCH_NORM_TRAINING,
        operands=exactly(3),
        attributes=_BATCH_NORM,
        infer=_infer_training,
        one_precision=True,
    ),
    Operation(
        Opcode.BATCH_NORM_INFERENCE,
        operands=exactly(5),
        attributes=_BATCH_NORM,
        infer=_infer_inference,
        one_precision=True,
    ),
    Operation(
        Opcode.BATCH_NORM_GRAD, operands=exactly(5), attributes=_BATCH_NORM, infer=_infer_gradient, one_precision=True
    ),
)
