"""`Flow` follows values through a whole module: back to where they are made, and forward to what uses them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple

from xlashape.hlo.flow.steps import Index, Value, declared_alias, handed_on_from, handed_on_to, in_place
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, ResultSource
from xlashape.limits import spend

_MOST_STEPS: Final = 400
MOST_USES: Final = 64
"""So many uses of a value are found at most."""
_FEW: Final = 8


class Role(Enum):
    """How a value is used."""

    OPERAND = "operand"
    OUTPUT = "output"
    """The value is an output of the module."""
    CARRY = "carry"
    """The value is an element of the state that the body of a loop returns."""
    BRANCH = "branch"
    """The value is an element of the result of a branch."""


class ValueUse(NamedTuple):
    """A use of a value: as an operand of an instruction, or as a part of the result of a computation."""

    user: HloInstruction
    """The instruction that uses it; for an output the root, for a carry the loop, for a branch the conditional."""
    role: Role
    operand: int
    """The number of the operand; 0 for other roles."""
    at: Index
    """Where the value is in the operand, the module's result, the loop's state or the branch's result."""
    bitcasts: tuple[HloInstruction, ...]
    """The bitcasts between the value and the use, the one next to the value first."""


def executed_computations(module: ModuleData) -> tuple[HloComputation, ...]:
    """The entry computation and those that it executes instruction by instruction, in the order of the module."""
    executed = {module.entry}
    pending = [module.entry]
    while pending:
        for instruction in [each for each in pending.pop().instructions if each.called_computations]:
            if instruction.kind.row.runs_called_instructions:
                for called in instruction.called_computations:
                    if called not in executed:
                        executed.add(called)
                        pending.append(called)
    return tuple([computation for computation in module.computations if computation in executed])


class Flow:
    """Follows values through a module, which must not change meanwhile."""

    def __init__(self, module: ModuleData) -> None:
        self.module = module
        self.executed = executed_computations(module)
        self.callers: dict[HloComputation, list[HloInstruction]] = {each: [] for each in self.executed}
        """Executed computation → the instructions that begin to run it, each once."""
        for computation in self.executed:
            spend(len(computation.instructions))
            for instruction in [each for each in computation.instructions if each.called_computations]:
                row = instruction.kind.row
                if row.runs_called_instructions and row.async_step in (None, AsyncStep.START):
                    for called in dict.fromkeys(instruction.called_computations):
                        self.callers[called].append(instruction)
        self._uses: dict[Value, list[ValueUse]] = {}
        self._positions: dict[HloInstruction, dict[HloInstruction, list[int]]] = {}
        self._carried: dict[Value, Index | None] = {}

    @cached_property
    def donated(self) -> dict[int, Index]:
        """Number of a donated parameter → the index of the output that takes over its memory."""
        aliases = self.module.head.input_output_alias.entries
        return {alias.parameter_number: tuple(alias.output_shape_index) for alias in aliases}

    @cached_property
    def taken(self) -> set[Index]:
        """The indices of the outputs that take over the memory of parameters."""
        return set(self.donated.values())

    def caller(self, computation: HloComputation) -> HloInstruction | None:
        """The instruction that begins to run a computation; None where several do, or none."""
        callers = self.callers.get(computation, ())
        return callers[0] if len(callers) == 1 else None

    # -- back ---------------------------------------------------------------------------------

    def definition(self, instruction: HloInstruction, index: Index = ()) -> Value:
        """The value that the part at `index` of a result is: the same array, and the instruction that makes it, in
        whichever computation. A value that merges others, as the state of a loop does, is made by the loop, or by the
        parameter of its body.

        >>> from xlashape.hlo import HloModule
        >>> text = '''HloModule m
        ... body { s = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 j = s32[] negate(i)
        ...   x = f32[8] get-tuple-element(s), index=1 ROOT r = (s32[], f32[8]) tuple(j, x) }
        ... cond { s = (s32[], f32[8]) parameter(0) ROOT c = pred[] constant(false) }
        ... ENTRY e { a = s32[] parameter(0) b = f32[8] parameter(1) t = (s32[], f32[8]) tuple(a, b)
        ...   ROOT w = (s32[], f32[8]) while(t), condition=cond, body=body }'''
        >>> module = HloModule.parse(text)
        >>> [Flow(module).definition(module.entry.root, (number,)).instruction.name for number in (0, 1)]
        ['w', 'b']
        """
        value = Value(instruction, index)
        while (before := self._before(value)) is not None:
            spend()
            value = before
        return value

    def source(self, instruction: HloInstruction, index: Index = ()) -> tuple[Value, tuple[HloInstruction, ...]]:
        """As `definition`, but a loop is not passed; and the bitcasts on the way from there, the last one first. Stops
        after 400 steps, since the path may be long.

        >>> from xlashape.hlo import HloModule
        >>> text = '''HloModule m ENTRY e { p = f32[8] parameter(0) b = f32[2,4] bitcast(p) t = (f32[2,4]) tuple(b)
        ... ROOT g = f32[2,4] get-tuple-element(t), index=0 }'''
        >>> module = HloModule.parse(text)
        >>> Flow(module).source(module.entry.root)
        (Value(instruction=<HloInstruction 'p': parameter>, at=()), (<HloInstruction 'b': bitcast>,))
        """
        bitcasts: list[HloInstruction] = []
        value = Value(instruction, index)
        for _ in range(_MOST_STEPS):
            spend()
            before = handed_on_from(*value) or self._from_other_computation(value)
            if before is None:
                break
            if value.instruction.opcode == Opcode.BITCAST:
                bitcasts.append(value.instruction)
            value = before
        return value, tuple(bitcasts)

    def memory(self, instruction: HloInstruction, index: Index = ()) -> Value:
        """The value whose memory the part at `index` of a result is in, whatever the compiler decides: as `definition`,
        but loops are passed, which work in the memory of their initial state, and declared aliases. A computation that
        several instructions call is not entered.

        >>> from xlashape.hlo import HloModule
        >>> text = (
        ...     "HloModule m ENTRY e { p = f32[8] parameter(0) b = f32[2,4] bitcast(p) ROOT t = (f32[2,4]) tuple(b) }"
        ... )
        >>> module = HloModule.parse(text)
        >>> Flow(module).memory(module.entry.root, (0,))
        Value(instruction=<HloInstruction 'p': parameter>, at=())
        """
        value = Value(instruction, index)
        while True:
            spend()
            before = handed_on_from(*value) or declared_alias(*value)
            if before is None:
                made = value.instruction
                if made.kind.row.source is ResultSource.STATE:
                    before = Value(made.operands[0], value.at) if made.operands else None
                elif all(self.caller(called) is made for called in made.called_computations):
                    before = self._from_other_computation(value)
            if before is None:
                return value
            value = before

    def _before(self, value: Value) -> Value | None:
        """The value that a value is, one step back."""
        before = handed_on_from(*value) or self._from_other_computation(value)
        if before is not None:
            return before
        loop = value.instruction
        source = loop.kind.row.source
        if source is ResultSource.ARGUMENT:
            caller = self.caller(loop.computation)
            if caller is None:
                return None
            loop, source = caller, caller.kind.row.source
        if source is ResultSource.STATE and loop.operands and self.is_unchanged(loop, value.at):
            return Value(loop.operands[0], value.at)
        return None

    def _from_other_computation(self, value: Value) -> Value | None:
        """The value that a result is of a computation that was called, or that an argument is of the caller; None in a
        loop's computations, or where there is not one caller."""
        instruction, index = value
        row = instruction.kind.row
        if row.source is ResultSource.ARGUMENT:
            operand = self._argument(instruction)
            return None if operand is None else Value(operand, index)
        called = instruction.called_computations if row.source is ResultSource.CALLED or row.async_step else ()
        if row.source is ResultSource.CALLED and called:
            return Value(called[0].root, index)
        if row.async_step is AsyncStep.START and called and index[:1] == (1,):
            return Value(called[0].root, index[1:])
        return None

    def _argument(self, parameter: HloInstruction) -> HloInstruction | None:
        """The operand of the caller that a parameter of a computation stands for; None in a loop's computations, or
        where there is not one caller.
        """
        caller = self.caller(parameter.computation)
        if caller is None:
            return None
        arguments, number = caller.kind.row.calls.arguments, parameter.parameter_number
        if arguments is Arguments.ONE_OPERAND_EACH:
            branches = caller.called_computations
            if branches.count(parameter.computation) != 1:
                return None
            number = 1 + branches.index(parameter.computation)
        elif arguments is not Arguments.OPERANDS:
            return None
        return caller.operands[number] if 0 <= number < len(caller.operands) else None

    def is_unchanged(self, loop: HloInstruction, index: Index) -> bool:
        """Whether each iteration of a loop returns the part of the state at `index` as it was given."""
        return self.carried_from(loop, index) == index

    def carried_from(self, loop: HloInstruction, index: Index) -> Index | None:
        """Where in the state an iteration of a loop is given the part that it returns at `index`; None where it makes
        that part.

        >>> from xlashape.hlo import HloModule
        >>> text = '''HloModule m
        ... body { s = (f32[8], f32[8], f32[8]) parameter(0) x = f32[8] get-tuple-element(s), index=0
        ...   y = f32[8] get-tuple-element(s), index=1 n = f32[8] negate(y)
        ...   ROOT r = (f32[8], f32[8], f32[8]) tuple(y, y, n) }
        ... cond { s = (f32[8], f32[8], f32[8]) parameter(0) ROOT c = pred[] constant(false) }
        ... ENTRY e { t = (f32[8], f32[8], f32[8]) parameter(0)
        ...   ROOT w = (f32[8], f32[8], f32[8]) while(t), condition=cond, body=body }'''
        >>> module = HloModule.parse(text)
        >>> [Flow(module).carried_from(module.entry.root, (number,)) for number in range(3)]
        [(1,), (1,), None]
        """
        known = self._carried
        asked: list[tuple[Value, Value]] = [(Value(loop, index), Value(loop, index))]
        while asked:
            spend()
            about, value = asked.pop()
            if about in known:
                continue
            bodies = about.instruction.called_computations[:1]
            if about == value:
                if not bodies:
                    known[about] = None
                    continue
                value = Value(bodies[0].root, about.at)
            before = handed_on_from(*value) or self._from_other_computation(value)
            if before is None:
                if value.instruction.kind.row.source is ResultSource.STATE and value.instruction.operands:
                    if value not in known:
                        asked += [(about, value), (value, value)]  # the inner loop first
                        continue
                    before = Value(value.instruction.operands[0], value.at) if known[value] == value.at else None
                if before is None:
                    is_state = bodies[0].parameters[:1] == (value.instruction,)
                    known[about] = value.at if is_state else None
                    continue
            asked.append((about, before))
        return known[Value(loop, index)]

    # -- forward ------------------------------------------------------------------------------

    def uses(self, instruction: HloInstruction, index: Index = ()) -> list[ValueUse]:
        """The uses of the part at `index` of a result, the nearest ones first; at most 64, within 400 steps.

        >>> from xlashape.hlo import HloModule
        >>> text = '''HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p)
        ... ROOT t = (f32[8], f32[8]) tuple(n, p) }'''
        >>> module = HloModule.parse(text)
        >>> [(use.user.name, use.role.value, use.at) for use in Flow(module).uses(module.instruction("p"))]
        [('n', 'operand', ()), ('t', 'output', (1,))]
        """
        known = self._uses.get(Value(instruction, index))
        if known is not None:
            return known
        found: list[ValueUse] = []
        pending: deque[tuple[HloInstruction, Index, tuple[HloInstruction, ...]]] = deque([(instruction, index, ())])
        seen = {(instruction, index)}

        def go(to: HloInstruction, at: Index, bitcasts: tuple[HloInstruction, ...]) -> None:
            if (to, at) not in seen:
                seen.add((to, at))
                pending.append((to, at, bitcasts))

        for _ in range(_MOST_STEPS):
            if not pending or len(found) >= MOST_USES:
                break
            value, at, bitcasts = pending.popleft()
            spend(1)
            for user in value.users[:MOST_USES]:
                source, numbers = user.kind.row.source, self._operand_numbers(user, value)
                if source is ResultSource.CALLED and user.called_computations:
                    parameters = user.called_computations[0].parameters
                    for number in numbers:
                        if number < len(parameters):
                            go(parameters[number], at, bitcasts)
                elif source in (ResultSource.OPERAND, ResultSource.ELEMENT, ResultSource.OPERANDS):
                    passed = (*bitcasts, user) if user.opcode == Opcode.BITCAST else bitcasts
                    for number in numbers:
                        passed_at = handed_on_to(user, number, at)
                        if passed_at is not None:
                            go(user, passed_at, passed)
                else:
                    found += [ValueUse(user, Role.OPERAND, number, at, bitcasts) for number in numbers]
            if value.is_root:
                self._leave(value, at, bitcasts, found, go)
        self._uses[Value(instruction, index)] = found = found[:MOST_USES]
        return found

    def _operand_numbers(self, user: HloInstruction, operand: HloInstruction) -> list[int]:
        """Which operands of `user` are the instruction `operand`, at most 64. Many are looked up in a table, since a
        tuple may have thousands of operands.
        """
        if len(user.operands) <= _FEW:
            return [number for number, each in enumerate(user.operands) if each is operand]
        found = self._positions.get(user)
        if found is None:
            found = self._positions[user] = {}
            for number, each in enumerate(user.operands):
                found.setdefault(each, []).append(number)
        return found.get(operand, [])[:MOST_USES]

    def _leave(
        self,
        root: HloInstruction,
        at: Index,
        bitcasts: tuple[HloInstruction, ...],
        found: list[ValueUse],
        go: Callable[[HloInstruction, Index, tuple[HloInstruction, ...]], None],
    ) -> None:
        """Follows a value out of a computation whose result has it at `at`. It is then an output of the module, or the
        result of a loop or conditional that calls the computation: both are added to `found`. As the result of another
        caller it is followed further, by `go`.
        """
        computation = root.computation
        if computation is computation.module.entry:
            found.append(ValueUse(root, Role.OUTPUT, 0, at, bitcasts))
        for caller in self.callers.get(computation, [])[:MOST_USES]:
            row = caller.kind.row
            if row.source is ResultSource.STATE:
                if caller.called_computations[:1] == (computation,):
                    found.append(ValueUse(caller, Role.CARRY, 0, at, bitcasts))
            elif row.source is ResultSource.BRANCH:
                found.append(ValueUse(caller, Role.BRANCH, 0, at, bitcasts))
            elif row.async_step is AsyncStep.START:
                go(caller, (1, *at), bitcasts)
            else:
                go(caller, at, bitcasts)

    def written_in_place(self, use: ValueUse) -> Index | None:
        """Where in the user's result the updated value is, if the user updates the used value in its memory; None if it
        does not. Loops work in the memory of their initial state.
        """
        if use.role is not Role.OPERAND:
            return None
        if use.user.kind.row.source is ResultSource.STATE:
            return use.at
        for each in in_place(use.user):
            if each.operand == use.operand and each.at == use.at:
                return each.result
        return None
