"""Modules written down in other words: rewrites of an HloModuleProto that leave the program as it is.

Each is a function from a proto and a random generator to a new proto.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from xlashape.hlo import HloModule, ReplicaGroups
from xlashape.proto import xla

Rewrite = Callable[[xla.HloModuleProto, random.Random], xla.HloModuleProto]


def _copy(proto: xla.HloModuleProto) -> xla.HloModuleProto:
    copy = xla.HloModuleProto()
    copy.CopyFrom(proto)
    return copy


def renamed(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Other names of everything, parameters included."""
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
    """Other ids of computations and instructions."""
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
    """Computations and instructions in another order."""
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
    """Other metadata, and no stack frames."""
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
    """All replica groups as lists, the oldest form."""
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
    """Written as text and read back."""
    return HloModule.parse(HloModule.from_proto(proto).to_text(print_large_constants=True)).proto


def through_short_text(proto: xla.HloModuleProto, _rng: random.Random) -> xla.HloModuleProto:
    """Written as text without `%`, metadata and signatures, and read back."""
    text = HloModule.from_proto(proto).to_text("short_parsable", print_control_dependencies=True)
    return HloModule.parse(text).proto


def with_other_channels(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Other numbers of channels."""
    proto = _copy(proto)
    first = rng.randrange(100, 1000)
    new_of: dict[int, int] = {}
    for computation in proto.computations:
        for instruction in computation.instructions:
            if instruction.channel_id > 0:
                instruction.channel_id = new_of.setdefault(instruction.channel_id, first + 7 * len(new_of))
    return proto


def all_at_once(proto: xla.HloModuleProto, rng: random.Random) -> xla.HloModuleProto:
    """Every rewrite after the other."""
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
        all_at_once,
    )
}
