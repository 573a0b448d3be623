"""Slices of an array and updates of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, required
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Operation, Result, at_least, exactly
from xlashape.hlo.ops.verification import (
    check_array,
    check_arrays,
    check_element_type,
    held_array,
    same_type_or_both_floating,
)
from xlashape.hlo.values.slices import DYNAMIC_SLICE_SIZES, SLICE, SliceDimension
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes


def _verify_slice(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = check_arrays(shape, result.operands) or check_element_type(shape, operand)
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
    """The check of an operation whose start indices are the operands from number `first` on."""

    def check(written: Written) -> None:
        # The indices are one scalar a dimension, or in older text one vector.
        operands = written.operands
        indices, rank = operands[first:], held_array(operands[0]).rank
        if len(indices) != rank and not (len(indices) == 1 and indices[0].is_array and indices[0].rank == 1):
            raise CannotComplete(f"expected {rank} start indices, found {len(indices)}")

    return check


def _verify_dynamic_slice(result: Result) -> str | None:
    shape = result.shape
    operand = result.operands[0]
    problem = check_array(operand, "operand") or check_array(shape, "shape") or check_element_type(shape, operand)
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
    operand, update = held_array(operands[0]), operands[1]
    problem = check_array(operand, "operand") or check_array(update, "update")
    if problem:
        return problem
    if not compatible_shapes(result.shape, operands[0]):
        return f"its shape must be its operand's, {operands[0]}, found {result.shape}"
    if not _fits_within(update.dimensions, operand):
        return f"an update of {update} does not fit its operand {operand}"
    if not same_type_or_both_floating(update, operand) or operands[0].is_buffer:
        problem = check_element_type(update, operand)
    return problem or _verify_start_indices(operands[2:], operand)


def _fits_within(sizes: Sequence[int], operand: Shape) -> bool:
    if len(sizes) != operand.rank:
        return False
    return not any(size > bound >= 0 for size, bound in zip(sizes, operand.dimensions, strict=True))


def _verify_start_indices(indices: Sequence[Shape], operand: Shape) -> str | None:
    # One scalar a dimension; older modules have one vector.
    if len(indices) == 1 and indices[0].is_array and indices[0].dimensions == (operand.rank,):
        return None
    if len(indices) != operand.rank:
        return f"it has {len(indices)} start indices for an operand of rank {operand.rank}"
    if any(index.element_type != indices[0].element_type for index in indices):
        return "its start indices must have the same element type"
    for index in indices:
        if not index.is_scalar or not index.element_type.is_integral:
            return f"a start index must be an integral scalar, found {index}"
    return None


OPERATIONS: Final = (
    Operation(Opcode.SLICE, operands=exactly(1), attributes=(required(SLICE),), verify=_verify_slice),
    Operation(
        Opcode.DYNAMIC_SLICE,
        operands=at_least(1),
        attributes=(required(DYNAMIC_SLICE_SIZES),),
        check=_check_start_indices(1),
        verify=_verify_dynamic_slice,
    ),
    Operation(
        Opcode.DYNAMIC_UPDATE_SLICE,
        operands=at_least(2),
        check=_check_start_indices(2),
        verify=_verify_dynamic_update_slice,
        one_precision=True,
    ),
)
