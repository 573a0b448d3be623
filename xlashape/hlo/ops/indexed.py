"""Operations that read or write slices at indices that an operand holds: gather and scatter."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import TO_APPLY
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, CannotInfer, Given, Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import check_one_call, check_reducer, check_shape, same_type_or_both_floating
from xlashape.hlo.values.gather_numbers import (
    COLLAPSED_SLICE_DIMS,
    GATHER_INDEX_VECTOR_DIM,
    OFFSET_DIMS,
    OPERAND_BATCHING_DIMS,
    START_INDEX_MAP,
    START_INDICES_BATCHING_DIMS,
    GatherDimensionNumbers,
)
from xlashape.hlo.values.plain import INDICES_ARE_SORTED, UNIQUE_INDICES
from xlashape.hlo.values.scatter_numbers import (
    INPUT_BATCHING_DIMS,
    INSERTED_WINDOW_DIMS,
    SCATTER_DIMS_TO_OPERAND_DIMS,
    SCATTER_INDEX_VECTOR_DIM,
    SCATTER_INDICES_BATCHING_DIMS,
    UPDATE_WINDOW_DIMS,
    ScatterDimensionNumbers,
)
from xlashape.hlo.values.slices import SLICE_SIZES
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.equality import same_sizes


def _infer_gather(given: Given) -> Shape:
    """The dimensions of the indices without the index vector's, with those of the slices at `offset_dims`."""
    shape, indices = array(given.operands[0]), array(given.operands[1])
    numbers = GatherDimensionNumbers.of_proto(given.message.gather_dimension_numbers)
    slices = list(given.message.gather_slice_sizes)
    if len(slices) != shape.rank or not 0 <= numbers.index_vector_dim <= indices.rank:
        raise CannotInfer(f"slice sizes and index vectors do not fit {shape} and {indices}")
    vector = indices.dimensions[numbers.index_vector_dim] if numbers.index_vector_dim < indices.rank else 1
    if len(numbers.start_index_map) != vector:
        raise CannotInfer(
            f"start_index_map has {len(numbers.start_index_map)} dimensions for index vectors of {vector}"
        )
    if not indices.element_type.is_integral:
        raise CannotInfer(f"its indices must be integers, found {indices}")
    indexed = list(numbers.start_index_map)
    if len(set(indexed)) != len(indexed) or not all(0 <= dim < shape.rank for dim in indexed):
        raise CannotInfer(f"start_index_map={indexed} must be distinct dimensions of {shape}")
    if any(not 0 <= size <= bound for size, bound in zip(slices, shape.dimensions, strict=True) if bound >= 0):
        raise CannotInfer(f"slices of {slices} do not fit {shape}")
    absent = [*numbers.collapsed_slice_dims, *numbers.operand_batching_dims]
    dropped = set(absent)
    if len(dropped) != len(absent) or not all(0 <= dim < shape.rank for dim in absent):
        raise CannotInfer(f"collapsed and batching dimensions {absent} must be distinct dimensions of {shape}")
    if any(slices[dim] > 1 for dim in absent):
        raise CannotInfer("a collapsed or batching dimension must have slices of at most 1 element")
    if not all(0 <= dim < indices.rank for dim in numbers.start_indices_batching_dims):
        batching = list(numbers.start_indices_batching_dims)
        raise CannotInfer(f"start_indices_batching_dims={batching} must be dimensions of {indices}")
    window = [size for dim, size in enumerate(slices) if dim not in dropped]
    batch = [dim for dim in range(indices.rank) if dim != numbers.index_vector_dim]
    rank = len(window) + len(batch)
    offsets = list(numbers.offset_dims)
    if len(window) != len(offsets) or sorted(set(offsets)) != offsets or not all(0 <= dim < rank for dim in offsets):
        raise CannotInfer(f"offset dimensions {offsets} for slices of {len(window)} dimensions")
    sizes: list[int] = []
    dynamic: list[bool] = []
    windows, batches = iter(window), iter(batch)
    for dim in range(rank):
        if dim in offsets:
            sizes.append(next(windows))
            dynamic.append(False)
        else:
            source = next(batches)
            sizes.append(indices.dimensions[source])
            dynamic.append(indices.dynamic_dimensions[source])
    return Shape(shape.element_type, sizes, dynamic).with_default_layout()


def _infer_scatter(given: Given) -> Shape:
    """The operand's shape; of several operands a tuple of theirs. The indices and as many updates follow the operands."""
    operands = given.operands
    count = len(operands) // 2
    return operands[0] if count <= 1 else Shape.tuple(operands[:count])


def _verify_scatter(result: Result) -> str | None:
    operands = result.operands
    count = len(operands) // 2
    problem = check_shape(result.shape, _infer_scatter(result))
    for operand, updates in zip(operands[:count], operands[count + 1 :], strict=True):
        if not same_type_or_both_floating(operand, updates):
            problem = problem or f"updates of {updates} do not fit the element type of {operand}"
        if operand.dimensions != operands[0].dimensions or updates.dimensions != operands[count + 1].dimensions:
            problem = problem or "its operands must have equal dimensions, and so must its updates"
    return problem or _updates_problem(
        result.message, array(operands[0]), array(operands[count]), array(operands[count + 1])
    )


def _updates_problem(message: xla.HloInstructionProto, operand: Shape, indices: Shape, updates: Shape) -> str | None:
    numbers = ScatterDimensionNumbers.of_proto(message.scatter_dimension_numbers)
    vector_dim = numbers.index_vector_dim
    if not indices.element_type.is_integral:
        return f"its indices must be integers, found {indices}"
    if not 0 <= vector_dim <= indices.rank:
        return f"index_vector_dim={vector_dim} is not a dimension of the indices {indices}, nor the one after the last"
    vector = indices.dimensions[vector_dim] if vector_dim < indices.rank else 1
    written = list(numbers.scatter_dims_to_operand_dims)
    if len(written) != vector or not all(0 <= dim < operand.rank for dim in written):
        return f"scatter_dims_to_operand_dims={written} must be {vector} dimensions of {operand}"
    absent = [*numbers.inserted_window_dims, *numbers.input_batching_dims]
    if len(set(absent)) != len(absent) or not all(0 <= dim < operand.rank for dim in absent):
        return f"inserted and batching dimensions {absent} must be distinct dimensions of {operand}"
    batching = list(numbers.scatter_indices_batching_dims)
    if len(batching) != len(numbers.input_batching_dims) or not all(0 <= dim < indices.rank for dim in batching):
        count = len(numbers.input_batching_dims)
        return f"scatter_indices_batching_dims={batching} must be {count} dimensions of the indices {indices}"
    window = list(numbers.update_window_dims)
    if len(set(window)) != len(window) or not all(0 <= dim < updates.rank for dim in window):
        return f"update_window_dims={window} must be distinct dimensions of the updates {updates}"
    kept = [size for dim, size in enumerate(operand.dimensions) if dim not in absent]
    if len(window) != len(kept):
        return f"windows of {len(window)} dimensions do not fit {operand}"
    for dim, size in zip(window, kept, strict=True):
        if updates.dimensions[dim] > size >= 0:
            return f"windows of {updates.dimensions[dim]} elements along dimension {dim} of the updates exceed {size}"
    positions = [size for dim, size in enumerate(indices.dimensions) if dim != vector_dim]
    if not same_sizes(
        tuple(updates.dimensions[dim] for dim in range(updates.rank) if dim not in window), tuple(positions)
    ):
        return f"the updates {updates} must have one window for each position of the indices {indices}"
    return None


def _verify_combiner(result: Result) -> str | None:
    operands = result.operands
    count = len(operands) // 2
    # Each accumulator begins as an element of an operand.
    elements = [Shape.array(array(operand).element_type, ()) for operand in operands[:count]]
    return check_one_call(result.parameters) or check_reducer(
        operands[count + 1 :], elements, result.parameters[0], result.results[0]
    )


def _check_scatter(written: Written) -> None:
    count = len(written.operands)
    if count % 2 == 0:
        raise CannotComplete(f"expected an odd number of operands, found {count}")


OPERATIONS: Final = (
    Operation(
        Opcode.GATHER,
        operands=exactly(2),
        attributes=(
            required(OFFSET_DIMS),
            required(COLLAPSED_SLICE_DIMS),
            required(START_INDEX_MAP),
            optional(OPERAND_BATCHING_DIMS),
            optional(START_INDICES_BATCHING_DIMS),
            required(GATHER_INDEX_VECTOR_DIM),
            required(SLICE_SIZES),
            optional(INDICES_ARE_SORTED),
        ),
        fields=FIELDS.message("gather_dimension_numbers", b""),
        infer=_infer_gather,
    ),
    Operation(
        Opcode.SCATTER,
        operands=at_least(1),
        attributes=(
            required(UPDATE_WINDOW_DIMS),
            required(INSERTED_WINDOW_DIMS),
            required(SCATTER_DIMS_TO_OPERAND_DIMS),
            optional(INPUT_BATCHING_DIMS),
            optional(SCATTER_INDICES_BATCHING_DIMS),
            required(SCATTER_INDEX_VECTOR_DIM),
            optional(INDICES_ARE_SORTED),
            optional(UNIQUE_INDICES),
        ),
        calls=TO_APPLY,
        check=_check_scatter,
        infer=_infer_scatter,
        verify=_verify_scatter,
        verify_calls=_verify_combiner,
        one_precision=True,
    ),
)
