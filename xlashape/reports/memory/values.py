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

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.base.math import ceil_div
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.flow import Flow, in_place
from xlashape.hlo.kind import Kind
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, InPlace, ResultSource
from xlashape.hlo.values.sharding import Sharding
from xlashape.limits import spend
from xlashape.reports.memory.schedule import ComputationRun, FlatSchedule, array_bytes
from xlashape.reports.why.causes import on_target
from xlashape.shape import Shape, Target
from xlashape.shape.xla_util.shape_util import byte_size_of, elements_in

_RETURNING: Final = frozenset([ResultSource.CALLED, ResultSource.STATE, ResultSource.BRANCH])


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
    `leaves`, `begins`, `ends` and `buffers`."""

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
    buffers: Sequence[int]
    """For each value the first of the values that must share memory with it: the value itself if none comes before."""
    results: Sequence[int]
    """The values of the program's result, in the order of its arrays."""
    of: Mapping[ComputationRun, Mapping[HloInstruction, tuple[int, ...]]]
    """The values of the results of each run's instructions, in the order of the arrays in a result."""
    copies: Set[int]
    """Those of `results` that XLA will copy from another value."""
    holders: Mapping[int, HloInstruction]
    """For values that are handed on: the last instruction that has the value in its result. For others, that is the
    instruction that makes them. At the end of a called computation, its root counts, and not the call."""
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
        self._copies: set[int] = set()
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._above: list[int] = []
        self._all_of: dict[ComputationRun, dict[HloInstruction, tuple[int, ...]]] = {run: {} for run in schedule.runs}
        self._run = schedule.runs[0]
        """The run whose instructions are looked at, and the values of their results."""
        self._of = self._all_of[self._run]
        self._leaves: dict[Shape, tuple[Leaf, ...]] = {}
        self._firsts: dict[Shape, list[int]] = {}
        """By the shape of a tuple, how many arrays come before each element, and how many there are."""
        self._numbers: dict[Shape, dict[tuple[int, ...], int]] = {}
        self._holders: dict[int, HloInstruction] = {}
        self._aliased: list[int] = []
        self._states: dict[ComputationRun, dict[int, int]] = {}
        """By the run of a loop's body, the values that merge the state, by their numbers in the state."""
        self._uses: dict[ComputationRun, dict[HloInstruction, int]] = {}
        self._donated = frozenset(
            [
                (alias.parameter_number, tuple(alias.parameter_shape_index))
                for alias in module.head.input_output_alias.entries
            ]
        )
        self._is_raw = not schedule.is_given
        """Whether XLA's optimizations are still to come."""
        self._flow: Flow | None = None
        self._carried: dict[HloInstruction, list[int | None]] = {}

    def leaves(self, shape: Shape) -> tuple[Leaf, ...]:
        """The arrays of a shape. Equal shapes of a module are the same object."""
        found = self._leaves.get(shape)
        if found is None:
            if not shape.is_tuple:
                found = (self._leaf(shape, self._schedule.parts),)
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

    def _leaf(self, shape: Shape, parts: int) -> Leaf:
        """A shape that is no tuple as its only leaf, of which a device holds one of some equal parts."""
        if (shape.is_array or shape.is_buffer) and not shape.is_unbounded_dynamic:
            shape = on_target(shape, self._target)
        layout, size = shape.layout, array_bytes(shape, self._target)
        is_tiled = layout is not None and layout.tiles and not shape.is_unbounded_dynamic
        flat = ceil_div(byte_size_of(shape), parts) if is_tiled else None
        bits = shape.element_type.bit_width
        if self._is_raw and shape.is_array and 1 < bits < 8:
            size = min(size, ceil_div(elements_in(shape) * bits, 8))  # XLA will pack them
        return Leaf((), shape, ceil_div(size, parts), flat, layout.memory_space if layout is not None else 0)

    def _own(self, instruction: HloInstruction) -> tuple[Leaf, ...]:
        """The arrays of a result that an instruction makes. In a module that is not partitioned yet, each device holds
        the parts that the instruction's sharding gives it."""
        kind = instruction.kind
        found = self.leaves(instruction.shape)
        if self._schedule.parts == 1 or not kind.message.HasField("sharding"):
            return found
        with suppress(InvalidArgumentError):  # the sharding is not for this shape
            shards = Sharding.from_proto(kind.message.sharding).shard_shape(kind.shape)
            sizes = [self._leaf(shard, 1) for shard in shards.leaves()]
            found = tuple(
                [
                    leaf._replace(bytes=size.bytes, flat_bytes=size.flat_bytes)
                    for leaf, size in zip(found, sizes, strict=True)
                ]
            )
        return found

    def _new(self, instruction: HloInstruction, leaves: Sequence[Leaf], time: int) -> tuple[int, ...]:
        """New values that begin at a time: one for each of these arrays of the instruction's result."""
        count, known, times = len(leaves), len(self._above), [time] * len(leaves)
        self._instructions += [instruction] * count
        self._made_leaves += leaves
        self._begins += times
        self._ends += times
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
        ends = self._ends
        only: dict[Kind, Leaf | None] = {}
        order = self._schedule.instructions
        for run, begin, end in self._schedule.segments:
            self._run, self._of = run, self._all_of[run]
            self._walk(order[begin:end], begin, only)
        spend(len(order))
        for run in self._schedule.runs:
            last = run.last if run.caller is not None else len(order)
            for value in self._all_of[run][run.computation.root]:
                ends[value] = max(ends[value], last)
        self._run, self._of = self._schedule.runs[0], self._all_of[self._schedule.runs[0]]
        results = self._of[self._module.entry.root]
        if self._is_raw:
            results = self._copied_results(results)
        self._donate(results)
        return ValueRanges(
            self._instructions,
            self._made_leaves,
            self._merged,
            self._begins,
            ends,
            [value if value == above else self._buffer(value) for value, above in enumerate(self._above)],
            results,
            self._all_of,
            self._copies,
            self._holders,
            frozenset([self._buffer(value) for value in self._aliased]),
        )

    def _walk(self, instructions: Sequence[HloInstruction], begin: int, only: dict[Kind, Leaf | None]) -> None:
        """Finds the values of successive instructions of a run. `only` has, by kind, the only array of a result that is
        a new value, and uses its operands when it is made; else None."""
        ends, of, above, begins = self._ends, self._of, self._above, self._begins
        made, leaves = self._instructions, self._made_leaves
        for time, instruction in enumerate(instructions, begin):
            kind = instruction.kind
            leaf = only.get(kind)
            if leaf is None and kind not in only:
                leaf = only[kind] = self._only(instruction)
            if leaf is not None:
                # The same as below, inlined for speed: most instructions come here. Nothing was used later so far.
                for operand in instruction.operands:
                    for value in of[operand]:
                        ends[value] = time
                of[instruction] = (len(above),)
                above.append(len(above))
                made.append(instruction)
                leaves.append(leaf)
                begins.append(time)
                ends.append(time)
                continue
            source, used = kind.row.source, time
            if source is ResultSource.STATE and instruction.called_computations:
                # The initial value of a loop becomes its state when the body begins, and need not live beside it.
                used = self._run.begun[instruction][0].first
            if source is not ResultSource.ELEMENT and source is not ResultSource.CALLED:
                for operand in instruction.operands:
                    for value in of[operand]:
                        if ends[value] < used:
                            ends[value] = used
            known = len(above)
            of[instruction] = (self._made if source is ResultSource.COMPUTED else self._result)(instruction, time)
            if source not in _RETURNING:
                for value in of[instruction]:
                    if value < known:
                        self._holders[value] = instruction

    def _only(self, instruction: HloInstruction) -> Leaf | None:
        """The array of a result that is a new value and no tuple, in memory of its own; None of any other result."""
        row, shape = instruction.kind.row, instruction.shape
        is_handed_on = row.source is not ResultSource.COMPUTED or row.in_place is not InPlace.NO
        if is_handed_on or shape.is_tuple or instruction.output_operand_aliasing:
            return None
        return self._own(instruction)[0]

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
            given = self._returned(instruction, 0)
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
        firsts = self._firsts.get(shape)
        if firsts is None:
            counts = [len(self.leaves(each)) for each in shape.tuple_shapes]
            firsts = self._firsts[shape] = list(accumulate(counts, initial=0))
        return values[firsts[number] : firsts[number + 1]]

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
            found = self._new(instruction, self._own(instruction), time)
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
            started = self._returned(start, 0)
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
        pending = [(self._schedule.run_at(self._begins[value]), made)]
        while pending:
            run, made = pending.pop()
            if self._last_uses(run).get(made, -1) > time:
                return False
            # A call hands its operands on: the instructions of what it calls use them.
            for user in made.users:
                if user.kind.row.source is ResultSource.CALLED:
                    for called in run.begun.get(user, ()):
                        parameters = called.computation.parameters
                        pending += [
                            (called, parameters[number])
                            for number, operand in enumerate(user.operands[: len(parameters)])
                            if operand is made
                        ]
        return True

    def _last_uses(self, run: ComputationRun) -> dict[HloInstruction, int]:
        """When each instruction of a run is an operand of another one than a call for the last time."""
        found = self._uses.get(run)
        if found is None:
            found = self._uses[run] = {}
            for each in self._schedule.segments:
                if each.run is run:
                    for time in range(each.begin, each.end):
                        instruction = self._schedule.instructions[time]
                        if instruction.kind.row.source is not ResultSource.CALLED:
                            for operand in instruction.operands:
                                found[operand] = time
        return found

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

    def _returned(self, caller: HloInstruction, number: int) -> tuple[int, ...]:
        """The values that called computation `number` of an instruction of this run returns."""
        run = self._run.begun[caller][number]
        return self._all_of[run][run.computation.root]

    def _argument(self, parameter: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a parameter of a called computation: those of the caller's operand. For a loop, values that
        merge the initial state and what the body returns, except where the body returns an array unchanged."""
        run = self._run
        caller, above = run.caller, run.above
        assert caller is not None
        assert above is not None
        number, arguments = parameter.parameter_number, caller.kind.row.calls.arguments
        if arguments is Arguments.ONE_OPERAND_EACH:
            number = 1 + above.begun[caller].index(run)
        if number >= len(caller.operands):
            return self._made(parameter, time)
        given = self._all_of[above][caller.operands[number]]
        if len(given) != len(self.leaves(parameter.shape)):
            return self._made(parameter, time)
        if arguments is not Arguments.CARRIED:
            return given
        body, last = above.begun[caller][0], above.begun[caller][0].last + 1
        states = self._states.setdefault(body, {})
        found: list[int] = []
        for leaf, value in enumerate(given):
            if self._stays(caller, leaf, given):
                found.append(value)
                continue
            merged = self._merging(parameter, leaf, time)
            if self._may_be_overwritten(value, last):
                self._unite(merged, value)
            self._unite(merged, states.setdefault(leaf, merged))
            found.append(merged)
        return tuple(found)

    def _stays(self, loop: HloInstruction, leaf: int, given: Sequence[int]) -> bool:
        """Whether array number `leaf` of a loop's state is the initial value in all iterations: each iteration returns
        there an array of the state that has the same initial value and stays too. `given` has the initial values."""
        carried = self._carried.get(loop)
        if carried is None:
            flow = self._flow = self._flow or Flow(self._module)
            found = [flow.carried_from(loop, each.shape_index) for each in self.leaves(loop.shape)]
            carried = [None if index is None else self._number(loop.shape, index) for index in found]
            self._carried[loop] = carried
        seen: set[int] = set()
        number: int | None = leaf
        while number is not None and number not in seen:
            if number >= len(given) or given[number] != given[leaf]:
                return False
            seen.add(number)
            number = carried[number]
        return number is not None

    def _loop(self, loop: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a while loop's result: of an array that stays as it is in the loop the initial value, else a
        value that merges it with what the body returns.
        """
        body = self._run.begun[loop][0]
        given = self._returned(loop, 0)
        states = self._states.get(body, {})
        found: list[int] = []
        initial = self._of[loop.operands[0]]
        for leaf in range(len(self.leaves(loop.shape))):
            if leaf < len(initial) and self._stays(loop, leaf, initial):
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

    def _is_made_in(self, value: int, run: ComputationRun) -> bool:
        """Whether a value is made during a run, or during what it calls."""
        return run.first <= self._begins[value] <= run.last

    def _branches(self, conditional: HloInstruction, time: int) -> tuple[int, ...]:
        """The values of a conditional's result: each merges a value of every branch, and shares the memory of those
        that are made in their branch."""
        found: list[int] = []
        returned = [self._returned(conditional, number) for number in range(len(conditional.called_computations))]
        runs = self._run.begun[conditional]
        for leaf in range(len(self.leaves(conditional.shape))):
            given = [values[leaf] if leaf < len(values) else -1 for values in returned]
            if len(set(given)) == 1 and given[0] >= 0:
                found.append(given[0])
                continue
            merged = self._merging(conditional, leaf, time)
            for run, value in zip(runs, given, strict=True):
                if value >= 0 and self._is_made_in(value, run):
                    self._unite(merged, value)
            found.append(merged)
        return tuple(found)

    def _copied_results(self, results: Sequence[int]) -> tuple[int, ...]:
        """The values of the program's result after XLA's optimizations: an array that is in the memory of another
        one of the result, or of a parameter that is not donated for it, is copied, and so is a constant."""
        entry, end, found = self._module.entry, len(self._schedule.instructions), list[int]()
        given = {self._buffer(value): value for each in entry.parameters for value in self._of.get(each, ())}
        kept = {(self._parameter_array(number, index), output) for output, number, index in self._donations()}
        seen: set[int] = set()
        # A root whose operands do not fit its shape has fewer results.
        for number, (leaf, value) in enumerate(zip(self._own(entry.root), results, strict=False)):
            buffer = self._buffer(value)
            is_given = self._instructions[value].opcode is Opcode.CONSTANT or (
                buffer in given and (given[buffer], number) not in kept
            )
            if buffer in seen or is_given:
                (value,) = self._new(entry.root, (leaf,), end - 1)
                self._copies.add(value)
                self._ends[value] = end
            seen.add(self._buffer(value))
            found.append(value)
        return tuple(found)

    def _parameter_array(self, number: int, index: tuple[int, ...]) -> int | None:
        """The value of an array of a parameter of the program; None where there is none."""
        parameters = self._module.entry.parameters
        if not 0 <= number < len(parameters):
            return None
        values, leaf = self._of.get(parameters[number], ()), self._number(parameters[number].shape, index)
        return values[leaf] if leaf is not None and leaf < len(values) else None

    def _donations(self) -> Iterator[tuple[int | None, int, tuple[int, ...]]]:
        """The arrays of the result that the module places in parameters, as (number of the array, number of the
        parameter, index in the parameter)."""
        root = self._module.entry.root
        for alias in self._module.head.input_output_alias.entries:
            index = tuple(alias.parameter_shape_index)
            yield self._number(root.shape, tuple(alias.output_shape_index)), alias.parameter_number, index

    def _donate(self, results: Sequence[int]) -> None:
        """Lets the outputs of the program that the module places in parameters share the memory of those. Before XLA's
        optimizations, a parameter that is only given away is placed as XLA will do it: for the first output of its size
        that is in no parameter."""
        placed: set[int] = set()
        pairs: list[tuple[int | None, int | None]] = []
        for output, number, index in self._donations():
            pairs.append((output, self._parameter_array(number, index)))
        for output, value in pairs:
            if value is not None and output is not None and output < len(results):
                self._place(value, results[output])
                placed.add(output)
        for donor in self._module.head.buffer_donor.entries if self._is_raw else ():
            value = self._parameter_array(donor.parameter_number, tuple(donor.parameter_shape_index))
            if value is not None:
                size = self._made_leaves[value].bytes
                for output, result in enumerate(results):
                    if output not in placed and self._made_leaves[result].bytes == size:
                        self._place(value, result)
                        placed.add(output)
                        break

    def _place(self, value: int, result: int) -> None:
        """Places a result of the program in the memory of a parameter."""
        self._unite(value, result)
        self._aliased.append(value)
