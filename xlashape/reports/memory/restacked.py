"""Arrays that a loop takes apart along their first dimension and stacks again, an iteration a part.

`jax.lax.scan` with a stacked array in xs, as the state of each layer, and its new value in ys makes two arrays of it:
each iteration reads its part of the one and writes the new part into the other. XLA does not make them one, also where
the argument is donated. With the array in the carry, read and updated at the same index, there is one array only.

The pattern is looked for in the loops of compiled programs, where a position of the loop's state is called an element:

    taken     an element that no iteration changes, and each reads by dynamic-slice at one index alone
    stacked   an element that each iteration writes by dynamic-update-slice at this index, and nobody reads inside
    index     it takes each value of the first dimension once, so that all parts are read and written

What is written has to depend on what is read, the array that is taken apart has to be an argument of the program, and
the stack a result, or both an array of the state of the same outer loop. Nothing else may read the argument, unless it
does so before the loop begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.hlo.flow import Flow, Index, Role, Value, handed_on_to
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.limits import spend
from xlashape.reports.memory.inside import ENTERED, FORMS, Inside, before, behind, behind_copies
from xlashape.shape import Shape, ShapeIndex

_MOST_STEPS: Final = 5_000
"""The most instructions of a body that a search looks at."""
_MOST_NESTED: Final = 20
_MOST_NAMED: Final = 3
"""The most arrays that a text names one by one."""
_COPIES: Final = (Opcode.COPY, Opcode.COPY_START)


class Restacked(NamedTuple):
    """An array that a loop takes apart and stacks again."""

    loop: HloInstruction
    taken: int
    """The element of the loop's state that is taken apart."""
    stacked: int
    """The element of the loop's state that the new array is."""
    shape: Shape
    parameter: HloInstruction | None
    """The argument of the module that is taken apart; None where the array comes from elsewhere into an outer loop."""
    output: Index | None
    """The output of the module that the stack becomes; None in an outer loop."""
    shares: bool
    """Whether the new array is to lie in the memory of the old one: the argument is donated for this output, or both
    are the same element of the state of an outer loop."""
    is_ordered: bool
    """Whether each iteration needs all that it reads of its part for what it writes, and for nothing beside, so that
    nothing can read the part after it is overwritten."""

    @property
    def where(self) -> str:
        """The line of the loop, or the loop's name."""
        return self.loop.metadata.source or next(_sources(self.loop), None) or self.loop.name


def carry_text(arrays: Sequence[Restacked]) -> str:
    """The change of the program that makes one array of each of these two, all of the same loop, in JAX's words."""
    names = [_name(each) for each in arrays]
    many = len(names) > 1
    named = (
        f"{', '.join(names[:-1])} and {names[-1]}" if 1 < len(names) <= _MOST_NAMED else ", ".join(names[:_MOST_NAMED])
    )
    if len(names) > _MOST_NAMED:
        named += f" and {len(names) - _MOST_NAMED} more"
    outputs = [str(ShapeIndex(each.output)) for each in arrays if each.output is not None]
    become = ""
    if len(outputs) == len(names):
        become = (
            f" (output{'s'[:many]} {', '.join(outputs[:_MOST_NAMED])}{', …' if len(outputs) > _MOST_NAMED else ''})"
        )
    them = "them" if many else "it"
    barrier = "" if all(each.is_ordered for each in arrays) else ", read through jax.lax.optimization_barrier,"
    return (
        f"carry {named} through the scan at {arrays[0].where}, and update {them} at i, instead of passing {them} in xs "
        f"and returning {them} in ys{become}: jax.lax.dynamic_index_in_dim(…, i, 0, keepdims=False){barrier} and "
        "jax.lax.dynamic_update_index_in_dim(…, new, i, 0) in the body"
    )


def _name(array: Restacked) -> str:
    if array.parameter is None:
        return f"an array {array.shape.without_layout()}"
    return array.parameter.metadata.op_name or array.parameter.name


class _Place(NamedTuple):
    """Where the array comes from that a loop takes apart, or where the one goes that it stacks."""

    owner: HloInstruction
    """The parameter of the module, or of the body of an outer loop; the root of the same computation."""
    at: Index


class _Line(NamedTuple):
    """A number that depends on an element of a loop's state: factor · element + start."""

    element: int | None
    factor: int
    start: int


def restacked(module: HloModule) -> list[Restacked]:
    """The arrays that loops of a module take apart and stack again, in the order of loops and outputs. An array is
    named once: the argument that is donated for an output goes with it, else the first one whose parts few others
    depend on.
    """
    flow = Flow(module)
    found: list[Restacked] = []
    for computation in flow.executed:
        for loop in computation.instructions:
            if loop.kind.row.source is ResultSource.STATE and _is_simple(loop):
                found += _Loop(flow, loop).restacked()
    return found


def _is_simple(loop: HloInstruction) -> bool:
    called = loop.called_computations
    return (
        len(called) == 2
        and len(loop.operands) == 1
        and loop.shape.is_tuple
        and all(len(each.parameters) == 1 for each in called)
        and called[0].root.shape.is_tuple
    )


def _sources(loop: HloInstruction) -> Iterator[str]:
    """The lines of operations that a loop over parts itself makes."""
    for each in loop.called_computations[0].instructions:
        if each.metadata_bytes and "dynamic_index_in_dim" in each.metadata.op_name and each.metadata.source:
            yield each.metadata.source


class _Access(NamedTuple):
    """An instruction that reads or writes a part of an array of a loop's state."""

    made: HloInstruction
    callers: tuple[HloInstruction, ...]

    @property
    def outer(self) -> HloInstruction:
        """The instruction of the body that it is in."""
        return self.callers[0] if self.callers else self.made


class _Loop:
    """A loop, and the arrays that go through it."""

    def __init__(self, flow: Flow, loop: HloInstruction) -> None:
        self._flow = flow
        self._loop = loop
        self._body, self._condition = loop.called_computations
        self._state = self._body.parameters[0]

    def restacked(self) -> list[Restacked]:
        root = self._body.root
        written: dict[int, tuple[_Access, _Line]] = {}
        for number, shape in enumerate(root.shape.tuple_shapes):
            if shape.is_array and shape.rank > 0 and shape.dimensions[0] > 1:
                access = self._written(number)
                line = None if access is None else self._index(access, 2)
                if access is not None and line is not None:
                    written[number] = access, line
        if not written:
            return []
        shapes = {
            (root.shape.tuple_shapes[each].element_type, root.shape.tuple_shapes[each].dimensions) for each in written
        }
        taken: dict[int, list[tuple[_Access, _Line]]] = {}
        for number, shape in enumerate(root.shape.tuple_shapes):
            if shape.is_array and number not in written and (shape.element_type, shape.dimensions) in shapes:
                accesses = self._taken(number)
                if accesses:
                    taken[number] = accesses
        if not taken or not all(
            self._is_each_once(line, root.shape.tuple_shapes[each].dimensions[0]) for each, (_, line) in written.items()
        ):
            return []
        return self._paired(written, taken)

    def _paired(
        self, written: dict[int, tuple[_Access, _Line]], taken: dict[int, list[tuple[_Access, _Line]]]
    ) -> list[Restacked]:
        """The pairs of an array that is taken apart and one that is stacked."""
        shapes = self._body.root.shape.tuple_shapes
        from_places = {number: place for number in taken if (place := self._from(number)) is not None}
        to_places = {number: place for number in written if (place := self._to(number)) is not None}
        needs = {
            number: _needed(Inside(Value(access.made.operands[1], ()), access.callers))
            for number, (access, _) in written.items()
            if number in to_places
        }
        fits: dict[int, list[int]] = {}
        for number in needs:
            shape, line = shapes[number], written[number][1]
            fits[number] = [
                each
                for each in from_places
                if (shapes[each].element_type, shapes[each].dimensions) == (shape.element_type, shape.dimensions)
                and from_places[each].owner.computation is to_places[number].owner.computation
                and all(at == line for _, at in taken[each])
                and any(Inside(Value(access.made, ()), access.callers) in needs[number] for access, _ in taken[each])
            ]
        dependents = {each: sum([each in some for some in fits.values()]) for each in from_places}
        found: list[Restacked] = []
        used: set[int] = set()
        for shared in (True, False):
            for number in sorted(fits, key=lambda each: to_places[each].at):
                free = [
                    each
                    for each in fits[number]
                    if each not in used and self._shares(from_places[each], to_places[number]) is shared
                ]
                if number in used or not free or (not shared and self._is_taken(to_places[number])):
                    continue
                best = min(free, key=lambda each: (dependents[each], self._order(from_places[each])))
                used |= {number, best}
                found.append(
                    self._made(
                        best, number, from_places[best], to_places[number], taken[best], written[number][0], shared
                    )
                )
        return sorted(found, key=lambda each: each.stacked)

    def _made(
        self,
        taken: int,
        stacked: int,
        source: _Place,
        target: _Place,
        reads: list[tuple[_Access, _Line]],
        write: _Access,
        shares: bool,
    ) -> Restacked:
        is_entry = source.owner.computation is self._flow.module.entry
        origin = self._flow.memory(source.owner, source.at)
        parameter = origin.instruction if origin.at == () and self._is_argument(origin.instruction) else None
        is_ordered = self._is_ordered(write, [access for access, _ in reads])
        return Restacked(
            self._loop,
            taken,
            stacked,
            self._body.root.shape.tuple_shapes[stacked],
            parameter,
            target.at if is_entry else None,
            shares,
            is_ordered,
        )

    # -- inside of the loop -------------------------------------------------------------------

    def _written(self, number: int) -> _Access | None:
        """What writes a part of an element of the state in each iteration, if nothing else is done with it inside."""
        last = behind_copies(Inside(Value(self._body.root, (number,))))
        made = last.made
        if made.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or len(made.operands) < 3:
            return None
        if behind_copies(Inside(Value(made.operands[0], ()), last.callers)).value != (self._state, (number,)):
            return None
        accesses = self._accesses(number) or []
        if accesses != [_Access(made, last.callers)] or not _is_part(made.operands[0].shape, made.operands[1].shape):
            return None
        return accesses[0]

    def _taken(self, number: int) -> list[tuple[_Access, _Line]] | None:
        """What reads parts of an element of the state, each with its index, if nothing else is done with it."""
        if behind_copies(Inside(Value(self._body.root, (number,)))).value != (self._state, (number,)):
            return None
        found: list[tuple[_Access, _Line]] = []
        for access in self._accesses(number) or ():
            made = access.made
            line = self._index(access, 1) if made.opcode is Opcode.DYNAMIC_SLICE else None
            if line is None or not _is_part(made.operands[0].shape, made.shape):
                return None
            found.append((access, line))
        return found

    def _accesses(self, number: int) -> list[_Access] | None:
        """What reads or writes parts of an element of the state in an iteration, but for handing it on; None where
        something else is done with it."""
        if self._flow.uses(self._condition.parameters[0], (number,)):
            return None
        found: list[_Access] = []
        pending: list[tuple[HloInstruction, Index, tuple[HloInstruction, ...]]] = [(self._state, (number,), ())]
        seen = set(pending)
        while pending:
            instruction, at, callers = pending.pop()
            if instruction is instruction.computation.root and (callers or at != (number,)):
                return None
            for user in instruction.users:
                spend()
                for operand in [each for each, one in enumerate(user.operands) if one is instruction]:
                    to: tuple[HloInstruction, Index, tuple[HloInstruction, ...]] | None = None
                    row = user.kind.row
                    if row.source in (ResultSource.ELEMENT, ResultSource.OPERANDS) or user.opcode is Opcode.BITCAST:
                        handed = handed_on_to(user, operand, at)
                        if handed is None:
                            continue
                        to = (user, handed, callers)
                    elif user.opcode in ENTERED and user.called_computations and len(callers) < _MOST_NESTED:
                        parameters = user.called_computations[0].parameters
                        if operand >= len(parameters):
                            return None
                        to = (parameters[operand], at, (*callers, user))
                    elif operand == 0 and user.opcode in (Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE):
                        found.append(_Access(user, callers))
                    else:
                        return None
                    if to is not None and to not in seen:
                        seen.add(to)
                        pending.append(to)
        return found

    def _is_ordered(self, write: _Access, reads: Sequence[_Access]) -> bool:
        """Whether what is written needs all that is read, and a fusion that reads and writes makes nothing else of what
        it reads: a compiler copies the whole array otherwise."""
        earlier = _all_before(write.outer)
        if any(access.outer not in earlier for access in reads):
            return False
        inside = {Inside(Value(access.made, ()), access.callers) for access in reads if access.outer is write.outer}
        for number in range(len(write.outer.shape.tuple_shapes)) if inside else ():
            part = Inside(Value(write.outer, (number,)))
            if behind_copies(part).made is not write.made and not inside.isdisjoint(_needed(part)):
                return False
        return True

    # -- the index ----------------------------------------------------------------------------

    def _index(self, access: _Access, first: int) -> _Line | None:
        """At which index of the first dimension a part is read or written whose other indices are 0; else None. `first`
        is the number of the operand that has the index."""
        lines = [self._line(Inside(Value(each, ()), access.callers)) for each in access.made.operands[first:]]
        if not lines or lines[0] is None or lines[0].element is None or any(each != (None, 0, 0) for each in lines[1:]):
            return None
        return lines[0]

    def _line(self, inside: Inside, depth: int = _MOST_NESTED) -> _Line | None:
        """A number as one that depends on an element of the state; None where it does so otherwise."""
        from xlashape.indexing.answers.leaves import scalar_value  # deferred: it imports indexing maps

        inside = behind(inside, FORMS)
        (made, at), callers = inside
        if made is self._state:
            return _Line(at[0], 1, 0) if len(at) == 1 else None
        number = scalar_value(made)
        if number is not None:
            return _Line(None, 0, number)
        if not depth:
            return None
        spend()

        def line(operand: int) -> _Line | None:
            return self._line(Inside(Value(made.operands[operand], ()), callers), depth - 1)

        if made.opcode in (Opcode.ADD, Opcode.SUBTRACT):
            left, right = line(0), line(1)
            if left is None or right is None or None not in (left.element, right.element):
                return None
            sign = 1 if made.opcode is Opcode.ADD else -1
            element = left.element if left.element is not None else right.element
            return _Line(element, left.factor + sign * right.factor, left.start + sign * right.start)
        if made.opcode is Opcode.SELECT:  # a negative index counts from the end: none is, as the loop's bounds show
            below, other = line(1), line(2)
            is_shifted = below is not None and other is not None and below[:2] == other[:2]
            return other if is_shifted and self._asks_for_negative(made.operands[0], callers, other) else None
        if made.opcode is Opcode.CLAMP:
            return line(1)
        return None

    def _asks_for_negative(
        self, condition: HloInstruction, callers: tuple[HloInstruction, ...], of: _Line | None
    ) -> bool:
        made, its_callers = behind(Inside(Value(condition, ()), callers), FORMS)
        test = made.instruction
        if test.opcode is not Opcode.COMPARE or test.details.comparison_direction != "LT":
            return False
        sides = [self._line(Inside(Value(each, ()), its_callers)) for each in test.operands]
        return sides == [of, _Line(None, 0, 0)]

    def _is_each_once(self, line: _Line, size: int) -> bool:
        """Whether an index is each of the numbers from 0 to size - 1 once."""
        from xlashape.indexing.walk.repeated.trip_count import trip_count  # deferred: it imports indexing maps

        if line.element is None or abs(line.factor) != 1:
            return False
        step = self._line(Inside(Value(self._body.root, (line.element,))))
        begin = self._line(Inside(Value(self._loop.operands[0], (line.element,))))
        if (
            step is None
            or begin is None
            or step[:2] != (line.element, 1)
            or abs(step.start) != 1
            or begin.element is not None
        ):
            return False
        if trip_count(self._loop, self._body, self._condition) != size:
            return False
        first = line.factor * begin.start + line.start
        return first == (0 if line.factor * step.start == 1 else size - 1)

    # -- outside of the loop ------------------------------------------------------------------

    def _from(self, number: int) -> _Place | None:
        """The argument, or the element of the state of an outer loop, that is taken apart here and not read
        elsewhere, unless before the loop; else None."""
        flow, loop = self._flow, self._loop
        if flow.uses(loop, (number,)):
            return None
        source = flow.source(loop.operands[0], (number,))[0]
        passed: list[Value] = []
        while source.instruction.opcode in _COPIES:
            passed.append(source)
            source = flow.source(source.instruction.operands[0])[0]
        if source.instruction.opcode is not Opcode.PARAMETER or source.instruction.computation is not loop.computation:
            return None
        copies = {each.instruction for each in passed}
        earlier = _all_before(loop)
        for value in (source, *passed):
            for use in flow.uses(*value):
                if use.user is loop:
                    if use.at != (number,):
                        return None
                elif use.user not in copies and (use.role is not Role.OPERAND or use.user not in earlier):
                    return None
        return _Place(source.instruction, source.at)

    def _to(self, number: int) -> _Place | None:
        """The output, or the element of the state of an outer loop, that the stack becomes; else None."""
        pending = [Value(self._loop, (number,))]
        for value in pending:
            for use in self._flow.uses(*value):
                if use.role in (Role.OUTPUT, Role.CARRY):
                    return _Place(
                        self._loop.computation.parameters[0] if use.role is Role.CARRY else self._loop.computation.root,
                        use.at,
                    )
                if use.user.opcode in _COPIES:
                    pending.append(Value(use.user, () if use.user.opcode is Opcode.COPY else (0,)))
        return None

    def _is_argument(self, instruction: HloInstruction) -> bool:
        return instruction.opcode is Opcode.PARAMETER and instruction.computation is self._flow.module.entry

    def _shares(self, source: _Place, target: _Place) -> bool:
        """Whether the array that is stacked is to lie in the memory of the one that is taken apart."""
        if self._is_argument(source.owner):
            return not source.at and self._flow.donated.get(source.owner.number) == target.at
        return source.owner is target.owner and source.at == target.at

    def _is_taken(self, target: _Place) -> bool:
        """Whether the array that is stacked has the memory of another one already."""
        return target.owner is not self._flow.module.entry.root or target.at in self._flow.taken

    def _order(self, source: _Place) -> tuple[int, Index]:
        return (source.owner.number, source.at)


def _is_part(whole: Shape, part: Shape) -> bool:
    """Whether a part is all that has one index of the first dimension of an array."""
    return part.dimensions == (1, *whole.dimensions[1:])


def _all_before(instruction: HloInstruction) -> set[HloInstruction]:
    """An instruction and all that it needs, in its computation."""
    found = {instruction}
    pending = [instruction]
    while pending:
        spend()
        for each in pending.pop().operands:
            if each not in found:
                found.add(each)
                pending.append(each)
    return found


def _needed(inside: Inside) -> set[Inside]:
    """All values of an iteration that a value depends on, up to the state."""
    pending = [inside]
    seen = set(pending)
    for _ in range(_MOST_STEPS):
        if not pending:
            break
        spend()
        inside = pending.pop()
        earlier = before(inside, frozenset())
        (made, _), callers = inside
        for each in [earlier] if earlier else [Inside(Value(one, ()), callers) for one in made.operands]:
            if each not in seen:
                seen.add(each)
                pending.append(each)
    return seen
