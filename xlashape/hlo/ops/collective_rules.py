"""The verifier's rules for collectives: their replica groups, source-target pairs and shapes. Each rule is a function
that returns a message about the first problem, or None. `check_devices` has the rules that need the numbers of replicas
and partitions. The table rows (`Operation`) of collectives are in `collective`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Result
from xlashape.hlo.ops.verification import check_array, check_shape
from xlashape.hlo.values.replica_groups import SOURCE_TARGET_PAIRS, ReplicaGroups, SourceTarget
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.shape import compatible_shapes, equal_layouts

# -- groups ---------------------------------------------------------------------------------


class _Groups(NamedTuple):
    """The number of an instruction's replica groups, and their size."""

    number: int
    size: int
    """The number of devices in the first group."""

    @property
    def devices(self) -> int:
        return self.number * self.size


def _groups_of(message: xla.HloInstructionProto) -> _Groups:
    """The groups, whichever form they have. If there are no groups, all devices form one. Raises InvalidModuleError for
    inconsistent groups.
    """
    if message.HasField("iota_collective_device_list"):
        iota = message.iota_collective_device_list
        return _Groups(iota.num_replica_groups, iota.num_devices_per_group)
    groups = ReplicaGroups.of_proto(message).groups
    return _Groups(len(groups), len(groups[0]) if groups else 0)


def _listed_groups(message: xla.HloInstructionProto) -> list[list[int]]:
    """The replica groups if they are lists of devices, else an empty list: compact forms cannot be invalid."""
    form = message.WhichOneof("replica_group_list")
    if form == "mesh_axes_replica_group_list" and not message.mesh_axes_replica_group_list.mesh.axes:
        devices = list(message.mesh_axes_replica_group_list.mesh.device_ids)
        return [devices] if devices else []
    if form not in (None, "collective_device_list"):
        return []
    return [list(group) for group in ReplicaGroups.of_proto(message).groups]


def _check_groups(message: xla.HloInstructionProto, *, uniform: bool) -> str | None:
    """Checks the replica groups. With `uniform`, they must have equal sizes."""
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
    if message.use_global_device_ids:
        if not message.channel_id:
            return "use_global_device_ids=true needs a channel_id"
        if not _groups_of(message).number:
            return "use_global_device_ids=true needs replica groups"
    return None


# -- rules that hold for any number of devices ----------------------------------------------


def _together(shapes: Sequence[Shape]) -> Shape:
    """The shape of a result with several parts: a tuple, or the part itself if there is only one."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


def _check_data(operands: Sequence[Shape]) -> str | None:
    """Checks that the operands, which are sent, are arrays or buffers."""
    wrong = [operand for operand in operands if not operand.is_array and not operand.is_buffer]
    return f"its operands must be arrays, found {wrong[0]}" if wrong else None


def check_all_reduce(result: Result) -> str | None:
    """The rule of all-reduce and all-reduce-start: the result has the shapes of the operands."""
    message = result.message
    if message.channel_id < 0 and message.opcode == Opcode.ALL_REDUCE:
        return f"channel_id must be above 0, found {message.channel_id}"
    return (
        _check_groups(message, uniform=False)
        or _check_data(result.operands)
        or check_shape(result.shape, _together(result.operands))
    )


def check_collective_reduce(result: Result) -> str | None:
    """The rule of collective-reduce. With a dynamic root, the last operand holds, for each other operand, the number of
    the device that receives its result.
    """
    operands = result.operands
    problem = _check_groups(result.message, uniform=False)
    if not problem and result.message.has_dynamic_root:
        if len(operands) < 2:
            return f"with has_dynamic_root=true it takes data and their roots, found {len(operands)} operands"
        *operands, roots = operands
        if not compatible_shapes(roots, Shape.array(PrimitiveType.S32, (len(operands),))):
            return f"its last operand must be s32[{len(operands)}], the roots, found {roots}"
    return problem or _check_data(operands) or check_shape(result.shape, _together(operands))


def check_ragged(result: Result) -> str | None:
    """The rule of ragged-all-to-all. The result has the shape of operand 1, the output buffer. The offsets and sizes,
    operands 2 to 5, have the same shape, of one or two dimensions.
    """
    message, operands = result.message, result.operands
    if len(operands) != 6:
        return f"{message.opcode} takes 6 operands, found {len(operands)}"
    problem = (
        _check_groups(message, uniform=True) or _check_data(operands[1:2]) or check_shape(result.shape, operands[1])
    )
    offsets = operands[2:]
    if problem or not offsets[0].is_array:
        return problem
    if offsets[0].rank not in (1, 2):
        return f"its offsets and sizes must have one or two dimensions, found {offsets[0]}"
    if any(not _same_but_memory(each, offsets[0]) for each in offsets):
        return f"its offsets and sizes must have the same shape and layout, found {_listed(offsets)}"
    return None


def _check_shards(message: xla.HloInstructionProto, wholes: Sequence[Shape], parts: Sequence[Shape]) -> str | None:
    """The rule of all-gather and reduce-scatter: along one dimension, the size of each of `wholes` is a multiple of the
    size of its part in `parts`. Otherwise the two have the same shape.
    """
    if not parts:
        return "it needs an operand, found none"
    if len(wholes) != len(parts):
        return f"it needs a result for each of its operands, found {len(wholes)} and {len(parts)}"
    dim = message.dimensions[0] if message.dimensions else 0
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
        if size > 0 and sizes >= 0 and (sizes % size or not sizes):
            return f"dimension {dim} of {whole} must be a multiple of that of {part}"
    return None


def _results(shape: Shape, operands: Sequence[Shape]) -> Sequence[Shape]:
    """The part of a result for each operand."""
    return shape.tuple_shapes if shape.is_tuple and len(operands) != 1 else (shape,)


def check_all_gather(result: Result) -> str | None:
    """The rule of all-gather."""
    return _check_groups(result.message, uniform=True) or _check_shards(
        result.message, _results(result.shape, result.operands), result.operands
    )


def check_all_gather_start(result: Result) -> str | None:
    """The rule of all-gather-start, whose result is a tuple of the operands and the gathered arrays."""
    shape, operands = result.shape, result.operands
    problem = _check_groups(result.message, uniform=True)
    if problem:
        return problem
    if not shape.is_tuple or len(shape.tuple_shapes) != 2:
        return f"its shape must be a tuple of its operands and its results, found {shape}"
    given, gathered = shape.tuple_shapes
    return check_shape(given, _together(operands)) or _check_shards(
        result.message, _results(gathered, operands), operands
    )


def check_reduce_scatter(result: Result) -> str | None:
    """The rule of reduce-scatter."""
    return _check_groups(result.message, uniform=True) or _check_shards(
        result.message, result.operands, _results(result.shape, result.operands)
    )


_MEMORY: Final = frozenset(("memory_space",))


def _same_but_memory(lhs: Shape, rhs: Shape) -> bool:
    """Whether two shapes and their layouts are equal apart from the memory space."""
    if not (lhs.is_array and rhs.is_array):
        return compatible_shapes(lhs, rhs)
    is_same = lhs.dynamic_dimensions == rhs.dynamic_dimensions and compatible_shapes(lhs, rhs)
    return is_same and equal_layouts(lhs.layout, rhs.layout, _MEMORY)


def check_all_to_all(result: Result) -> str | None:
    """The rule of all-to-all. It exchanges several operands, or the parts of one operand along a dimension."""
    message, operands = result.message, result.operands
    problem = _check_groups(message, uniform=True)
    if problem:
        return problem
    if not message.dimensions:
        if any(not _same_but_memory(operand, operands[0]) for operand in operands):
            return f"its operands must have the same shape and layout, found {_listed(operands)}"
        return check_shape(result.shape, Shape.tuple(operands))
    dim = message.dimensions[0]
    if len(operands) != 1 or not operands[0].is_array or not 0 <= dim < operands[0].rank:
        return f"dimensions={{{dim}}} must be a dimension of its only operand"
    if any(
        size >= 0 and dynamic
        for size, dynamic in zip(operands[0].dimensions, operands[0].dynamic_dimensions, strict=True)
    ):
        return f"its operand must not have bounded dynamic dimensions, found {operands[0]}"
    return check_shape(result.shape, operands[0])


def _check_pairs(result: Result) -> str | None:
    """Checks the source-target pairs of a collective-permute."""
    pairs: tuple[SourceTarget, ...] = SOURCE_TARGET_PAIRS.of(result.message)
    most = _most_pairs(result)
    for what, ids in (("source", [pair.source for pair in pairs]), ("target", [pair.target for pair in pairs])):
        if any(device < 0 for device in ids):
            return f"a {what} must not be negative, found {ids}"
        if any(count > most for count in Counter(ids).values()):
            return f"source_target_pairs must have each {what} at most {most} times, found {ids}"
    return None


# A collective-permute that writes slices in place has four operands: input, output, offsets in the input, offsets in
# the output.
_IN_PLACE_OPERANDS: Final = 4


def _is_in_place(result: Result) -> bool:
    """Whether a collective-permute writes slices into an output that is an operand."""
    return bool(result.message.dynamic_slice_sizes) and len(result.operands) == _IN_PLACE_OPERANDS


def _check_offsets(operands: Sequence[Shape]) -> str | None:
    """Checks the operands of a permute in place. Input and output must be arrays, or tuples with the same number of
    arrays. Each array has an offset, or a tuple of offsets.
    """
    data, offsets = operands[:2], operands[2:]
    if all(each.is_tuple for each in data):
        counts = [len(each.tuple_shapes) for each in operands]
        if len(set(counts)) > 1 or not all(each.is_tuple for each in offsets):
            return f"its input, output and their offsets must have as many elements, found {_listed(operands)}"
        pairs = [
            pair for each in range(2) for pair in zip(data[each].tuple_shapes, offsets[each].tuple_shapes, strict=True)
        ]
    elif any(each.is_tuple for each in data):
        return f"its input and output must both be arrays or both be tuples, found {_listed(data)}"
    else:
        pairs = [*zip(data, offsets, strict=True)]
    problems = (_offset_problem(array, offset) for array, offset in pairs)
    return next((problem for problem in problems if problem), None)


def _offsets(offset: Shape) -> tuple[Shape, ...]:
    """The offsets of an array: a tuple of tuples holds several, a tuple of indices is one."""
    return offset.tuple_shapes if all(part.is_tuple for part in offset.tuple_shapes) else (offset,)


def _offset_problem(array: Shape, offset: Shape) -> str | None:
    """Checks that each offset has an index for each dimension of its array."""
    if not offset.is_tuple:
        return f"an offset must be a tuple of indices, found {offset}"
    for each in _offsets(offset):
        is_mixed = each is offset and any(part.is_tuple for part in each.tuple_shapes)
        if is_mixed or len(each.tuple_shapes) != array.rank:
            return f"an offset must be a tuple of {array.rank} indices, as {array} has dimensions, found {each}"
    return None


def _most_pairs(result: Result) -> int:
    """How often a device may be a source or a target: once, or for a permute in place once for each input offset."""
    if not _is_in_place(result):
        return 1
    data, offset = result.operands[0], result.operands[2]
    if data.is_tuple and offset.tuple_shapes:
        offset = offset.tuple_shapes[0]
    return len(_offsets(offset))


def _listed(shapes: Sequence[Shape]) -> str:
    return ", ".join(map(str, shapes))


def check_permute(result: Result) -> str | None:
    """The rule of collective-permute."""
    operands = result.operands
    problem = _check_pairs(result)
    if problem:
        return problem
    if _is_in_place(result):
        return _check_offsets(operands) or check_shape(result.shape, operands[1])
    return _check_data(operands) or check_shape(result.shape, _together(operands))


def check_permute_start(result: Result) -> str | None:
    """The rule of collective-permute-start, whose result is a tuple of the operands, the results and, in older modules,
    two counters."""
    shape, operands = result.shape, result.operands
    in_place = _is_in_place(result)
    problem = _check_pairs(result) or (_check_offsets(operands) if in_place else None)
    if not problem and len(operands) == 1:
        problem = _check_data(operands)
    if problem:
        return problem
    data = operands[:2] if in_place else [_together(operands)] * 2
    counters = shape.tuple_shapes[2:] if shape.is_tuple else ()
    return check_shape(shape, Shape.tuple([*data, *counters]))


def check_second_element(result: Result) -> str | None:
    """The rule of all-gather-done and collective-permute-done: the result is the second element of the start's tuple of
    operands and results.
    """
    parts = result.operands[0].tuple_shapes
    if len(parts) < 2:
        return f"its operand must be a tuple of operands and results, found {result.operands[0]}"
    return check_shape(result.shape, parts[1])


def check_first_operand(result: Result) -> str | None:
    """The rule of all-reduce-done: the result has the shape of the start, which holds its results alone."""
    return check_shape(result.shape, result.operands[0])


def check_broadcast(result: Result) -> str | None:
    """The rule of collective-broadcast. Further operands say which device sends."""
    data = result.operands[:1]
    return (_check_data(data) or check_shape(result.shape, data[0])) if data else None


# -- rules that need the numbers of devices -------------------------------------------------


class Devices(NamedTuple):
    """The numbers of replicas and partitions that a module is compiled for."""

    replica_count: int
    num_partitions: int


_BY_REPLICA_OR_PARTITION: Final = frozenset(
    (Opcode.ALL_TO_ALL, Opcode.RAGGED_ALL_TO_ALL, Opcode.COLLECTIVE_PERMUTE, Opcode.COLLECTIVE_PERMUTE_START)
)
"""Opcodes whose operations exchange data between partitions if they have a channel. With a channel, the other
operations with groups exchange data between all partitions of the replicas in a group.
"""
_WITH_GROUPS: Final = frozenset(
    (
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.REDUCE_SCATTER,
        Opcode.COLLECTIVE_REDUCE,
        Opcode.ALL_TO_ALL,
        Opcode.RAGGED_ALL_TO_ALL,
    )
)


def check_devices(
    message: xla.HloInstructionProto, shape: Shape, operands: Sequence[Shape], devices: Devices | None
) -> str | None:
    """The problem of a collective in a module for these numbers of devices; None if there is none. `devices` is None if
    the numbers are not known.

    As in XLA, the rules for a number do not apply if it is 1: a module that is not yet compiled for a number of
    replicas or partitions has 1 there.
    """
    opcode = message.opcode
    if message.source_target_pairs and opcode in _BY_REPLICA_OR_PARTITION:
        return _check_pair_devices(message, devices)
    if opcode not in _WITH_GROUPS:
        return None
    groups = _groups_of(message)
    if devices is not None and groups.number:
        what, known = _numbered(message, devices)
        if known not in (1, _device_count(message, groups)):
            return f"its replica groups must hold {known} {what}, found {_device_count(message, groups)}"
    together = _exchanging(message, groups, devices)
    if together is None:
        return None
    if opcode == Opcode.ALL_TO_ALL:
        return _check_split(message, operands, together)
    if opcode in (Opcode.ALL_GATHER, Opcode.ALL_GATHER_START):
        result = shape if opcode == Opcode.ALL_GATHER else shape.tuple_shapes[1]
        return _check_shard_sizes(message, _results(result, operands), operands, together)
    if opcode == Opcode.REDUCE_SCATTER:
        return _check_shard_sizes(message, operands, _results(shape, operands), together)
    return None


def _device_count(message: xla.HloInstructionProto, groups: _Groups) -> int:
    """The number of devices in all groups, which may differ in size."""
    listed = _listed_groups(message)
    return sum(map(len, listed)) if listed else groups.devices


def _numbered(message: xla.HloInstructionProto, devices: Devices) -> tuple[str, int]:
    """What the numbers in the groups stand for (devices, partitions or replicas), and how many of these there are."""
    if message.use_global_device_ids:
        return "devices", devices.replica_count * devices.num_partitions
    if message.channel_id and message.opcode in _BY_REPLICA_OR_PARTITION:
        return "partitions", devices.num_partitions
    return "replicas", devices.replica_count


def _exchanging(message: xla.HloInstructionProto, groups: _Groups, devices: Devices | None) -> int | None:
    """How many devices exchange data with each other; None if that depends on numbers that are not known."""
    by_partitions = bool(message.channel_id) and not message.use_global_device_ids
    with_partitions = by_partitions and message.opcode not in _BY_REPLICA_OR_PARTITION
    if devices is None:
        return groups.size if groups.number and not with_partitions else None
    size = groups.size if groups.number else _numbered(message, devices)[1]
    return size * devices.num_partitions if with_partitions else size


def _check_pair_devices(message: xla.HloInstructionProto, devices: Devices | None) -> str | None:
    if devices is None:
        return None
    what, known = _numbered(message, devices)
    for pair in message.source_target_pairs:
        if known != 1 and max(pair.source, pair.target) >= known:
            return f"source_target_pairs must name the {known} {what} from 0 on, found {pair.source} and {pair.target}"
    return None


def _check_split(message: xla.HloInstructionProto, operands: Sequence[Shape], devices: int) -> str | None:
    """Checks that an all-to-all has a part for each of the devices of a group."""
    if not message.dimensions:
        if devices != len(operands):
            return f"it needs an operand for each of the {devices} devices of a group, found {len(operands)}"
        return None
    dim = message.dimensions[0]
    size = operands[0].dimensions[dim]
    if size > 0 and devices > 0 and size % devices:
        return f"dimension {dim} of {operands[0]} must be a multiple of the {devices} devices of a group"
    return None


def _check_shard_sizes(
    message: xla.HloInstructionProto, wholes: Sequence[Shape], parts: Sequence[Shape], devices: int
) -> str | None:
    """The rule of all-gather and reduce-scatter for groups of so many devices."""
    dim = message.dimensions[0] if message.dimensions else 0
    for whole, part in zip(wholes, parts, strict=True):
        size, sizes = part.dimensions[dim], whole.dimensions[dim]
        if size > 0 and devices != 1 and size * devices != sizes:
            return f"dimension {dim} of {whole} must be that of {part} times the {devices} devices of a group"
    return None
