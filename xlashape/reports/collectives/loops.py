"""What an iteration of a loop does with a value: whether it is the same in each, whether it is only added up, and
whether only the next iteration uses it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.flow import MOST_USES, Flow, Index, Role, Value
from xlashape.hlo.ops.operation import ResultSource
from xlashape.limits import spend
from xlashape.reports.cost.program import Runs

_MOST_STEPS: Final = 400
_FEW: Final = 8


class Loop(NamedTuple):
    """The only loop that runs a computation as its body."""

    begins: int
    """How often the loop begins in one run of the program."""
    trips: int
    """How many iterations it has each time."""


def loop_of(body: HloComputation, flow: Flow, runs: Runs) -> Loop | None:
    """The loop of a body, if it has several iterations."""
    loop = flow.caller(body)
    if loop is None or loop.kind.row.source is not ResultSource.STATE or loop.called_computations[:1] != (body,):
        return None
    begins = runs.times.get(loop.computation, 0)
    is_known = body in runs.exact and begins > 0 and runs.times[body] > begins
    return Loop(begins, runs.times[body] // begins) if is_known else None


def is_invariant(value: HloInstruction, flow: Flow) -> bool:
    """Whether a value of a loop's body is the same in every iteration: made of parts of the state that no iteration
    changes, and of constants."""
    body = value.computation
    outside = set[HloComputation]()
    loop = flow.caller(body)
    while loop is not None:
        outside.add(loop.computation)
        loop = flow.caller(loop.computation)
    pending, seen = [Value(value, ())], set[Value]()
    while pending:
        spend()
        here = pending.pop()
        if here in seen:
            continue
        seen.add(here)
        made = flow.definition(*here).instruction
        if made.computation in outside:
            continue
        row = made.kind.row
        changes = row.source is ResultSource.ARGUMENT or row.has_effect or made.opcode is Opcode.RNG
        calls = made.called_computations and not row.fuses_called_computation and row.runs_called_instructions
        if made.computation is not body or changes or calls or len(seen) > _MOST_STEPS:
            return False
        pending += [Value(operand, ()) for operand in made.operands]
    return True


def is_summand(value: Value, flow: Flow) -> bool:
    """Whether the only use of a value of a loop's body is that it, or a constant multiple of it, is added to an element
    of the loop's state that has no other use. The sum may be in a fusion."""
    uses = flow.uses(*value)
    if len(uses) != 1 or uses[0].role is not Role.OPERAND:
        return False
    user, number = uses[0].user, uses[0].operand
    is_fused = user.kind.row.fuses_called_computation and bool(user.called_computations)
    added = _added(user.called_computations[0].parameters[number] if is_fused else user.operands[number])
    if added is None:
        return False
    made, state = added
    returned, reader = Value(made, ()), made
    begins: HloInstruction | None = None
    if state.opcode is Opcode.SELECT and state.users == (made,) and _is_constant(state.operands[1]):
        # Instead of the state, the first iteration takes a constant.
        begins, state, reader = _behind(state.operands[0]), state.operands[2], state
    if is_fused:
        root = made.computation.root
        places = [place for place, part in enumerate(root.operands) if part is made]
        if state.opcode is not Opcode.PARAMETER or state.users != (reader,) or not (made is root or len(places) == 1):
            return False
        returned, reader = Value(user, () if made is root else (places[0],)), user
        state = user.operands[state.number]
        if begins is not None and begins.opcode is Opcode.PARAMETER:
            begins = user.operands[begins.number]
    before = flow.definition(state)
    if before.instruction not in value.instruction.computation.parameters[:1]:
        return False
    if begins is not None and not _is_first(begins, flow):
        return False
    carried = [(use.role, use.at) for use in flow.uses(*returned)] == [(Role.CARRY, before.at)]
    return carried and [use.user for use in flow.uses(*before)] == [reader]


def is_carried_only(value: Value, flow: Flow) -> bool:
    """Whether the only uses of a value of a loop's body, or of copies of it, are elements of the loop's state that
    neither the loop's condition nor anything behind the loop reads."""
    pending, seen = [value], {value}
    while pending:
        spend()
        uses = flow.uses(*pending.pop())
        if not uses or len(uses) == MOST_USES or len(seen) > _FEW:
            return False
        for use in uses:
            if use.user.opcode is Opcode.COPY:
                copied = Value(use.user, ())
                pending += [copied] if copied not in seen else []
                seen.add(copied)
            elif use.role is not Role.CARRY or _is_read(use.user, use.at, flow):
                return False
    return True


def _is_read(loop: HloInstruction, at: Index, flow: Flow) -> bool:
    """Whether anything reads an element of a loop's state behind the last iteration: its condition, or what follows."""
    condition = loop.called_computations[1]
    return bool(flow.uses(loop, at) or flow.uses(condition.parameters[0], at))


def _added(value: HloInstruction) -> tuple[HloInstruction, HloInstruction] | None:
    """The sum that is the only use of a value or of a constant multiple of it, and the other summand."""
    while len(value.users) == 1 and not value.is_root:
        (user,) = value.users
        others = [operand for operand in user.operands if operand is not value]
        if user.opcode is Opcode.ADD:
            return (user, others[0]) if others else None
        is_multiple = user.opcode is Opcode.MULTIPLY or (user.opcode is Opcode.DIVIDE and user.operands[0] is value)
        if not (is_multiple and len(others) == 1 and _is_constant(others[0])):
            return None
        value = user
    return None


def _is_constant(value: HloInstruction) -> bool:
    while value.opcode in (Opcode.BROADCAST, Opcode.CONVERT):
        value = value.operands[0]
    return value.opcode is Opcode.CONSTANT


def _behind(value: HloInstruction) -> HloInstruction:
    """The value of which a value is a copy, or which it has in each element."""
    while value.opcode in (Opcode.BROADCAST, Opcode.COPY):
        value = value.operands[0]
    return value


def _is_first(condition: HloInstruction, flow: Flow) -> bool:
    """Whether a condition holds in the first iteration of a loop: a counter is what it is at the begin."""
    condition = _behind(condition)
    loop = flow.caller(condition.computation)
    if condition.opcode is not Opcode.COMPARE or condition.details.comparison_direction != "EQ" or loop is None:
        return False
    counter = flow.definition(_behind(condition.operands[0]))
    if counter.instruction not in condition.computation.parameters[:1]:
        return False
    begin = flow.definition(loop.operands[0], counter.at).instruction
    begin, number = [_behind(flow.definition(each).instruction) for each in (_behind(begin), condition.operands[1])]
    is_known = begin.opcode is number.opcode is Opcode.CONSTANT
    return is_known and begin.kind.message.literal == number.kind.message.literal
