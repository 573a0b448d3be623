"""Finds the instructions of a module that nothing needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode


def dead_instructions(called: Iterable[HloComputation]) -> dict[HloComputation, set[HloInstruction]]:
    """The instructions of each computation whose results nothing needs. Computations without such instructions are left
    out. `called` are the computations that run, with all that they call.

    Needed are the root, parameters, instructions with an effect, instructions that exchange data with other replicas,
    asynchronous instructions, instructions with an unknown opcode, both ends of a control dependency, and all
    instructions that these need.
    """
    computations = tuple(called)
    with_effects = _computations_with_effects(computations)
    dead: dict[HloComputation, set[HloInstruction]] = {}
    for computation in computations:
        pending = [computation.root]
        for each in computation.instructions:
            controlled = each.control_predecessors
            if controlled or each.opcode is Opcode.PARAMETER or _has_effect(each, with_effects):
                pending += [each, *controlled]
        live: set[HloInstruction] = set()
        while pending:
            each = pending.pop()
            if each not in live:
                live.add(each)
                pending += each.operands
        if len(live) < len(computation.instructions):
            dead[computation] = set(computation.instructions) - live
    return dead


def _computations_with_effects(computations: Sequence[HloComputation]) -> set[HloComputation]:
    """The computations that have an effect, themselves or through a computation that they call."""
    found: set[HloComputation] = set()
    size = -1
    # Runs once for each level of calls if the module has callers before the computations that they call.
    while size < len(found):
        size = len(found)
        found.update(each for each in computations if any(_has_effect(i, found) for i in each.instructions))
    return found


def _has_effect(instruction: HloInstruction, with_effects: Iterable[HloComputation]) -> bool:
    row = instruction.kind.row
    return (
        row.has_effect
        or isinstance(instruction.opcode, UnknownOpcode)
        or row.exchanges_with_replicas
        or row.async_step is not None
        or (instruction.opcode is Opcode.CUSTOM_CALL and instruction.kind.message.custom_call_has_side_effect)
        or any(each in with_effects for each in instruction.called_computations)
    )
