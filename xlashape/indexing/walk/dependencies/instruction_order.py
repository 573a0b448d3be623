"""The instructions of a computation in an order in which operands come before their users. A proto may list them in any order."""

from __future__ import annotations

from xlashape.hlo import HloComputation, HloInstruction


def operands_first(computation: HloComputation) -> list[HloInstruction]:
    """The instructions, operands before their users; in the computation's own order where that has this property."""
    instructions = computation.instructions
    if all(operand.index < user.index for user in instructions for operand in user.operands):
        return list(instructions)
    missing = [len(set(instruction.operands)) for instruction in instructions]
    ready = [instruction for instruction in instructions if not missing[instruction.index]]
    for instruction in ready:  # the list grows during the loop
        for user in instruction.users:
            missing[user.index] -= 1
            if not missing[user.index]:
                ready.append(user)
    return ready
