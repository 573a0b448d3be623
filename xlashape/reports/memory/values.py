"""The values of a program: which results of instructions are one value, which values must share memory, and from when
to when each lives.

The rules are those of XLA's HloDataflowAnalysis, HloAliasAnalysis and HloLiveRange. A value is an array that some
instruction makes. Tuples, their elements, bitcasts, barriers, parameters of called computations and the ends of
asynchronous operations pass values on. Where several values can arrive (the state of a loop, the result of a
conditional), a further value merges them, and shares their memory where that may be overwritten. Results that are
computed in place of an operand share its memory too: those of dynamic-update-slice and scatter, of fusions that end
with one, of instructions whose output is declared to alias an operand, and outputs of the program in donated
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import cached_property
from typing import NamedTuple

from xlashape.hlo.flow import Flow, in_place
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, InPlace, ResultSource
from xlashape.limits import spend
from xlashape.reports.memory.schedule import FlatSchedule, array_bytes
from xlashape.reports.why.causes import on_target
from xlashape.shape import Shape, Target
from xlashape.shape.xla_util.shape_util import byte_size_of


class Leaf(NamedTuple):
    """An array of a shape, or another part that is no tuple, such as a token. Instructions of equal shapes share the
    object."""

    shape_index: tuple[int, ...]
    """The index of the array in the shape."""
    shape: Shape
    """The shape of the array alone."""
    bytes: int
    """The bytes of its buffer, padding of tiles included; 0 where it has no known size."""
    flat_bytes: int | None
    """The bytes of its elements without tiles; None where it has no tiles."""
    space: int
    """The memory space that its layout names."""


class ValueRanges(NamedTuple):
    """The values of a module, arrays that instructions make. A value is a number: its position in `instructions`,
    `leaves`, `begins`, `ends`, `sure_ends` and `buffers`."""

    instructions: Sequence[HloInstruction]
    """The instruction that makes each value."""
    leaves: Sequence[Leaf]
    """Which array of the instruction's result each value is."""
    merged: Set[int]
    """The values that merge others, such as the state of a loop."""
    begins: Sequence[int]
    """When each value is made: a time of the schedule."""
    ends: Sequence[int]
    """When each value is used for the last time."""
    sure_ends: Sequence[int]
    """When each value is certainly used for the last time. By `ends` a call uses its operands until it ends, but XLA
    does not always keep them as long: here, only the instructions of the called computation use them."""
    buffers: Sequence[int]
    """For each value the first of the values that must share memory with it: the value itself if none comes before."""
    results: Sequence[int]
    """The values of the program's result, in the order of its arrays."""
    of: dict[HloInstruction, tuple[int, ...]]
    """The values of each instruction's result, in the order of its arrays."""
    aliased: frozenset[int]
    """The buffers of parameters that the module says hold a part of the result."""


def value_ranges(module: HloModule, schedule: FlatSchedule, target: Target | None = None) -> ValueRanges:
    """The values of a module whose instructions run in the order of `schedule`. Their sizes and layouts are those of
    the target, if one is given."""
    return _Values(module, schedule, target).ranges()


class _Values:
    """Finds the values of a module."""

    def __init__(self, module: HloModule, schedule: FlatSchedule, target: Target | None) -> None:
        self._target = target
        self._module = module
        self._schedule = schedule
        self._instructions: list[HloInstruction] = []
        self._made_leaves: list[Leaf] = []
        self._merged: set[int] = set()
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._sure_ends: list[int] = []
        self._above: list[int] = []
        self._of: dict[HloInstruction, tuple[int, ...]] = {}
        self._leaves: dict[Shape, tuple[Leaf, ...]] = {}
        self._numbers: dict[Shape, dict[tuple[int, ...], int]] = {}
        self._aliased: list[int] = []
        self._states: dict[HloInstruction, dict[int, int]] = {}
        self._callers: dict[HloComputation, HloInstruction] = {}
        self._constant_state: dict[HloInstruction, frozenset[int]] = {}
        self._donated = frozenset(
            [
                (alias.parameter_number, tuple(alias.parameter_shape_index))
                for alias in module.head.input_output_alias.entries
            ]
        )
        flow: Flow | None = None
        for instruction in schedule.instructions:
            row = instruction.kind.row
            if row.runs_called_instructions:
                for called in instruction.called_computations:
                    self._callers.setdefault(called, instruction)
                if row.source is ResultSource.STATE:
                    flow = flow or Flow(module)
                    self._constant_state[instruction] = frozenset(
                        [
                            number
                            for number, leaf in enumerate(self.leaves(instruction.shape))
                            if flow.is_unchanged(instruction, leaf.shape_index)
                        ]
                    )

    def leaves(self, shape: Shape) -> tuple[Leaf, ...]:
        """The arrays of a shape. Equal shapes of a module are the same object."""
        found = self._leaves.get(shape)
        if found is None:
            if not shape.is_tuple:
                found = (_leaf(shape, self._target),)
            else:
                found = tuple(
                    [
                        leaf._replace(shape_index=(number, *leaf.shape_index))
                        for number, element in enumerate(shape.tuple_shapes)
                        for leaf in self.leaves(element)
                    ]
                )
            self._leaves[shape] = found
        return found

    def _new(self, instruction: HloInstruction, leaves: Sequence[Leaf], time: int) -> tuple[int, ...]:
        """New values that begin at a time: one for each of these arrays of the instruction's result."""
        count, known, times = len(leaves), len(self._above), [time] * len(leaves)
        self._instructions += [instruction] * count
        self._made_leaves += leaves
        self._begins += times
        self._ends += times
        self._sure_ends += times
        found = tuple(range(known, known + count))
        self._above += found
        return found

    def _merging(self, instruction: HloInstruction, number: int, time: int) -> int:
        """A new value that merges others: the array of this number in the instruction's result."""
        (value,) = self._new(instruction, self.leaves(instruction.shape)[number : number + 1], time)
        self._merged.add(value)
        return value

    def _buffer(self, value: int) -> int:
        """The first of the values that must share memory with a value."""
        above = self._above
        while above[value] != value:
            above[value] = above[above[value]]
            value = above[value]
        return value

    def _unite(self, a: int, b: int) -> None:
        """Notes that two values must share memory."""
        a, b = self._buffer(a), self._buffer(b)
        if a != b:
            self._above[max(a, b)] = min(a, b)

    # -- results of instructions --------------------------------------------------------------

    def ranges(self) -> ValueRanges:
        """The values, when each lives, and which share memory."""
        ends, sure, of, spans = self._ends, self._sure_ends, self._of, self._schedule.spans
        instructions, leaves, begins, above = self._instructions, self._made_leaves, self._begins, self._above
        only: dict[Kind, Leaf | None] = {}
        """By kind, the only array of a result that is a new value, and uses its operands when it is made; else None."""
        for time, instruction in enumerate(self._schedule.instructions):
            kind = instruction.kind
            leaf = only.get(kind)
            if leaf is None and kind not in only:
                leaf = only[kind] = self._only(instruction)
            if leaf is not None:
                # The same as below, inlined for speed: most instructions come here.
                for operand in instruction.operands:
                    for value in of[operand]:
                        if ends[value] < time:
                            ends[value] = time
                        if sure[value] < time:
                            sure[value] = time
                of[instruction] = (len(above),)
                above.append(len(above))
                instructions.append(instruction)
                leaves.append(leaf)
                begins.append(time)
                ends.append(time)
                sure.append(time)
                continue
            source, used = kind.row.source, time
            if source is ResultSource.STATE and instruction.called_computations:
                # The initial value of a loop becomes its state when the body begins, and need not live beside it.
                used = spans[instruction.called_computations[0]][0]
            for operand in instruction.operands if source is not ResultSource.ELEMENT else ():
                for value in of[operand]:
                    ends[value] = max(ends[value], used)
                    if source is not ResultSource.CALLED:
                        sure[value] = max(sure[value], used)
            of[instruction] = (self._made if source is ResultSource.COMPUTED else self._result)(instruction, time)
        spend(len(of))
        entry = self._module.entry.root, len(self._schedule.instructions)
        for root, end in (*[(computation.root, last) for computation, (_, last) in spans.items()], entry):
            for value in of[root]:
                ends[value] = max(ends[value], end)
                sure[value] = max(sure[value], end)
        self._donate()
        return ValueRanges(
            self._instructions,
            self._made_leaves,
            self._merged,
            self._begins,
            ends,
            sure,
            [value if value == above else self._buffer(value) for value, above in enumerate(self._above)],
            of[self._module.entry.root],
            of,
            frozenset([self._buffer(value) for value in self._aliased]),
        )

    def _only(self, instruction: HloInstruction) -> Leaf | None:
        """The array of a result that is a new value and no tuple, in memory of its own; None of any other result."""
        row, shape = instruction.kind.row, instruction.shape
        is_handed_on = row.source is not ResultSource.COMPUTED or row.in_place is not InPlace.NO
        return None if is_handed_on or shape.is_tuple or instruction.output_operand_aliasing else self.leaves(shape)[0]

    def _result(self, instruction: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of the result of an instruction that may pass its operands on."""
        row, operands, called = instruction.kind.row, instruction.operands, instruction.called_computations
        source, count = row.source, len(self.leaves(instruction.shape))
        if source is ResultSource.OPERANDS:
            return tuple([value for operand in operands for value in self._of[operand]])
        if source is ResultSource.ELEMENT and operands:
            return self._element(operands[0], instruction.kind.tuple_index, count)
        if row.async_step is AsyncStep.UPDATE and operands and len(self._of[operands[0]]) != count:
            return self._updated(instruction, time)
        if source is ResultSource.OPERAND and operands:
            found = self._element(operands[0], row.same.operand[0], None) if row.same.operand else self._of[operands[0]]
            if len(found) == count:
                return found
            if row.same.result:
                return self._begun(instruction, row.same.result, found, time)
        if source is ResultSource.ARGUMENT and instruction.computation is not self._module.entry:
            return self._argument(instruction, time)
        if source is ResultSource.STATE and operands and called:
            return self._loop(instruction, time)
        if source is ResultSource.BRANCH and called:
            return self._branches(instruction, time)
        if source is ResultSource.CALLED and called:
            given = self._of.get(called[0].root, ())
            return given if len(given) == count else self._made(instruction, time)
        return self._made(instruction, time)

    def _begun(
        self, instruction: HloInstruction, part: tuple[int, ...], given: Sequence[int], time: int
    ) -> tuple[int, ...]:
        """The values of a result of which one part is given, as the data of a recv-done is by its recv."""
        found: list[int] = []
        rest = list(given)
        for leaf in self.leaves(instruction.shape):
            is_given = leaf.shape_index[: len(part)] == part and bool(rest)
            found.append(rest.pop(0) if is_given else self._new(instruction, (leaf,), time)[0])
        return tuple(found)

    def _element(self, operand: HloInstruction, number: int, count: int | None) -> tuple[int, ...]:
        """The values of an element of a tuple. If the operand is no tuple that has the element, its own first `count`
        values."""
        shape, values = operand.shape, self._of[operand]
        if not shape.is_tuple or not 0 <= number < len(shape.tuple_shapes):
            return values if count is None else values[:count]
        first = sum([len(self.leaves(each)) for each in shape.tuple_shapes[:number]])
        return values[first : first + len(self.leaves(shape.tuple_shapes[number]))]

    def _updated(self, update: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of the state that an async-update returns. To its first operand, the state so far, it may add its
        other operands, or new values as further elements."""
        state = update.operands[0]
        brought = [value for operand in update.operands[1:] for value in self._of[operand]]
        known = {
            0: [*self._element(state, 0, None), *brought],
            1: [*self._element(state, 1, None)],
            2: [
                value
                for number in range(2, len(state.shape.tuple_shapes))
                for value in self._element(state, number, None)
            ],
        }
        found: list[int] = []
        for leaf in self.leaves(update.shape):
            values = known[min(leaf.shape_index[0], 2)] if leaf.shape_index else []
            found.append(values.pop(0) if values else self._new(update, (leaf,), time)[0])
        return tuple(found)

    def _made(self, instruction: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a result: new ones, except that an asynchronous start repeats operands. Values that are
        computed in place share their operand's memory."""
        row = instruction.kind.row
        if row.repeated_operand is not None:
            found = self._started(instruction, row.repeated_operand, time)
        else:
            found = self._new(instruction, self.leaves(instruction.shape), time)
        if row.in_place is not InPlace.NO or instruction.output_operand_aliasing:
            for number, operand, leaf in self._in_place(instruction):
                values = self._of[instruction.operands[operand]] if operand < len(instruction.operands) else ()
                if number < len(found) and leaf < len(values) and self._may_be_overwritten(values[leaf], time):
                    self._unite(found[number], values[leaf])
        return found

    def _started(self, start: HloInstruction, repeated: int, time: int) -> tuple[int, ...]:
        """The values of the result of an asynchronous start, whose element number `repeated` has the operands again."""
        leaves = self.leaves(start.shape)
        given = [value for operand in start.operands for value in self._of[operand]]
        found: list[int] = []
        started: tuple[int, ...] = ()
        if start.kind.row.async_step is AsyncStep.START and start.called_computations:
            started = self._of.get(start.called_computations[0].root, ())
        for number, leaf in enumerate(leaves):
            index = leaf.shape_index
            if started and index and index[0] == 1:
                before = sum([each.shape_index[0] == 1 for each in leaves[:number]])
                if before < len(started):
                    found.append(started[before])
                    continue
            if index and index[0] == repeated and given:
                before = sum([each.shape_index[0] == repeated for each in leaves[:number]])
                found.append(given[min(before, len(given) - 1)])
            else:
                found += self._new(start, (leaf,), time)
        return tuple(found)

    def _may_be_overwritten(self, value: int, time: int) -> bool:
        """Whether the memory of a value may hold another value after a time. XLA copies values for which this is false;
        a module before optimization does not have these copies yet."""
        made = self._instructions[value]
        if made.opcode == Opcode.CONSTANT:
            return False
        if made.opcode == Opcode.PARAMETER and made.computation is self._module.entry:
            return (made.parameter_number, self._made_leaves[value].shape_index) in self._donated
        return self._last_uses.get(made, -1) <= time

    @cached_property
    def _last_uses(self) -> dict[HloInstruction, int]:
        """When each instruction is an operand for the last time."""
        return {
            operand: time
            for time, instruction in enumerate(self._schedule.instructions)
            for operand in instruction.operands
        }

    def _in_place(self, instruction: HloInstruction) -> list[tuple[int, int, int]]:
        """The arrays of the result that are computed in the memory of an operand's array, as (number of the array in
        the result, number of the operand, number of the array in the operand)."""
        found: list[tuple[int, int, int]] = []
        for each in in_place(instruction):
            output = self._number(instruction.shape, each.result)
            leaf = self._number(instruction.operands[each.operand].shape, each.at)
            if output is not None and leaf is not None:
                found.append((output, each.operand, leaf))
        return found

    def _number(self, shape: Shape, index: tuple[int, ...]) -> int | None:
        """The number of the array at an index of a shape, among all arrays of the shape."""
        numbers = self._numbers.get(shape)
        if numbers is None:
            numbers = {leaf.shape_index: number for number, leaf in enumerate(self.leaves(shape))}
            self._numbers[shape] = numbers
        return numbers.get(index)

    # -- called computations ------------------------------------------------------------------

    def _argument(self, parameter: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a parameter of a called computation: those of the caller's operand. For a loop, values that
        merge the initial state and what the body returns, except where the body returns an array unchanged."""
        caller = self._callers.get(parameter.computation)
        number = parameter.parameter_number
        arguments = None if caller is None else caller.kind.row.calls.arguments
        if caller is not None and arguments is Arguments.ONE_OPERAND_EACH:
            number = 1 + caller.called_computations.index(parameter.computation)
        if caller is None or number >= len(caller.operands):
            return self._made(parameter, time)
        given = self._of[caller.operands[number]]
        if len(given) != len(self.leaves(parameter.shape)):
            return self._made(parameter, time)
        if arguments is not Arguments.CARRIED:
            return given
        last = self._time_of(caller)
        found: list[int] = []
        for leaf, value in enumerate(given):
            if leaf in self._constant_state[caller]:
                found.append(value)
                continue
            merged = self._merging(parameter, leaf, time)
            if self._may_be_overwritten(value, last):
                self._unite(merged, value)
            self._states.setdefault(caller, {}).setdefault(leaf, merged)
            self._unite(merged, self._states[caller][leaf])
            found.append(merged)
        return tuple(found)

    def _time_of(self, instruction: HloInstruction) -> int:
        return self._schedule.times.get(instruction, len(self._schedule.instructions))

    def _loop(self, loop: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a while loop's result: of an array that the body returns unchanged the initial value, else a
        value that merges it with what the body returns.
        """
        body = loop.called_computations[0]
        given = self._of.get(body.root, ())
        states = self._states.get(loop, {})
        found: list[int] = []
        initial = self._of[loop.operands[0]]
        for leaf in range(len(self.leaves(loop.shape))):
            if leaf in self._constant_state[loop] and leaf < len(initial):
                found.append(initial[leaf])
                continue
            merged = self._merging(loop, leaf, time)
            if leaf in states:
                self._unite(merged, states[leaf])
            if leaf < len(given):
                other = given[leaf]
                is_other_state = other in self._merged and self._instructions[other].opcode == Opcode.PARAMETER
                if self._is_made_in(given[leaf], body) and not is_other_state:
                    self._unite(merged, given[leaf])
            found.append(merged)
        return tuple(found)

    def _is_made_in(self, value: int, computation: HloComputation) -> bool:
        """Whether a value is made while a computation runs, in it or in what it calls."""
        first, last = self._schedule.spans.get(computation, (0, -1))
        return first <= self._begins[value] <= last

    def _branches(self, conditional: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a conditional's result: each merges a value of every branch, and shares the memory of those
        that are made in their branch."""
        found: list[int] = []
        for leaf in range(len(self.leaves(conditional.shape))):
            merged = self._merging(conditional, leaf, time)
            for branch in conditional.called_computations:
                given = self._of.get(branch.root, ())
                if leaf < len(given) and self._is_made_in(given[leaf], branch):
                    self._unite(merged, given[leaf])
            found.append(merged)
        return tuple(found)

    def _donate(self) -> None:
        """Lets the outputs of the program that the module places in parameters share the memory of those."""
        root, parameters = self._module.entry.root, self._module.entry.parameters
        for alias in self._module.head.input_output_alias.entries:
            if not 0 <= alias.parameter_number < len(parameters):
                continue
            parameter = parameters[alias.parameter_number]
            given = self._number(parameter.shape, tuple(alias.parameter_shape_index))
            output = self._number(root.shape, tuple(alias.output_shape_index))
            values, outputs = self._of.get(parameter, ()), self._of.get(root, ())
            if given is not None and output is not None and given < len(values) and output < len(outputs):
                self._unite(values[given], outputs[output])
                self._aliased.append(values[given])


def _leaf(shape: Shape, target: Target | None) -> Leaf:
    """A shape that is no tuple as its only leaf."""
    if (shape.is_array or shape.is_buffer) and not shape.is_unbounded_dynamic:
        shape = on_target(shape, target)
    layout = shape.layout
    is_tiled = layout is not None and layout.tiles and not shape.is_unbounded_dynamic
    flat = byte_size_of(shape) if is_tiled else None
    return Leaf((), shape, array_bytes(shape, target), flat, layout.memory_space if layout is not None else 0)
