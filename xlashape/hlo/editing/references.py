"""What instructions refer to, and what of an instruction stays when it is rewritten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.editing.draft import dependencies, local
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["check_independent", "keep_unsaid", "pass_on_control_predecessors", "rename_in_assignment"]


def check_independent(
    computation: xla.HloComputationProto, instruction: xla.HloInstructionProto, ids: Sequence[int]
) -> None:
    """Raises InvalidArgumentError if one of the instructions of these ids needs the instruction, or is it."""
    if local(instruction) not in dependencies(computation, [number & LOCAL_ID for number in ids]):
        return
    by_id = {local(other): other for other in computation.instructions}
    for number in ids:
        if local(instruction) in dependencies(computation, [number & LOCAL_ID]):
            name = by_id[number & LOCAL_ID].name
            what = "is the instruction itself" if name == instruction.name else f"needs {instruction.name!r}"
            raise InvalidArgumentError(f"{name!r} {what}: it cannot be its operand", field="operands")


def keep_unsaid(old: xla.HloInstructionProto, new: xla.HloInstructionProto) -> None:
    """Gives a rewritten instruction what its text did not say."""
    if not new.metadata.ByteSize() and old.HasField("metadata"):
        new.metadata.CopyFrom(old.metadata)
    if not new.frontend_attributes.ByteSize() and old.HasField("frontend_attributes"):
        new.frontend_attributes.CopyFrom(old.frontend_attributes)
    if not new.HasField("sharding") and old.HasField("sharding"):
        before, after = Shape.from_proto(old.shape), Shape.from_proto(new.shape)
        if before.is_array and after.is_array and before.dimensions == after.dimensions:
            new.sharding.CopyFrom(old.sharding)
    present = {i & LOCAL_ID for i in new.control_predecessor_ids}
    new.control_predecessor_ids.extend([i for i in old.control_predecessor_ids if i & LOCAL_ID not in present])


def pass_on_control_predecessors(computation: xla.HloComputationProto, instruction: xla.HloInstructionProto) -> None:
    """Replaces an instruction by its control predecessors wherever it is a control predecessor."""
    inherited = list(instruction.control_predecessor_ids)
    for other in computation.instructions:
        kept = [i for i in other.control_predecessor_ids if i & LOCAL_ID != local(instruction)]
        if len(kept) != len(other.control_predecessor_ids):
            present = {i & LOCAL_ID for i in kept} | {local(other)}
            other.control_predecessor_ids[:] = [*kept, *(i for i in inherited if i & LOCAL_ID not in present)]


def rename_in_assignment(assignment: xla.BufferAssignmentProto, old: str, new: str) -> None:
    """Renames an instruction in a buffer assignment."""
    for location in _locations(assignment):
        if location.instruction_name == old:
            location.instruction_name = new
    for trace in assignment.heap_simulator_traces:
        for event in trace.events:
            if event.instruction_name == old:
                event.instruction_name = new


def _locations(assignment: xla.BufferAssignmentProto) -> Iterator[xla.LogicalBufferProto.Location]:
    for buffer in assignment.logical_buffers:
        yield buffer.defined_at
    for alias in assignment.buffer_aliases:
        yield alias.location
