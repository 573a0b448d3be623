"""What still reads the old value of an argument whose memory is overwritten, and the barrier that orders it before.

Nothing but its operands orders an instruction, and XLA's optimizations change these: the old value may be read by an
operation that the program writes first, or by one that XLA computes the new value in again, from the old one. XLA then
copies the argument, and with a donation once more. `jax.lax.optimization_barrier` makes the order one of operands.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.flow import Flow, Role
from xlashape.limits import spend
from xlashape.reports.memory.liveness import keeps_positions

_MOST_STEPS: Final = 200
"""The most instructions that a search looks at."""
_UPDATES: Final = (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER)


class OldValue(NamedTuple):
    """An instruction that reads the old value of an argument, which another one overwrites."""

    reader: HloInstruction
    computes_again: bool
    """Whether it computes the new value again, for the program's operations that read the new value."""

    @property
    def advice(self) -> str:
        """The edit of the program that orders the reader before what overwrites the argument."""
        if self.computes_again:
            return "pass the new value through jax.lax.optimization_barrier before anything reads it"
        return (
            "pass the old value, with what else is computed from it, through a barrier: x, y = "
            "jax.lax.optimization_barrier((x, y)); compute the new value from this x"
        )


def old_value(flow: Flow, parameter: HloInstruction, writer: HloInstruction) -> OldValue | None:
    """What reads a parameter, or a copy of it, and could be executed before `writer` as well as after. None where
    nothing does, and where the order would not do: something that reads it needs the result of `writer`, or `writer`
    reads it and cannot compute in its memory."""
    pending, seen = [parameter], {parameter}
    found: OldValue | None = None
    for _ in range(_MOST_STEPS):
        if not pending:
            return found
        spend(1)
        for use in flow.uses(pending.pop()):
            user = use.user
            if use.role is not Role.OPERAND or user in seen:
                continue
            if user is writer:
                if flow.written_in_place(use) is None and not keeps_positions(writer, [use.operand]):
                    return None
                continue
            seen.add(user)
            if user.opcode == Opcode.COPY:
                pending.append(user)
            elif comes_before(writer, user):
                return None
            elif found is None and not comes_before(user, writer):
                found = OldValue(user, bool(_updates(user) & _updates(writer)))
    return None


def comes_before(first: HloInstruction, then: HloInstruction) -> bool:
    """Whether the instruction `then` needs the result of `first`, so that `first` is executed before. False where the
    search takes too long."""
    pending, seen = [then], {then}
    for _ in range(_MOST_STEPS):
        if not pending:
            return False
        spend(1)
        for operand in pending.pop().operands:
            if operand is first:
                return True
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return False


def _updates(fusion: HloInstruction) -> set[str]:
    """The operations of the program that update a part of an array in a fusion."""
    inner = fusion.called_computations[0].instructions if fusion.opcode == Opcode.FUSION else ()
    return {each.metadata.op_name for each in inner if each.opcode in _UPDATES and each.metadata.op_name}
