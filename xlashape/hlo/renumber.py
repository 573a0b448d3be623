"""Ids for an older XLA: small ones, which every version loads.

XLA numbers the instructions of each computation from 0 and puts the computation's id into the upper 32 bits, and so does the reader of HLO
text. jaxlib 0.4.30 and 0.4.35 refuse a module with such ids in more than one computation; jaxlib 0.10.2 and 0.12 load both kinds.
"""

from __future__ import annotations

import re
from typing import Final

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.structure import LOCAL_ID, check_module
from xlashape.proto import xla

__all__ = ["needs_small_ids", "with_small_ids"]

_LARGE_IDS_SINCE: Final = (0, 10)  # of jaxlib; the versions between 0.4.35 and this one are not known to load large ids
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def needs_small_ids(version: str) -> bool:
    """Whether a version of jaxlib, "0.4.35", may refuse ids beyond 32 bits. InvalidArgumentError for text that is not a version.

    >>> needs_small_ids("0.4.35"), needs_small_ids("0.12")
    (True, False)
    """
    if _VERSION.fullmatch(version) is None:
        raise InvalidArgumentError(f"{version!r} is not a version of jaxlib, such as 0.4.35", field="for_version")
    return tuple(map(int, version.split("."))) < _LARGE_IDS_SINCE


def with_small_ids(message: xla.HloModuleProto | xla.HloProto) -> xla.HloModuleProto | xla.HloProto:
    """A copy whose instructions are numbered from 1 through all computations; the computations' ids follow.

    InvalidModuleError if an id names nothing. The order of the ids within a computation, which decides the order in which XLA prints, stays.
    """
    copy = type(message).FromString(message.SerializeToString())
    module = copy.hlo_module if isinstance(copy, xla.HloProto) else copy
    check_module(module)
    by_computation: list[dict[int, int]] = []
    next_id = 1
    for computation in module.computations:
        local = sorted(instruction.id & LOCAL_ID for instruction in computation.instructions)
        by_computation.append({ident: next_id + number for number, ident in enumerate(local)})
        next_id += len(local)
    # In the order of the ids: it decides the order of the computations.
    old_ids = sorted(computation.id & LOCAL_ID for computation in module.computations)
    computation_ids = {ident: next_id + number for number, ident in enumerate(old_ids)}
    whole_ids: dict[int, int] = {}
    sequences = {ident & LOCAL_ID: sequence for ident, sequence in module.schedule.sequences.items()}
    schedule = xla.HloScheduleProto()
    for computation, ids in zip(module.computations, by_computation, strict=True):
        old_id = computation.id & LOCAL_ID
        new_id = computation_ids[old_id]
        if old_id in sequences:
            schedule.sequences[new_id].instruction_ids.extend(
                [ids.get(ident & LOCAL_ID, ident) for ident in sequences[old_id].instruction_ids]
            )
        computation.id = new_id
        computation.root_id = ids[computation.root_id & LOCAL_ID]
        for instruction in computation.instructions:
            whole_ids[instruction.id] = ids[instruction.id & LOCAL_ID]
            instruction.id = ids[instruction.id & LOCAL_ID]
            for numbers in (instruction.operand_ids, instruction.control_predecessor_ids):
                numbers[:] = [ids[ident & LOCAL_ID] for ident in numbers]
            instruction.called_computation_ids[:] = [
                computation_ids[ident & LOCAL_ID] for ident in instruction.called_computation_ids
            ]
    module.entry_computation_id = computation_ids[module.entry_computation_id & LOCAL_ID]
    module.id &= LOCAL_ID
    if module.HasField("schedule"):
        module.schedule.CopyFrom(schedule)
    if isinstance(copy, xla.HloProto):
        for buffer in copy.buffer_assignment.logical_buffers:
            ident = buffer.defined_at.instruction_id
            buffer.defined_at.instruction_id = whole_ids.get(ident, ident)
    return copy
