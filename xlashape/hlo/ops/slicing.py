"""Table rows (`Operation`) and rules of operations that read or write parts of an array: slices and updates, and
gathers and scatters, which take the positions of the parts from an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xlashape.hlo.ops import verification
from xlashape.hlo.ops.attributes import AttributeUse, CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import TO_APPLY
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import (
    CannotInfer,
    Given,
    InPlace,
    MemoryTraffic,
    Movement,
    Operation,
    ReadPattern,
    Result,
    at_least,
    exactly,
)
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.hlo.values.dimension_numbers import (
    GATHER_DIMENSIONS,
    SCATTER_DIMENSIONS,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from xlashape.hlo.values.plain import INDICES_ARE_SORTED, UNIQUE_INDICES
from xlashape.hlo.values.window import DYNAMIC_SLICE_SIZES, SLICE, SLICE_SIZES, SliceDimension
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.shape import compatible_shapes, same_sizes


def _verify_slice(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = verification.check_arrays(shape, result.operands) or verification.check_element_type(shape, operand)
    if problem:
        return problem
    parts = [SliceDimension.of_proto(each) for each in result.message.slice_dimensions]
    if not len(parts) == operand.rank == shape.rank:
        return f"its {len(parts)} slices do not fit {operand} and {shape}"
    for dim, part in enumerate(parts):
        size = operand.dimensions[dim]
        # A negative size is unbounded.
        if not (0 <= part.start <= part.limit and (part.limit <= size or size < 0)) or part.stride < 1:
            return f"slice {part.write()} is not within dimension {dim} of {operand}"
        expected = -(-(part.limit - part.start) // part.stride)
        if shape.dimensions[dim] != expected:
            return f"dimension {dim} of {shape} should be {expected}"
    return None


def _check_start_indices(first: int) -> Callable[[Written], None]:
    """The `check` of an operation whose start indices are the operands from number `first` on."""

    def check(written: Written) -> None:
        # There is one scalar for each dimension; in older text one vector holds all start indices.
        operands = written.operands
        indices, rank = operands[first:], verification.held_array(operands[0]).rank
        if len(indices) != rank and not (len(indices) == 1 and indices[0].is_array and indices[0].rank == 1):
            raise CannotComplete(f"expected {rank} start indices, found {len(indices)}")

    return check


def _verify_dynamic_slice(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = (
        verification.check_array(operand, "operand")
        or verification.check_array(shape, "shape")
        or verification.check_element_type(shape, operand)
    )
    if problem:
        return problem
    sizes = tuple(result.message.dynamic_slice_sizes)
    if sizes != shape.dimensions:
        return f"dynamic_slice_sizes={list(sizes)} are not the dimensions of {shape}"
    if not _fits_within(sizes, operand):
        return f"slices of {list(sizes)} do not fit its operand {operand}"
    return _verify_start_indices(result.operands[1:], operand)


def _verify_dynamic_update_slice(result: Result) -> str | None:
    operands = result.operands
    operand, update = verification.held_array(operands[0]), operands[1]
    problem = verification.check_array(operand, "operand") or verification.check_array(update, "update")
    if problem:
        return problem
    if not compatible_shapes(result.shape, operands[0]):
        return f"its shape must be its operand's, {operands[0]}, found {result.shape}"
    if not _fits_within(update.dimensions, operand):
        return f"an update of {update} does not fit its operand {operand}"
    if not verification.same_type_or_both_floating(update, operand) or operands[0].is_buffer:
        problem = verification.check_element_type(update, operand)
    return problem or _verify_start_indices(operands[2:], operand)


def _fits_within(sizes: Sequence[int], operand: Shape) -> bool:
    if len(sizes) != operand.rank:
        return False
    return not any(size > bound >= 0 for size, bound in zip(sizes, operand.dimensions, strict=True))


def _verify_start_indices(indices: Sequence[Shape], operand: Shape) -> str | None:
    # There is one scalar for each dimension; in older modules one vector holds all start indices.
    if len(indices) == 1 and indices[0].is_array and indices[0].dimensions == (operand.rank,):
        return None if indices[0].element_type.is_integral else f"start indices must be integral, found {indices[0]}"
    if len(indices) != operand.rank:
        return f"it has {len(indices)} start indices for an operand of rank {operand.rank}"
    if any(index.element_type != indices[0].element_type for index in indices):
        return "its start indices must have the same element type"
    for index in indices:
        if not index.is_scalar or not index.element_type.is_integral:
            return f"a start index must be an integral scalar, found {index}"
    return None


_SLICES: Final = (
    Operation(
        Opcode.SLICE,
        operands=exactly(1),
        attributes=(required(SLICE),),
        verify=_verify_slice,
        reads=ReadPattern.PART,
        traffic=MemoryTraffic.TOUCHED,
        movement=Movement.TAKE,
    ),
    Operation(
        Opcode.DYNAMIC_SLICE,
        operands=at_least(1),
        attributes=(required(DYNAMIC_SLICE_SIZES),),
        check=_check_start_indices(1),
        verify=_verify_dynamic_slice,
        reads=ReadPattern.PART,
        traffic=MemoryTraffic.TOUCHED,
        movement=Movement.TAKE_AT,
    ),
    Operation(
        Opcode.DYNAMIC_UPDATE_SLICE,
        operands=at_least(2),
        check=_check_start_indices(2),
        verify=_verify_dynamic_update_slice,
        in_place=InPlace.FIRST_OPERAND,
        traffic=MemoryTraffic.TOUCHED,
        one_precision=True,
    ),
)


# -- gathers and scatters ----------------------------------------------------------------------


def _infer_gather(given: Given) -> Shape:
    """The shape of a gather: the dimensions of the slices at `offset_dims`, and between them those of the indices
    except `index_vector_dim`.
    """
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
    problem = _order_problem(numbers, ("collapsed_slice_dims", "operand_batching_dims"))
    if problem:
        raise CannotInfer(problem)
    if any(slices[dim] > 1 for dim in absent):
        raise CannotInfer("a collapsed or batching dimension must have slices of at most 1 element")
    batching = list(numbers.start_indices_batching_dims)
    if len(set(batching)) != len(batching) or not all(0 <= dim < indices.rank for dim in batching):
        raise CannotInfer(f"start_indices_batching_dims={batching} must be distinct dimensions of {indices}")
    counts = [len(numbers.operand_batching_dims), len(numbers.start_indices_batching_dims)]
    if counts[0] != counts[1]:
        raise CannotInfer(f"it must have as many batching dimensions in its operand as in its indices, found {counts}")
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


def _order_problem(numbers: GatherDimensionNumbers | ScatterDimensionNumbers, names: Sequence[str]) -> str | None:
    """The problem of the fields `names`, whose lists of dimensions must ascend; None if there is none."""
    for name in names:
        dims: list[int] = list(getattr(numbers, name))
        if sorted(set(dims)) != dims:
            return f"{name}={dims} must be distinct and ascend"
    return None


def _infer_scatter(given: Given) -> Shape:
    """The shape of a scatter: that of its array, or a tuple of the shapes of its arrays. Its operands are the arrays,
    then the indices, then an array of updates for each array."""
    operands = given.operands
    count = len(operands) // 2
    return operands[0] if count <= 1 else Shape.tuple(operands[:count])


def _verify_scatter(result: Result) -> str | None:
    operands = result.operands
    count = len(operands) // 2
    if len(operands) != 2 * count + 1:
        return f"expected arrays, indices and as many updates as arrays, found {len(operands)} operands"
    problem = verification.check_shape(result.shape, _infer_scatter(result))
    for operand, updates in zip(operands[:count], operands[count + 1 :], strict=True):
        if not verification.same_type_or_both_floating(operand, updates):
            problem = problem or f"updates of {updates} do not fit the element type of {operand}"
        if operand.dimensions != operands[0].dimensions or updates.dimensions != operands[count + 1].dimensions:
            problem = problem or "its operands must have equal dimensions, and so must its updates"
    return problem or _updates_problem(
        result.message, array(operands[0]), array(operands[count]), array(operands[count + 1])
    )


def _updates_problem(message: xla.HloInstructionProto, operand: Shape, indices: Shape, updates: Shape) -> str | None:
    """The problem of a scatter's dimension numbers, indices or updates; None if there is none."""
    numbers = ScatterDimensionNumbers.of_proto(message.scatter_dimension_numbers)
    vector_dim = numbers.index_vector_dim
    if not indices.element_type.is_integral:
        return f"its indices must be integers, found {indices}"
    if not 0 <= vector_dim <= indices.rank:
        return f"index_vector_dim={vector_dim} is not a dimension of the indices {indices}, nor the one after the last"
    vector = indices.dimensions[vector_dim] if vector_dim < indices.rank else 1
    written = list(numbers.scatter_dims_to_operand_dims)
    if not len(set(written)) == len(written) == vector or not all(0 <= dim < operand.rank for dim in written):
        return f"scatter_dims_to_operand_dims={written} must be {vector} distinct dimensions of {operand}"
    absent = [*numbers.inserted_window_dims, *numbers.input_batching_dims]
    if len(set(absent)) != len(absent) or not all(0 <= dim < operand.rank for dim in absent):
        return f"inserted and batching dimensions {absent} must be distinct dimensions of {operand}"
    problem = _order_problem(numbers, ("inserted_window_dims", "input_batching_dims", "update_window_dims"))
    if problem:
        return problem
    batching, count = list(numbers.scatter_indices_batching_dims), len(numbers.input_batching_dims)
    if not len(set(batching)) == len(batching) == count or not all(0 <= dim < indices.rank for dim in batching):
        return f"scatter_indices_batching_dims={batching} must be {count} distinct dimensions of the indices {indices}"
    window = list(numbers.update_window_dims)
    if not all(0 <= dim < updates.rank for dim in window):
        return f"update_window_dims={window} must be dimensions of the updates {updates}"
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
    # The computation combines elements of the arrays, as accumulators, with elements of the updates.
    elements = [Shape.array(array(operand).element_type, ()) for operand in operands[:count]]
    return verification.check_one_call(result.parameters) or verification.check_reducer(
        operands[count + 1 :], elements, result.parameters[0], result.results[0]
    )


def _check_scatter(written: Written) -> None:
    count = len(written.operands)
    if count % 2 == 0:
        raise CannotComplete(f"expected an odd number of operands, found {count}")


def _dimension_numbers(attributes: Sequence[Attribute]) -> list[AttributeUse]:
    """The use of dimension numbers: text may leave out the batching dimensions alone, which XLA had not at first."""
    return [optional(each) if each.name.endswith("batching_dims") else required(each) for each in attributes]


OPERATIONS: Final = (
    *_SLICES,
    Operation(
        Opcode.GATHER,
        operands=exactly(2),
        attributes=(*_dimension_numbers(GATHER_DIMENSIONS), required(SLICE_SIZES), optional(INDICES_ARE_SORTED)),
        fields=FIELDS.message("gather_dimension_numbers", b""),
        infer=_infer_gather,
        reads=ReadPattern.PART,
        traffic=MemoryTraffic.TOUCHED,
    ),
    Operation(
        Opcode.SCATTER,
        operands=at_least(1),
        attributes=(*_dimension_numbers(SCATTER_DIMENSIONS), optional(INDICES_ARE_SORTED), optional(UNIQUE_INDICES)),
        calls=TO_APPLY,
        check=_check_scatter,
        infer=_infer_scatter,
        in_place=InPlace.EACH_ARRAY,
        traffic=MemoryTraffic.TOUCHED,
        verify=_verify_scatter,
        verify_calls=_verify_combiner,
        one_precision=True,
    ),
)
