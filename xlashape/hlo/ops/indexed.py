"""Operations that read or write slices at indices that an operand holds: gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written, optional, required
from xlashape.hlo.ops.calls import TO_APPLY
from xlashape.hlo.ops.inference import array
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, CannotInfer, Operation, at_least, exactly
from xlashape.hlo.values.gather_numbers import (
    COLLAPSED_SLICE_DIMS,
    GATHER_INDEX_VECTOR_DIM,
    OFFSET_DIMS,
    OPERAND_BATCHING_DIMS,
    START_INDEX_MAP,
    START_INDICES_BATCHING_DIMS,
)
from xlashape.hlo.values.plain import INDICES_ARE_SORTED, UNIQUE_INDICES
from xlashape.hlo.values.scatter_numbers import (
    INPUT_BATCHING_DIMS,
    INSERTED_WINDOW_DIMS,
    SCATTER_DIMS_TO_OPERAND_DIMS,
    SCATTER_INDEX_VECTOR_DIM,
    SCATTER_INDICES_BATCHING_DIMS,
    UPDATE_WINDOW_DIMS,
)
from xlashape.hlo.values.slices import SLICE_SIZES
from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["OPERATIONS"]


def _infer_gather(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """The dimensions of the indices without the index vector's, with those of the slices at `offset_dims`."""
    shape, indices = array(operands[0]), array(operands[1])
    numbers, slices = message.gather_dimension_numbers, list(message.gather_slice_sizes)
    if len(slices) != shape.rank or not 0 <= numbers.index_vector_dim <= indices.rank:
        raise CannotInfer(f"slice sizes and index vectors do not fit {shape} and {indices}")
    vector = indices.dimensions[numbers.index_vector_dim] if numbers.index_vector_dim < indices.rank else 1
    if len(numbers.start_index_map) != vector:
        raise CannotInfer(
            f"start_index_map has {len(numbers.start_index_map)} dimensions for index vectors of {vector}"
        )
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
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


def _infer_scatter(_: xla.HloInstructionProto, operands: Sequence[Shape], _results: Sequence[Shape]) -> Shape:
    """The operand's shape; of several operands a tuple of theirs. The indices and as many updates follow the operands."""
    count = len(operands) // 2
    return operands[0] if count <= 1 else Shape.tuple(operands[:count])


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
    ),
)
