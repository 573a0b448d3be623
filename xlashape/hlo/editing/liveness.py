"""Which instructions and computations of a module nothing needs."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.proto import xla

__all__ = ["dead_instructions", "uncalled_computations"]

_EFFECTS: Final = frozenset(
    (
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.SEND,
        Opcode.SEND_DONE,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
    )
)
"""Operations that do more than give a result: they move data in and out, or advance a state."""


def dead_instructions(module: xla.HloModuleProto) -> dict[int, set[int]]:
    """By local id of each computation that has some: the local ids of instructions whose results nothing needs.

    What stays: the root and what it needs, parameters, instructions with an effect, those that exchange data with other
    replicas, asynchronous ones, those of unknown opcodes, those that a control dependency begins or ends at, and all that these need.
    """
    with_effects = _computations_with_effects(module)
    dead: dict[int, set[int]] = {}
    for computation in module.computations:
        by_id = {instruction.id & LOCAL_ID: instruction for instruction in computation.instructions}
        pending = [computation.root_id & LOCAL_ID]
        for local_id, instruction in by_id.items():
            controlled = [i & LOCAL_ID for i in instruction.control_predecessor_ids]
            if controlled or instruction.opcode == Opcode.PARAMETER or _has_effect(instruction, with_effects):
                pending += [local_id, *controlled]
        live: set[int] = set()
        while pending:
            local_id = pending.pop()
            if local_id not in live:
                live.add(local_id)
                pending += [i & LOCAL_ID for i in by_id[local_id].operand_ids]
        if len(live) < len(by_id):
            dead[computation.id & LOCAL_ID] = by_id.keys() - live
    return dead


def uncalled_computations(module: xla.HloModuleProto) -> set[int]:
    """The local ids of the computations that the entry does not call, directly or not."""
    calls = {
        computation.id & LOCAL_ID: {
            i & LOCAL_ID for instruction in computation.instructions for i in instruction.called_computation_ids
        }
        for computation in module.computations
    }
    called: set[int] = set()
    pending = [module.entry_computation_id & LOCAL_ID]
    while pending:
        local_id = pending.pop()
        if local_id not in called:
            called.add(local_id)
            pending += calls[local_id]
    return calls.keys() - called


def _computations_with_effects(module: xla.HloModuleProto) -> set[int]:
    """The local ids of computations with an instruction that has an effect, also by what it calls."""
    found: set[int] = set()
    size = -1
    while size < len(found):  # once for each level of calls, in modules that have callers before what they call
        size = len(found)
        for computation in module.computations:
            if any(_has_effect(instruction, found) for instruction in computation.instructions):
                found.add(computation.id & LOCAL_ID)
    return found


def _has_effect(instruction: xla.HloInstructionProto, with_effects: set[int]) -> bool:
    row = operation_of(instruction.opcode)
    return (
        instruction.opcode in _EFFECTS
        or isinstance(row.opcode, UnknownOpcode)
        or row.exchanges_with_replicas
        or row.async_step is not None
        or instruction.custom_call_has_side_effect
        or any(i & LOCAL_ID in with_effects for i in instruction.called_computation_ids)
    )
