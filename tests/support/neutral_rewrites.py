"""Rewrites of an HloModuleProto that do not change the program, such as other names, ids or an older form of a field. A
fingerprint or a diff must not notice them.

Each rewrite is a function from a proto and a random generator to a new proto.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from xlashape.hlo import HloModule, ReplicaGroups, convert
from xlashape.proto import xla

Rewrite = Callable[[xla.HloModuleProto, random.Random], xla.HloModuleProto]


def _copy(proto: xla.HloModuleProto) -> xla.HloModuleProto:
    copy = xla.HloModuleProto()
    copy.CopyFrom(proto)
    return copy


def renamed(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Gives everything another name, parameters included."""
    proto = _copy(proto)
    proto.name = f"module_{rng.randrange(1 << 30)}"
    for number, computation in enumerate(proto.computations):
        computation.name = f"c{rng.randrange(1 << 30)}.{number}"
        if computation.id == proto.entry_computation_id:
            proto.entry_computation_name = computation.name
        for index, instruction in enumerate(computation.instructions):
            instruction.name = f"v{rng.randrange(1 << 30)}.{number}.{index}"
        if computation.HasField("program_shape"):
            computation.program_shape.parameter_names[:] = [
                f"a{i}" for i in range(len(computation.program_shape.parameter_names))
            ]
    return proto


def renumbered(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Gives computations and instructions other ids."""
    proto = _copy(proto)
    computations = rng.sample(range(1, 10 * len(proto.computations) + 10), len(proto.computations))
    new_of = {c.id & 0xFFFFFFFF: new for c, new in zip(proto.computations, computations, strict=True)}
    sequences = {ident & 0xFFFFFFFF: list(s.instruction_ids) for ident, s in proto.schedule.sequences.items()}
    if sequences:
        proto.schedule.sequences.clear()
    for computation in proto.computations:
        local = computation.id & 0xFFFFFFFF
        numbers = rng.sample(range(1, 10 * len(computation.instructions) + 10), len(computation.instructions))
        ids = {
            i.id & 0xFFFFFFFF: (new_of[local] << 32) | n for i, n in zip(computation.instructions, numbers, strict=True)
        }
        computation.id = new_of[local]
        computation.root_id = ids[computation.root_id & 0xFFFFFFFF]
        for instruction in computation.instructions:
            instruction.id = ids[instruction.id & 0xFFFFFFFF]
            for field in (instruction.operand_ids, instruction.control_predecessor_ids):
                field[:] = [ids[i & 0xFFFFFFFF] for i in field]
            instruction.called_computation_ids[:] = [new_of[i & 0xFFFFFFFF] for i in instruction.called_computation_ids]
        if local in sequences:
            proto.schedule.sequences[computation.id].instruction_ids[:] = [
                ids[i & 0xFFFFFFFF] for i in sequences[local]
            ]
    proto.entry_computation_id = new_of[proto.entry_computation_id & 0xFFFFFFFF]
    return proto


def reordered(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Lists computations and instructions in another order."""
    proto = _copy(proto)
    computations = list(proto.computations)
    rng.shuffle(computations)
    for computation in computations:
        instructions = list(computation.instructions)
        rng.shuffle(instructions)
        copies = [xla.HloInstructionProto.FromString(i.SerializeToString()) for i in instructions]
        del computation.instructions[:]
        computation.instructions.extend(copies)
    copied = [xla.HloComputationProto.FromString(c.SerializeToString()) for c in computations]
    del proto.computations[:]
    proto.computations.extend(copied)
    return proto


def with_other_sources(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Replaces the metadata, and removes stack frames."""
    proto = _copy(proto)
    proto.ClearField("stack_frame_index")
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.metadata.Clear()
            instruction.metadata.op_name = f"jit(g)/moved_{rng.randrange(100)}"
            instruction.metadata.source_file = f"/opt/venv{rng.randrange(100)}/lib/train.py"
            instruction.metadata.source_line = rng.randrange(1, 1000)
    return proto


def with_listed_groups(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes all replica groups as lists, their oldest form."""
    proto = _copy(proto)
    for computation in proto.computations:
        for instruction in computation.instructions:
            groups = ReplicaGroups.from_instruction(instruction).groups
            if groups:
                instruction.ClearField("replica_group_list")
                instruction.ClearField("iota_collective_device_list")
                instruction.ClearField("mesh_axes_replica_group_list")
                instruction.ClearField("collective_device_list")
                del instruction.replica_groups[:]
                instruction.replica_groups.extend([xla.ReplicaGroup(replica_ids=group) for group in groups])
    return proto


def through_text(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes the module as text and reads it back."""
    return HloModule.parse(HloModule.from_proto(proto).to_text(print_large_constants=True)).proto


def through_short_text(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes the module as text without `%`, metadata and signatures, and reads it back."""
    text = HloModule.from_proto(proto).to_text("short_parsable", print_control_dependencies=True)
    return HloModule.parse(text).proto


def with_other_channels(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Gives channels other numbers."""
    proto = _copy(proto)
    first = rng.randrange(100, 1000)
    new_of: dict[int, int] = {}
    for computation in proto.computations:
        for instruction in computation.instructions:
            if instruction.channel_id > 0:
                instruction.channel_id = new_of.setdefault(instruction.channel_id, first + 7 * len(new_of))
    return proto


def through_json(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes the proto as JSON and reads it back."""
    return HloModule.of(convert.encode(HloModule(proto), "json", lossy=True)).proto


def through_protobuf_text(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes the proto as protobuf text and reads it back."""
    return HloModule.of(convert.encode(HloModule(proto), "pbtxt.gz", lossy=True)).proto


def as_dumped(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Puts the module into an HloProto, as XLA dumps it, and reads that."""
    return HloModule.of(xla.HloProto(hlo_module=proto).SerializeToString()).proto


def with_small_ids(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Gives instructions the small ids that jaxlib 0.4.35 needs."""
    return HloModule.from_proto(proto).to_proto(for_version="0.4.35")


def without_default_layouts(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Removes layouts that are the default ones."""
    proto = _copy(proto)

    def strip(shape: xla.ShapeProto) -> None:
        for part in shape.tuple_shapes:
            strip(part)
        if shape.HasField("layout"):
            rank = len(shape.dimensions)
            plain = xla.LayoutProto(minor_to_major=range(rank - 1, -1, -1))
            own = _bare(shape.layout)
            if rank and own == plain:
                shape.ClearField("layout")

    for computation in proto.computations:
        for instruction in computation.instructions:
            strip(instruction.shape)
    return proto


def _bare(layout: xla.LayoutProto) -> xla.LayoutProto:
    """The layout without a tail alignment of 1, which means no tail padding."""
    bare = xla.LayoutProto()
    bare.CopyFrom(layout)
    if bare.tail_padding_alignment_in_elements == 1:
        bare.ClearField("tail_padding_alignment_in_elements")
    return bare


def with_defaults_written(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes default values of precisions, counts of groups and threads explicitly."""
    proto = _copy(proto)
    for computation in proto.computations:
        computation.execution_thread = computation.execution_thread or "main"
        for instruction in computation.instructions:
            if instruction.opcode in ("dot", "convolution") and not instruction.precision_config.operand_precision:
                instruction.precision_config.operand_precision[:] = [0, 0]
            if instruction.opcode == "convolution":
                instruction.feature_group_count = instruction.feature_group_count or 1
                instruction.batch_group_count = instruction.batch_group_count or 1
    return proto


def with_iota_groups(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Writes replica groups that count up in the iota form of newer versions."""
    proto = _copy(proto)
    for computation in proto.computations:
        for instruction in computation.instructions:
            groups = ReplicaGroups.from_instruction(instruction).groups
            counted = [device for group in groups for device in group] if groups else []
            if groups and counted == list(range(len(counted))) and len({len(group) for group in groups}) == 1:
                for name in ("replica_groups", "iota_collective_device_list", "mesh_axes_replica_group_list"):
                    instruction.ClearField(name)
                instruction.ClearField("collective_device_list")
                iota = instruction.iota_collective_device_list
                iota.num_replica_groups, iota.num_devices_per_group = len(groups), len(groups[0])
                iota.iota_reshape_dims.append(len(counted))
                iota.iota_transpose_perm.append(0)
    return proto


def with_other_configs(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Writes backend configurations with spaces and with their keys in another order."""
    proto = _copy(proto)

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in rng.sample(sorted(value), len(value))}
        return [shuffled(each) for each in value] if isinstance(value, list) else value

    for computation in proto.computations:
        for instruction in computation.instructions:
            try:
                config = json.loads(instruction.backend_config)
            except ValueError:
                continue
            if isinstance(config, dict):
                instruction.backend_config = json.dumps(shuffled(config), indent=1).encode()
    return proto


def of_another_run(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Changes what differs between runs of a compiler: the module id, the profile, the compiler's notes."""
    proto = _copy(proto)
    proto.id = rng.randrange(1 << 30)
    proto.profile_info.add(fingerprint="other", profile_generation_strategy=0)
    proto.frontend_attributes.map["fingerprint_before_lhs"] = str(rng.random())
    return proto


def unscheduled(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Removes the schedule."""
    proto = _copy(proto)
    proto.ClearField("schedule")
    return proto


def with_stack_frames(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Writes source lines as stack frames, as newer versions of JAX do."""
    proto = _copy(proto)
    proto.ClearField("stack_frame_index")
    index = proto.stack_frame_index
    index.file_names.append(f"/home/{rng.randrange(99)}/model.py")
    index.function_names.append("loss")
    for line in range(1, 4):
        index.file_locations.add(file_name_id=1, function_name_id=1, line=line)
        index.stack_frames.add(file_location_id=line)
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.metadata.ClearField("source_file")
            instruction.metadata.ClearField("source_line")
            instruction.metadata.stack_frame_id = rng.randrange(1, 4)
    return proto


def all_at_once(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Applies all rewrites, one after the other."""
    for rewrite in (
        renamed,
        renumbered,
        reordered,
        with_other_sources,
        with_listed_groups,
        with_other_channels,
        through_text,
    ):
        proto = rewrite(proto, rng)
    return proto


REWRITES: dict[str, Rewrite] = {
    rewrite.__name__: rewrite
    for rewrite in (
        renamed,
        renumbered,
        reordered,
        with_other_sources,
        with_listed_groups,
        through_text,
        through_short_text,
        with_other_channels,
        through_json,
        through_protobuf_text,
        as_dumped,
        with_small_ids,
        without_default_layouts,
        with_defaults_written,
        with_iota_groups,
        with_other_configs,
        of_another_run,
        unscheduled,
        with_stack_frames,
        all_at_once,
    )
}
