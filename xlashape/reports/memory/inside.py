"""Values in the body of a loop, inside of its fusions and calls too: where they come from, which elements of the loop's
state are stacks that each iteration puts a part into, and what of a plan is their memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.hlo.flow import Value, handed_on_from, replaces_a_part
from xlashape.hlo.module import HloInstruction
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Movement
from xlashape.hlo.ops.registry import operation_of
from xlashape.reports.memory.plan import Plan
from xlashape.shape import Shape

COPIES: Final = frozenset([Opcode.BITCAST, Opcode.COPY])
_ARRANGING: Final = (Movement.COPY, Movement.RESHAPE, Movement.TRANSPOSE)
FORMS: Final = frozenset(
    [
        *COPIES,
        Opcode.CONVERT,
        Opcode.BROADCAST,
        *[each for each in Opcode if operation_of(each).movement in _ARRANGING],
    ]
)
"""What gives a value another form, a broadcast where it repeats nothing."""
ENTERED: Final = frozenset([Opcode.CALL, Opcode.FUSION])
_MOST_STEPS: Final = 100


class Inside(NamedTuple):
    """A value in the body of a loop, maybe inside of fusions and calls."""

    value: Value
    callers: tuple[HloInstruction, ...] = ()
    """The fusions and calls whose computations the value is in, the outermost first."""

    @property
    def made(self) -> HloInstruction:
        return self.value.instruction


class Iteration(NamedTuple):
    """What an iteration of a loop does with the elements of the loop's state."""

    stacked: dict[int, Inside]
    """Element that is a stack → the value that an iteration puts into it."""
    carried: dict[int, Shape]
    """Element that an iteration begins with and changes → its shape."""


def before(inside: Inside, forms: frozenset[Opcode], *, enters: bool = True) -> Inside | None:
    """Where a value comes from, one step back; None where it is made. Operations in `forms` pass it on too."""
    (made, at), callers = inside
    source = handed_on_from(made, at)
    if source is not None:
        return Inside(source, callers)
    if made.opcode in forms and made.operands:
        operand = made.operands[0]
        if made.opcode is not Opcode.BROADCAST or product(operand.shape.dimensions) == product(made.shape.dimensions):
            return Inside(Value(operand, ()), callers)
    if enters and made.opcode in ENTERED and made.called_computations:
        return Inside(Value(made.called_computations[0].root, at), (*callers, made))
    if made.opcode is Opcode.PARAMETER and callers and made.parameter_number < len(callers[-1].operands):
        return Inside(Value(callers[-1].operands[made.parameter_number], at), callers[:-1])
    return None


def behind(inside: Inside, forms: frozenset[Opcode], *, enters: bool = True) -> Inside:
    """Where a value comes from, if operations in `forms` pass it on."""
    for _ in range(_MOST_STEPS):
        earlier = before(inside, forms, enters=enters)
        if earlier is None:
            break
        inside = earlier
    return inside


def behind_copies(inside: Inside, *, enters: bool = True) -> Inside:
    """Where a value comes from."""
    return behind(inside, COPIES, enters=enters)


def behind_forms(inside: Inside) -> Inside:
    """Where the elements of a value come from, maybe in another form or of another type."""
    return behind(inside, FORMS)


def body_of(loop: HloInstruction) -> Iteration:
    """The stacks of a loop, and what else its iterations change."""
    body = loop.called_computations[0]
    parameter = body.parameters[0]
    stacked: dict[int, Inside] = {}
    carried: dict[int, Shape] = {}
    for number, shape in enumerate(body.root.shape.tuple_shapes):
        if not shape.is_array or not shape.rank:
            continue
        last = behind_copies(Inside(Value(body.root, (number,))))
        if last.value == (parameter, (number,)):
            continue
        if replaces_a_part(last.made) and len(last.made.operands) > 1:
            written = behind_copies(Inside(Value(last.made.operands[0], ()), last.callers))
            if written.value == (parameter, (number,)):
                stacked[number] = Inside(Value(last.made.operands[1], ()), last.callers)
                continue
        carried[number] = shape
    return Iteration(stacked, carried)


def lives_of(
    plan: Plan, elements: Mapping[HloInstruction, Iterable[int]], kinds: Container[int]
) -> dict[HloInstruction, dict[int, int]]:
    """Loop → the lives of these elements of its state, before it, in it and after it, that are of these kinds, each
    with the number of its element."""
    made_in: dict[tuple[HloInstruction, tuple[int, ...]], tuple[HloInstruction, int]] = {}
    for loop, numbers in elements.items():
        for number in numbers:
            parameters = [Value(called.parameters[0], (number,)) for called in loop.called_computations]
            last = _in_memory_of(Value(loop.called_computations[0].root, (number,)))
            first = _in_memory_of(Value(loop.operands[0], (number,)))
            for value in (Value(loop, (number,)), *parameters, *last, *first):
                made_in.setdefault((value.instruction, value.at), (loop, number))
    found: dict[HloInstruction, dict[int, int]] = {}
    for life, value in enumerate(plan.lives.values) if made_in else ():
        if plan.values.kinds[value] in kinds:
            heirs = [plan.values.place(each) for _, each in plan.lives.heirs.get(life, ())]
            for place in (*heirs, plan.values.place(value)):
                known = None if place.instruction is None else made_in.get((place.instruction, place.shape_index))
                if known is not None:
                    found.setdefault(known[0], {})[life] = known[1]
    return found


def _in_memory_of(value: Value) -> list[Value]:
    """A value, those that it is, and those that it is a copy of and nothing else uses, the nearest first."""
    found = [value]
    for _ in range(_MOST_STEPS):
        made = found[-1].instruction
        if made.opcode is Opcode.COPY and made.operands and len(made.operands[0].users) > 1:
            break
        earlier = before(Inside(found[-1]), COPIES, enters=False)
        if earlier is None:
            break
        found.append(earlier.value)
    return found
