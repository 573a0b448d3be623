"""Where a value comes from and what uses it. `Flow.source` and `Flow.uses` follow the value through everything that
leaves it where it is in memory: tuples and their elements, bitcasts, barriers and calls. They also follow it out of
other computations: `source` from a parameter of a branch or of an asynchronous operation to the operand, `uses` from
the result of an asynchronous operation to its users.

Both stop after _MOST_STEPS steps, and `uses` also at _MOST_USES uses, so that their time is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from xlashape.hlo import HloComputation, HloInstruction, HloModule, Opcode
from xlashape.hlo.analysis.buffers import executed_computations
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend

_MOST_STEPS: Final = 400
_MOST_USES: Final = 64
_PASSES: Final = frozenset(
    [Opcode.BITCAST, Opcode.OPT_BARRIER, Opcode.DOMAIN, Opcode.ADD_DEPENDENCY, Opcode.ALL_REDUCE_DONE]
)
"""The result of these opcodes has the elements of their first operand, in the same memory."""
_DONES: Final = {Opcode.COPY_DONE: 0, Opcode.ASYNC_DONE: 1}
"""End of an asynchronous operation → which element of the result of its start is the result of the end."""

Index = tuple[int, ...]


class Value(NamedTuple):
    """An array: the instruction that makes it, and where the array is in the result of that."""

    instruction: HloInstruction
    at: Index
    """The index in a nested tuple; empty where the result is the array itself."""


class Role(Enum):
    """How a value is used."""

    OPERAND = "operand"
    OUTPUT = "output"
    """The value is an output of the module."""
    CARRY = "carry"
    """The value is an element of the state that the body of a loop returns."""
    BRANCH = "branch"
    """The value is an element of the result of a branch."""


class Use(NamedTuple):
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


class Flow:
    """Follows values through a module."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.executed = executed_computations(module)
        aliases = module.head.input_output_alias.entries
        self.donated = {alias.parameter_number: tuple(alias.output_shape_index) for alias in aliases}
        """Number of a donated parameter → the index of the output that takes over its memory."""
        self.taken = set(self.donated.values())
        """The indices of the outputs that take over the memory of parameters."""
        self._uses: dict[tuple[HloInstruction, Index], list[Use]] = {}
        self._positions: dict[HloInstruction, dict[HloInstruction, list[int]]] = {}
        self.callers: dict[HloComputation, list[HloInstruction]] = {each: [] for each in self.executed}
        """Executed computation → the instructions that call it, each once."""
        for computation in self.executed:
            for instruction in computation.instructions:
                spend(1)
                if operation_of(instruction.fields.opcode).runs_called_instructions:
                    if instruction.opcode in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE):
                        continue
                    for called in dict.fromkeys(instruction.called_computations):
                        self.callers[called].append(instruction)

    def caller(self, computation: HloComputation) -> HloInstruction | None:
        """The instruction that calls a computation; None where several do, or none."""
        callers = self.callers.get(computation, [])
        return callers[0] if len(callers) == 1 else None

    def source(self, instruction: HloInstruction, index: Index = ()) -> tuple[Value, tuple[HloInstruction, ...]]:
        """Where the array at `index` of an instruction's result is made, and the bitcasts on the way from there, the
        last one first.

        >>> text = '''HloModule m ENTRY e { p = f32[8] parameter(0) b = f32[2,4] bitcast(p) t = (f32[2,4]) tuple(b)
        ... ROOT g = f32[2,4] get-tuple-element(t), index=0 }'''
        >>> module = HloModule.parse(text)
        >>> Flow(module).source(module.entry.root)
        (Value(instruction=<HloInstruction 'p': parameter>, at=()), (<HloInstruction 'b': bitcast>,))
        """
        bitcasts: list[HloInstruction] = []
        for _ in range(_MOST_STEPS):
            spend(1)
            opcode, operands = instruction.opcode, instruction.operands
            if opcode == Opcode.TUPLE and index and index[0] < len(operands):
                instruction, index = operands[index[0]], index[1:]
            elif opcode == Opcode.GET_TUPLE_ELEMENT and operands:
                instruction, index = operands[0], (instruction.fields.tuple_index, *index)
            elif opcode in _PASSES and operands:
                if opcode == Opcode.BITCAST:
                    bitcasts.append(instruction)
                instruction = operands[0]
            elif opcode == Opcode.CALL and instruction.called_computations:
                instruction = instruction.called_computations[0].root
            elif opcode == Opcode.PARAMETER and (before := self._argument(instruction)) is not None:
                instruction = before
            else:
                break
        return Value(instruction, index), tuple(bitcasts)

    def _argument(self, parameter: HloInstruction) -> HloInstruction | None:
        """The operand of the caller that a parameter of a computation stands for; None in a loop's computations, or
        where there is not one caller.
        """
        caller = self.caller(parameter.computation)
        if caller is None:
            return None
        number = parameter.fields.parameter_number
        if caller.opcode == Opcode.CONDITIONAL:
            branches = caller.called_computations
            if branches.count(parameter.computation) != 1:
                return None
            number = 1 + branches.index(parameter.computation)
        elif caller.opcode not in (Opcode.CALL, Opcode.ASYNC_START):
            return None
        return caller.operands[number] if 0 <= number < len(caller.operands) else None

    def uses(self, instruction: HloInstruction, index: Index = ()) -> list[Use]:
        """The uses of the array at `index` of an instruction's result, the nearest ones first; at most 64.

        >>> text = '''HloModule m ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p)
        ... ROOT t = (f32[8], f32[8]) tuple(n, p) }'''
        >>> module = HloModule.parse(text)
        >>> [(use.user.name, use.role.value, use.at) for use in Flow(module).uses(module.instruction("p"))]
        [('n', 'operand', ()), ('t', 'output', (1,))]
        """
        known = self._uses.get((instruction, index))
        if known is not None:
            return known
        found: list[Use] = []
        pending: deque[tuple[HloInstruction, Index, tuple[HloInstruction, ...]]] = deque([(instruction, index, ())])
        seen = {(instruction, index)}

        def go(to: HloInstruction, at: Index, bitcasts: tuple[HloInstruction, ...]) -> None:
            if (to, at) not in seen:
                seen.add((to, at))
                pending.append((to, at, bitcasts))

        for _ in range(_MOST_STEPS):
            if not pending or len(found) >= _MOST_USES:
                break
            value, at, bitcasts = pending.popleft()
            spend(1)
            for user in value.users[:_MOST_USES]:
                opcode = user.opcode
                if opcode == Opcode.TUPLE:
                    for number in self._operand_numbers(user, value):
                        go(user, (number, *at), bitcasts)
                elif opcode == Opcode.GET_TUPLE_ELEMENT:
                    if not at or at[0] == user.fields.tuple_index:
                        go(user, at[1:], bitcasts)
                elif opcode in _PASSES:
                    go(user, at, (*bitcasts, user) if opcode == Opcode.BITCAST else bitcasts)
                elif isinstance(opcode, Opcode) and opcode in _DONES:
                    if not at or at[0] == _DONES[opcode]:
                        go(user, at[1:], bitcasts)
                elif opcode == Opcode.CALL and user.called_computations:
                    parameters = user.called_computations[0].parameters
                    for number in self._operand_numbers(user, value):
                        if number < len(parameters):
                            go(parameters[number], at, bitcasts)
                else:
                    numbers = self._operand_numbers(user, value)
                    found += [Use(user, Role.OPERAND, number, at, bitcasts) for number in numbers]
            if value.is_root:
                self._leave(value, at, bitcasts, found, go)
        self._uses[instruction, index] = found = found[:_MOST_USES]
        return found

    def _operand_numbers(self, user: HloInstruction, operand: HloInstruction) -> list[int]:
        """Which operands of `user` are the instruction `operand`, at most 64. They are looked up in a table, since a
        tuple may have thousands of operands.
        """
        found = self._positions.get(user)
        if found is None:
            found = self._positions[user] = {}
            for number, each in enumerate(user.operands):
                found.setdefault(each, []).append(number)
        return found.get(operand, [])[:_MOST_USES]

    def _leave(
        self,
        root: HloInstruction,
        at: Index,
        bitcasts: tuple[HloInstruction, ...],
        found: list[Use],
        go: Callable[[HloInstruction, Index, tuple[HloInstruction, ...]], None],
    ) -> None:
        """Follows a value out of a computation whose result has it at `at`. It is then an output of the module, or the
        result of a loop or conditional that calls the computation: both are added to `found`. As the result of another
        caller it is followed further, by `go`.
        """
        computation = root.computation
        if computation is computation.module.entry:
            found.append(Use(root, Role.OUTPUT, 0, at, bitcasts))
        for caller in self.callers.get(computation, [])[:_MOST_USES]:
            if caller.opcode == Opcode.WHILE:
                if caller.called_computations[:1] == (computation,):
                    found.append(Use(caller, Role.CARRY, 0, at, bitcasts))
            elif caller.opcode == Opcode.CONDITIONAL:
                found.append(Use(caller, Role.BRANCH, 0, at, bitcasts))
            elif caller.opcode == Opcode.ASYNC_START:
                go(caller, (1, *at), bitcasts)
            else:
                go(caller, at, bitcasts)

    def written_in_place(self, use: Use) -> Index | None:
        """Where in the user's result the updated value is, if the user updates the used value in its memory; None if it
        does not.

        Loops work in the memory of their initial state. dynamic-update-slice, scatter, custom calls that declare it,
        and fusions whose result is such an update work in the memory of an operand.
        """
        user, opcode = use.user, use.user.opcode
        if use.role is not Role.OPERAND:
            return None
        if opcode == Opcode.WHILE:
            return use.at
        if opcode == Opcode.DYNAMIC_UPDATE_SLICE:
            return () if use.operand == 0 else None
        if opcode == Opcode.SCATTER:
            arrays = (len(user.operands) - 1) // 2
            return None if use.operand >= arrays else (use.operand,) if user.shape.is_tuple else ()
        for alias in user.output_operand_aliasing:
            if alias.operand_index == use.operand and tuple(alias.operand_shape_index) == use.at:
                return tuple(alias.output_shape_index)
        if opcode == Opcode.FUSION and user.called_computations:
            return _updated(user, use.operand)
        return None


def _updated(fusion: HloInstruction, operand: int) -> Index | None:
    """Where in the result of a fusion an operand is updated in place; None where it is not."""
    called = fusion.called_computations[0]
    if operand >= len(called.parameters):
        return None
    root = called.root
    roots = root.operands if root.opcode == Opcode.TUPLE else (root,)
    for number, each in enumerate(roots):
        update = _through_bitcasts(each)
        if update.opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER) and update.operands:
            if _through_bitcasts(update.operands[0]) is called.parameters[operand]:
                return (number,) if root.opcode == Opcode.TUPLE else ()
    return None


def _through_bitcasts(instruction: HloInstruction) -> HloInstruction:
    for _ in range(_MOST_STEPS):
        if instruction.opcode != Opcode.BITCAST or not instruction.operands:
            break
        instruction = instruction.operands[0]
    return instruction
