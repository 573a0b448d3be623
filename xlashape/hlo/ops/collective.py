"""Collectives: operations whose replicas or partitions exchange data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Use, Written, optional, required, written_only
from xlashape.hlo.ops.calls import TO_APPLY, TO_APPLY_OR_CALLS
from xlashape.hlo.ops.completion import exactly_one_dimension
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import FIELDS, Operation, Verify, at_least, exactly, rows
from xlashape.hlo.ops.verification import check_array, check_shape
from xlashape.hlo.values.enums import MODE
from xlashape.hlo.values.plain import (
    CHANNEL_ID,
    CONSTRAIN_LAYOUT,
    DIMENSIONS,
    DIMENSIONS_IF_ANY,
    DIMENSIONS_READ_ONLY,
    HAS_DYNAMIC_ROOT,
    USE_GLOBAL_DEVICE_IDS,
)
from xlashape.hlo.values.replica_groups import REPLICA_GROUPS
from xlashape.hlo.values.slices import PERMUTE_SLICE_SIZES
from xlashape.hlo.values.source_target_pairs import SOURCE_TARGET_PAIRS
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["OPERATIONS"]


def _check_reduction(written: Written) -> None:
    if written.value("use_global_device_ids") and not written.has("channel_id"):
        raise CannotComplete("use_global_device_ids=true needs a channel_id")


def _check_permute(written: Written) -> None:
    count = len(written.operands)
    if written.has("slice_sizes") and count != 4:
        raise CannotComplete(f"with slice_sizes it needs 4 operands, found {count}")


def _dropped_dimension(written: Written, value: bytes | None) -> bytes:
    # XLA reads it and keeps nothing of it.
    exactly_one_dimension(written, value)
    return b""


# -- verification ---------------------------------------------------------------------------


def _listed_groups(message: xla.HloInstructionProto) -> list[list[int]]:
    """The replica groups that are listed one by one. Compact forms are valid by the way they are written."""
    form = message.WhichOneof("replica_group_list")
    if form not in (None, "collective_device_list"):
        return []
    listed = message.collective_device_list.replica_groups if form else message.replica_groups
    return [list(group.replica_ids) for group in listed]


def _check_groups(message: xla.HloInstructionProto, *, uniform: bool) -> str | None:
    groups = _listed_groups(message)
    if any(not group for group in groups):
        return "a replica group must not be empty"
    ids = [device for group in groups for device in group]
    if len(set(ids)) != len(ids):
        return f"its replica groups must not repeat a replica, found {groups}"
    if any(not 0 <= device < len(ids) for device in ids):
        return f"its replica groups must hold the replicas from 0 to {len(ids) - 1}, found {groups}"
    if uniform and len({len(group) for group in groups}) > 1:
        return f"its replica groups must have equal sizes, found {groups}"
    return None


def _group_size(message: xla.HloInstructionProto) -> int | None:
    """How many devices exchange data; None where the module does not say."""
    if message.channel_id > 0 and not message.use_global_device_ids:
        return None  # every partition of the replicas in a group takes part
    if message.WhichOneof("replica_group_list") == "iota_collective_device_list":
        return message.iota_collective_device_list.num_devices_per_group or None
    groups = _listed_groups(message)
    return len(groups[0]) if groups else None


def _together(shapes: Sequence[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


def _verify_all_reduce(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    return _check_groups(message, uniform=False) or check_shape(shape, _together(operands))


def _verify_start(message: xla.HloInstructionProto, _shape: Shape, _operands: Sequence[Shape]) -> str | None:
    return _check_groups(message, uniform=False)


def _verify_shards(message: xla.HloInstructionProto, wholes: Sequence[Shape], parts: Sequence[Shape]) -> str | None:
    """The rule of all-gather and reduce-scatter: each of `wholes` has as many of `parts` along a dimension as a group has devices."""
    if len(wholes) != len(parts):
        return f"it needs a result for each of its operands, found {len(wholes)} and {len(parts)}"
    dim, devices = message.dimensions[0] if message.dimensions else 0, _group_size(message)
    for whole, part in zip(wholes, parts, strict=True):
        problem = check_array(whole, "result and operand") or check_array(part, "result and operand")
        if problem:
            return problem
        if part.rank != whole.rank or not 0 <= dim < part.rank:
            return f"{whole} and {part} must have the same rank and a dimension {dim}"
        sides = [[size for each, size in enumerate(shape.dimensions) if each != dim] for shape in (whole, part)]
        if sides[0] != sides[1] or whole.element_type != part.element_type:
            return f"{whole} and {part} must differ along dimension {dim} alone"
        size, sizes = part.dimensions[dim], whole.dimensions[dim]
        if size > 0 and devices not in (None, 1) and size * devices != sizes:
            return f"dimension {dim} of {whole} must be that of {part} times the {devices} devices of a group"
    return None


def _results(shape: Shape, operands: Sequence[Shape]) -> Sequence[Shape]:
    return shape.tuple_shapes if shape.is_tuple and len(operands) != 1 else (shape,)


def _verify_all_gather(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    return _check_groups(message, uniform=True) or _verify_shards(message, _results(shape, operands), operands)


def _verify_reduce_scatter(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    return _check_groups(message, uniform=True) or _verify_shards(message, operands, _results(shape, operands))


def _verify_all_to_all(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    problem, devices = _check_groups(message, uniform=True), _group_size(message)
    if problem:
        return problem
    if not message.dimensions:
        if any(not compatible_shapes(operand, operands[0]) for operand in operands):
            return f"its operands must have the same shape, found {', '.join(map(str, operands))}"
        if devices is not None and devices != len(operands):
            return f"it needs an operand for each of the {devices} devices of a group, found {len(operands)}"
        return check_shape(shape, Shape.tuple(operands))
    dim = message.dimensions[0]
    if len(operands) != 1 or not operands[0].is_array or not 0 <= dim < operands[0].rank:
        return f"dimensions={{{dim}}} must be a dimension of its only operand"
    size = operands[0].dimensions[dim]
    if devices is not None and size > 0 and size % devices:
        return f"dimension {dim} of {operands[0]} must be a multiple of the {devices} devices of a group"
    return check_shape(shape, operands[0])


def _check_pairs(message: xla.HloInstructionProto) -> str | None:
    for what, ids in (
        ("source", [pair.source for pair in message.source_target_pairs]),
        ("target", [pair.target for pair in message.source_target_pairs]),
    ):
        if any(device < 0 for device in ids):
            return f"a {what} must not be negative, found {ids}"
        if len(set(ids)) != len(ids):
            return f"source_target_pairs must not repeat a {what}, found {ids}"
    return None


# The form that writes slices in place takes an input, an output and the positions in both.
_IN_PLACE_OPERANDS = 4


def _verify_permute(message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    problem = _check_pairs(message)
    if problem or not operands or len(operands) == _IN_PLACE_OPERANDS:
        return problem
    return check_shape(shape, _together(operands))


def _verify_permute_start(message: xla.HloInstructionProto, _shape: Shape, _operands: Sequence[Shape]) -> str | None:
    return _check_pairs(message)


def _verify_broadcast(_: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape]) -> str | None:
    # With a dynamic root, further operands say which device sends.
    return check_shape(shape, operands[0]) if len(operands) == 1 else None


# -- rows -----------------------------------------------------------------------------------

_ANY_COUNT = at_least(0)
_GROUPS = (
    optional(CHANNEL_ID),
    optional(REPLICA_GROUPS, default=FIELDS.message("collective_device_list", b"")),
)
_GROUPS_AND_LAYOUT = (*_GROUPS, optional(CONSTRAIN_LAYOUT))
_ALL_GATHER = (
    *_GROUPS_AND_LAYOUT,
    required(DIMENSIONS, exactly_one_dimension),
    optional(USE_GLOBAL_DEVICE_IDS),
)
_ALL_REDUCE = (*_GROUPS_AND_LAYOUT, optional(USE_GLOBAL_DEVICE_IDS), optional(MODE))
_PERMUTE = (optional(CHANNEL_ID), required(SOURCE_TARGET_PAIRS), optional(PERMUTE_SLICE_SIZES))


def _all_gather(opcode: Opcode, verify: Verify) -> Operation:
    return Operation(opcode, operands=_ANY_COUNT, attributes=_ALL_GATHER, verify=verify, exchanges_with_replicas=True)


def _all_reduce(opcode: Opcode, verify: Verify) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        attributes=_ALL_REDUCE,
        calls=TO_APPLY,
        check=_check_reduction,
        verify=verify,
        exchanges_with_replicas=True,
    )


def _collective_permute(opcode: Opcode, verify: Verify) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        attributes=_PERMUTE,
        check=_check_permute,
        verify=verify,
        exchanges_with_replicas=True,
        text_depends_on_operands=True,  # a list of slice sizes has the rank of what is sent
    )


def _groups_only(opcode: Opcode, *further: Use, arity: int | None = None, verify: Verify | None = None) -> Operation:
    return Operation(
        opcode,
        operands=_ANY_COUNT,
        arity=arity,
        attributes=(*_GROUPS, written_only(CONSTRAIN_LAYOUT), *further),
        verify=verify,
        exchanges_with_replicas=True,
    )


OPERATIONS: Final = (
    _all_gather(Opcode.ALL_GATHER, _verify_all_gather),
    _all_gather(Opcode.ALL_GATHER_START, _verify_start),
    _all_reduce(Opcode.ALL_REDUCE, _verify_all_reduce),
    _all_reduce(Opcode.ALL_REDUCE_START, _verify_start),
    Operation(
        Opcode.REDUCE_SCATTER,
        operands=_ANY_COUNT,
        attributes=(
            *_GROUPS_AND_LAYOUT,
            optional(USE_GLOBAL_DEVICE_IDS),
            optional(MODE),
            required(DIMENSIONS, exactly_one_dimension),
        ),
        calls=TO_APPLY_OR_CALLS,
        check=_check_reduction,
        verify=_verify_reduce_scatter,
        exchanges_with_replicas=True,
    ),
    Operation(
        Opcode.ALL_TO_ALL,
        operands=_ANY_COUNT,
        attributes=(*_GROUPS_AND_LAYOUT, optional(DIMENSIONS_IF_ANY, exactly_one_dimension)),
        verify=_verify_all_to_all,
        exchanges_with_replicas=True,
    ),
    _groups_only(Opcode.RAGGED_ALL_TO_ALL, optional(DIMENSIONS_READ_ONLY, _dropped_dimension), arity=6),
    _groups_only(Opcode.COLLECTIVE_BROADCAST, optional(HAS_DYNAMIC_ROOT), verify=_verify_broadcast),
    Operation(
        Opcode.COLLECTIVE_REDUCE,
        operands=_ANY_COUNT,
        attributes=(*_GROUPS_AND_LAYOUT, optional(USE_GLOBAL_DEVICE_IDS), optional(HAS_DYNAMIC_ROOT)),
        calls=TO_APPLY,
        exchanges_with_replicas=True,
    ),
    _collective_permute(Opcode.COLLECTIVE_PERMUTE, _verify_permute),
    _collective_permute(Opcode.COLLECTIVE_PERMUTE_START, _verify_permute_start),
    *rows((Opcode.ALL_GATHER_DONE, Opcode.ALL_REDUCE_DONE, Opcode.COLLECTIVE_PERMUTE_DONE), operands=exactly(1)),
)
