"""A memory plan for a module that has no assignment of buffers, estimated from when each value lives in the schedule.
Values share memory by the rules of XLA's BufferAssigner.

A buffer is the memory of values that must share it. Buffers are assigned from the largest to the smallest. Parameters,
constants and outputs have allocations that live throughout. Except on TPUs, another buffer is put into an allocation of
an output, or of a parameter that holds an output, where it fits and no value there lives at the same time. What is left
is temporary, and takes memory while its values live. A value takes over the memory of an operand that ends where it
begins, if the shapes are equal and its instruction can compute in place: each element from the same element of the
operand, or by an operation that XLA runs in place.

For the lower bound of the peak of a scheduled module, a value may take the memory of any value that ends where it
begins, and the memory of an output until that output is computed. For the upper bound, only values that must share
memory share it. Without a schedule, XLA's optimizations are still to come: only arguments and outputs are certain, and
there is no upper bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from xlashape.hlo.flow import joins_parts, replaces_a_part
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import InPlace, ReadPattern, ResultSource
from xlashape.hlo.ops.registry import OPERATIONS, operation_of
from xlashape.limits import spend
from xlashape.reports.memory.plan import (
    CONSTANT,
    FAST,
    OUTPUT,
    PARAMETER,
    TEMPORARY,
    Allocation,
    Lives,
    Place,
    Plan,
    Steps,
    Values,
)
from xlashape.reports.memory.schedule import FlatSchedule, flat_schedule, leaf_bytes
from xlashape.reports.memory.slots import Slots, union, without
from xlashape.reports.memory.values import ValueRanges, value_ranges
from xlashape.shape import Target
from xlashape.shape.xla_util.shape_util import byte_size_of

_ELEMENTWISE: Final = frozenset([row.opcode for row in OPERATIONS.values() if row.reads is ReadPattern.SAME])
# Sets of opcodes: membership in a set is faster than comparison with a member of an enum, and every value is tested.
_IN_PLACE: Final = frozenset(
    [Opcode.FUSION, Opcode.SORT, Opcode.TRIANGULAR_SOLVE]
    + [row.opcode for row in OPERATIONS.values() if row.in_place is not InPlace.NO]
)
_GIVEN: Final = frozenset([Opcode.PARAMETER, Opcode.CONSTANT])
_OWN_ORDER: Final = (
    "The module has no schedule, as before XLA's optimizations: values that XLA would fuse count, and its instructions "
    "are taken in an order of our own that keeps little memory alive. Arguments and outputs are certain; there is no "
    "upper bound, since XLA may add copies and memory to work in."
)
_DIVIDED: Final = (
    "The module is not partitioned yet. The sizes are those on one of {} devices: by the shardings of instructions, "
    "and as if every other array were divided evenly."
)
_BY_LIVENESS: Final = "The module has no buffer assignment: the peak is estimated from the lives of its values."


def plan_of_module(module: HloModule, target: Target | None = None) -> Plan:
    """The estimated plan of a module, with the sizes that its values have on the target."""
    schedule = flat_schedule(module)
    ranges = value_ranges(module, schedule, target)
    return _Estimate(module, schedule, ranges, target).plan()


class _Estimate:
    """Assigns the buffers of a module. Times are positions in the schedule."""

    def __init__(self, module: HloModule, schedule: FlatSchedule, ranges: ValueRanges, target: Target | None) -> None:
        self._target = target
        self._module = module
        self._schedule = schedule
        self._ranges = ranges
        # A buffer is the memory of values that must share it, and has the number of the first of them. Each of the next
        # four lists has an entry for each value; what it says of a buffer is in the entry of that number.
        self._sizes = [leaf.bytes for leaf in ranges.leaves]
        self._kinds = [TEMPORARY] * len(ranges.leaves)
        self._values: list[tuple[int, ...]] = [(value,) for value in range(len(ranges.leaves))]
        """The values of a buffer, in the order in which they begin."""
        self._spans: list[tuple[tuple[int, int], ...]] = [
            (span,) for span in zip(ranges.begins, ranges.ends, strict=True)
        ]
        """The spans of time in which some value of a buffer lives, in order and apart from each other."""
        self._live_out = {ranges.buffers[value] for value in ranges.results}
        """The buffers that hold a part of the result."""
        self._group()
        self._pairs: set[tuple[int, int]] = set()
        """The values that may be computed in the memory of an operand that ends there, as (value, value of the
        operand)."""
        self._partners: dict[int, list[tuple[int, int, bool]]] = {}
        """By buffer, those that such values let it share memory with, each as (buffer, the time when the memory passes
        from one to the other, whether it passes from that buffer, which an operand makes)."""
        self._pair()

    @cached_property
    def _is_tpu(self) -> bool:
        """Whether the device is a TPU: by the target, or else by the tiles that arguments and outputs have."""
        if self._target is not None:
            return self._target.is_tpu
        entry = self._module.entry
        given = [each.shape for each in (*entry.parameters, entry.root)]
        return any(leaf.layout is not None and bool(leaf.layout.tiles) for shape in given for leaf in shape.leaves())

    def _group(self) -> None:
        """Makes the buffers out of the values."""
        ranges, entry, sizes, kinds = self._ranges, self._module.entry, self._sizes, self._kinds
        begins, ends, buffers = ranges.begins, ranges.ends, ranges.buffers
        for buffer in self._live_out:
            kinds[buffer] = OUTPUT
        for value, made in enumerate(ranges.instructions):
            if made.kind.opcode in _GIVEN and value not in ranges.copies:
                if made.kind.opcode is Opcode.CONSTANT:
                    kinds[buffers[value]] = kinds[buffers[value]] and CONSTANT
                elif made.computation is entry:
                    kinds[buffers[value]] = PARAMETER
        shared: dict[int, list[int]] = {}
        for value, buffer in enumerate(buffers):
            if value != buffer:
                shared.setdefault(buffer, [buffer]).append(value)
        for buffer, values in shared.items():
            values.sort(key=begins.__getitem__)
            self._values[buffer] = tuple(values)
            self._spans[buffer] = union([(begins[value], ends[value]) for value in values])
            size = max([sizes[value] for value in values])
            for value in values:
                sizes[value], kinds[value] = size, kinds[buffer]
        self._buffers = [value for value, buffer in enumerate(buffers) if value == buffer and sizes[value]]
        """The buffers that take memory."""

    # -- sharing ------------------------------------------------------------------------------

    def _pair(self) -> None:
        """Finds the values that may be computed in the memory of operands."""
        ranges, instructions, partners = self._ranges, self._schedule.instructions, self._partners
        begins, ends, leaves, holders = ranges.begins, ranges.ends, ranges.leaves, ranges.holders
        makers = ranges.instructions
        elementwise = _ELEMENTWISE | {Opcode.ALL_REDUCE} if self._is_tpu else _ELEMENTWISE  # libtpu reduces in place
        for run, begin, end in self._schedule.segments:
            of = ranges.of[run]
            for time in range(begin, end):
                made = instructions[time]
                opcode = made.kind.opcode
                if opcode not in elementwise and opcode not in _IN_PLACE:
                    continue
                for operand in made.operands:
                    for earlier in of[operand]:
                        # XLA looks at the operand that is the last to have the value.
                        if ends[earlier] != time or holders.get(earlier, makers[earlier]) is not operand:
                            continue
                        leaf = leaves[earlier]
                        if leaf.space == FAST:
                            continue  # libtpu has placed each value there by itself
                        for later in of[made]:
                            other = leaves[later]
                            if (
                                begins[later] == time
                                and (other is leaf or (other.bytes == leaf.bytes and other.shape == leaf.shape))
                                and later not in ranges.merged
                                and (opcode in elementwise or self._keeps_positions(made, earlier, of))
                            ):
                                self._pairs.add((later, earlier))
                                a, b = ranges.buffers[later], ranges.buffers[earlier]
                                partners.setdefault(a, []).append((b, time, makers[earlier] in made.operands))
                                partners.setdefault(b, []).append((a, time, False))

    def _keeps_positions(self, made: HloInstruction, value: int, of: Mapping[HloInstruction, tuple[int, ...]]) -> bool:
        """Whether an instruction can compute in the memory of a value that is one of its operands, and only one."""
        operands = [number for number, operand in enumerate(made.operands) if value in of[operand]]
        return len(operands) == 1 and keeps_positions(made, operands)

    def _interferes(self, a: int, b: int) -> bool:
        """Whether values of two buffers live at the same time, and one does not take over the memory of the other."""
        begins, ends = self._ranges.begins, self._ranges.ends
        for x in self._values[a]:
            for y in self._values[b]:
                if begins[x] <= ends[y] and begins[y] <= ends[x]:
                    if (x, y) not in self._pairs and (y, x) not in self._pairs:
                        return True
        return False

    def _in_order(self) -> list[int]:
        """The buffers in the order in which XLA assigns them: the largest first, and of the same size those that hold a
        part of the result. After that by computation, the one with the highest id first, instruction, and array."""
        executed = {run.computation for run in self._schedule.runs}
        count = max([len(computation.instructions) for computation in executed])
        order = sorted(executed, key=lambda computation: -computation.id)
        before = {computation: position * count for position, computation in enumerate(order)}
        made, many = self._ranges.instructions, len(self._ranges.instructions)
        first = [(before[one.computation] + one.index) * many + value for value, one in enumerate(made)]
        weights = [2 * size for size in self._sizes]
        for number in self._live_out:
            weights[number] += 1
        for number in self._buffers:
            if len(self._values[number]) > 1:
                first[number] = min([first[value] for value in self._values[number]])
        found = sorted(self._buffers, key=first.__getitem__)
        found.sort(key=weights.__getitem__, reverse=True)
        return found

    # -- the plan -----------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan, in which every buffer is in an allocation."""
        spans_of, kinds, leaves, values_of = self._spans, self._kinds, self._ranges.leaves, self._values
        order, partners = self._in_order(), self._partners
        spend(len(order))
        # libtpu keeps temporaries out of results.
        lasting = [] if self._is_tpu else [number for number in order if number in self._live_out]
        slots = Slots(len(self._schedule.instructions), [spans_of[number] for number in lasting])
        slot_of = {number: slot for slot, number in enumerate(lasting)}
        slots_of_space: dict[int, int] = {}
        """By memory space, the slots of larger buffers."""
        temporary: list[int] = []
        for number in order:
            spans, values = spans_of[number], values_of[number]
            space = leaves[values[0]].space
            left = slots_of_space.get(space, 0)
            if kinds[number] != TEMPORARY:
                if number in slot_of:
                    slots_of_space[space] = left | 1 << slot_of[number]
                continue
            if left:
                # Time → the slots of buffers that may share memory with this one, where one ends and the other begins.
                shared: dict[int, int] = {}
                for other, time, _ in partners.get(number, ()):
                    slot = slot_of.get(other)
                    # A slot of a smaller buffer is none of those that are left.
                    if slot is not None and left >> slot & 1:
                        if (len(values) > 1 or len(values_of[other]) > 1) and self._interferes(number, other):
                            left &= ~(1 << slot)
                        else:
                            shared[time] = shared.get(time, 0) | 1 << slot
                for time, inside in shared.items():
                    left &= inside | slots.free_at(time)
                # The last slot is tried first: it was made for the smallest buffer.
                slot = slots.last_free(left, without(spans, shared) if shared else spans)
                if slot >= 0:
                    slots.put(slot, spans)
                    slot_of[number] = slot
                    continue
            temporary.append(number)
        return self._made(temporary)

    def _made(self, temporary: Sequence[int]) -> Plan:
        """The plan, given the buffers that are in no slot. All of them are in one temporary allocation, which is as
        large as they need at once."""
        ranges, kinds, sizes = self._ranges, list(self._kinds), list(self._sizes)
        end = len(self._schedule.instructions)
        lasting = [number for number in self._buffers if kinds[number] != TEMPORARY]
        tables = self._tables
        static = sum([sizes[number] for number in lasting]) + sum([size for _, _, size, _ in tables])
        lives = [self._shown(number) for number in lasting]
        begins = [0] * len(lives)
        ends = [end] * len(lives)
        heirs: dict[int, list[tuple[int, int]]] = {}
        shared = self._shared(temporary)
        for number in temporary:
            values = self._values[number]
            for first, last in self._spans[number]:
                if len(values) == 1:
                    lives.append(values[0])
                else:
                    inside = [value for value in values if first <= ranges.begins[value] <= last]
                    if len(inside) > 1:
                        heirs[len(lives)] = [(ranges.begins[value] + 1, value) for value in inside[1:]]
                    lives.append(inside[0])
                begins.append(first + 1)
                ends.append(last + 1 - (first < last and (number, last) in shared))
        allocation_of = [-1] * len(sizes)
        allocations: list[Allocation] = []
        for number, shown in zip(lasting, lives, strict=False):
            for value in self._values[number]:
                allocation_of[value] = len(allocations)
            allocations.append(self._allocation(len(allocations), number, shown))
        spaces = [leaf.space for leaf in ranges.leaves]
        table_places: list[Place] = []
        for instruction, index, size, kind in tables:
            lives.append(len(sizes))
            begins.append(0)
            ends.append(end)
            sizes.append(size)
            kinds.append(kind)
            spaces.append(0)
            allocation_of.append(len(allocations))
            allocations.append(
                Allocation(
                    len(allocations),
                    size,
                    0,
                    kind,
                    is_live_out=kind == OUTPUT,
                    is_parameter=kind == PARAMETER,
                    is_constant=kind == CONSTANT,
                    values=(len(sizes) - 1,),
                )
            )
            shape = instruction.shape
            for each in index:
                shape = shape.tuple_shapes[each]
            table_places.append(Place(instruction, instruction.name, index, shape))
        totals = _totals(sizes, lives, begins, ends, end + 1)
        of_values = [value for number in temporary for value in self._values[number]]
        of_spaces = {spaces[value] for value in of_values}
        for space in sorted(of_spaces):
            inside = [value for value in of_values if spaces[value] == space]
            most = max(totals) - static
            if len(of_spaces) > 1:
                own = [life for life in range(len(lasting), len(lives) - len(tables)) if spaces[lives[life]] == space]
                alive = [[each[life] for life in own] for each in (lives, begins, ends)]
                most = max(_totals(sizes, alive[0], alive[1], alive[2], end + 1))
            for value in inside:
                allocation_of[value] = len(allocations)
            allocations.append(Allocation(len(allocations), most, space, TEMPORARY, values=tuple(inside)))

        def place(value: int) -> Place:
            if value >= len(ranges.leaves):
                return table_places[value - len(ranges.leaves)]
            instruction, leaf = ranges.instructions[value], ranges.leaves[value]
            return Place(instruction, instruction.name, leaf.shape_index, leaf.shape)

        peak = max(totals)
        constant = sum([self._sizes[each] for each in lasting if self._kinds[each] == CONSTANT])
        constant += sum([size for _, _, size, kind in tables if kind == CONSTANT])
        bounds: tuple[int, int | None] = (static - constant, None)
        if self._schedule.is_given:
            lower, upper = self._bounds(static)
            bounds = min(lower, peak), max(upper, peak)
        notes = (_BY_LIVENESS,) if self._schedule.is_given else (_BY_LIVENESS, _OWN_ORDER)
        if self._schedule.parts > 1:
            notes = (*notes, _DIVIDED.format(self._schedule.parts))
        return Plan(
            self._module,
            tuple(allocations),
            Values(sizes, spaces, kinds, allocation_of, [-1] * len(sizes), place),
            Lives(lives, begins, ends, heirs),
            Steps([-1] * (end + 1), totals, self._schedule.instructions),
            self._unpadded(sizes, lives, begins, ends, totals),
            notes,
            bounds,
            target=self._target,
        )

    def _unpadded(
        self,
        sizes: Sequence[int],
        lives: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        totals: Sequence[int],
    ) -> int:
        """The peak if values with tiled layouts took the bytes of their elements alone."""
        tiled = {
            value: leaf.flat_bytes for value, leaf in enumerate(self._ranges.leaves) if leaf.flat_bytes is not None
        }
        if tiled:
            flat = [tiled.get(value, size) for value, size in enumerate(sizes)]
            totals = _totals(flat, lives, begins, ends, len(totals))
        return max(totals)

    def _shown(self, number: int) -> int:
        """The value that is shown for a buffer that lives throughout: the parameter, else a value that does not merge
        others."""
        values = self._values[number]
        if self._kinds[number] == PARAMETER:
            for value in values:
                made = self._ranges.instructions[value]
                if made.opcode == Opcode.PARAMETER and made.computation is self._module.entry:
                    return value
        return next((value for value in values if value not in self._ranges.merged), values[0])

    def _allocation(self, position: int, number: int, shown: int) -> Allocation:
        ranges, values, kind = self._ranges, self._values[number], self._kinds[number]
        is_parameter, is_live_out = kind == PARAMETER, number in self._live_out
        return Allocation(
            position,
            self._sizes[number],
            ranges.leaves[values[0]].space,
            kind,
            is_live_out=is_live_out,
            is_parameter=is_parameter,
            is_aliased=is_parameter and is_live_out,
            is_constant=kind == CONSTANT,
            parameter_number=ranges.instructions[shown].number if is_parameter else 0,
            parameter_index=ranges.leaves[shown].shape_index if is_parameter else (),
            values=values,
        )

    @cached_property
    def _tables(self) -> list[tuple[HloInstruction, tuple[int, ...], int, int]]:
        """What has memory throughout besides the buffers: the tables of pointers of tuples among the parameters and the
        result, and constants of applied computations. Each is (instruction, index in its result, bytes, kind)."""
        entry = self._module.entry
        found: list[tuple[HloInstruction, tuple[int, ...], int, int]] = []
        shared = entry.root if self._schedule.is_given else None  # a parameter that is the result
        for instruction, kind in (*[(each, PARAMETER) for each in entry.parameters], (entry.root, OUTPUT)):
            pending = [((), instruction.shape)] if kind == OUTPUT or instruction is not shared else []
            while pending:
                index, shape = pending.pop()
                if shape.is_tuple:
                    found.append((instruction, index, byte_size_of(shape, target=self._target), kind))
                    pending += [((*index, number), each) for number, each in enumerate(shape.tuple_shapes)]
        return found + [
            (each, (), leaf_bytes(each.shape, self._target), CONSTANT) for each in self._applied_constants()
        ]

    def _applied_constants(self) -> list[HloInstruction]:
        """The constants of computations that are applied to elements. Nothing else in these computations has
        memory."""
        found: list[HloInstruction] = []
        executed = {run.computation for run in self._schedule.runs}
        others = [each for each in self._module.computations if each not in executed]
        if not any(each.kind.opcode is Opcode.CONSTANT for computation in others for each in computation.instructions):
            return found
        seen = set(executed)
        waiting = [each for each in self._module.computations if each in executed]
        while waiting:
            for caller in [each for each in waiting.pop().instructions if each.called_computations]:
                if not caller.kind.row.fuses_called_computation:
                    for called in caller.called_computations:
                        if called not in seen:
                            seen.add(called)
                            found += [each for each in called.instructions if each.opcode == Opcode.CONSTANT]
                            waiting.append(called)
        return found

    def _shared(self, temporary: Sequence[int]) -> set[tuple[int, int]]:
        """The temporary buffers whose memory another one takes over where a span ends, as (buffer, time). It may do so
        by `_takes_over`, or if its instruction joins parts that lie side by side."""
        sizes, spans, made = self._sizes, self._spans, self._ranges.instructions
        rank = {number: position for position, number in enumerate(temporary)}
        starts = {spans[each][0][0] for each in temporary if joins_parts(made[self._values[each][0]])}
        found: set[tuple[int, int]] = set()
        if starts:
            found = {
                (each, last) for each in temporary for _, last in spans[each] if spans[each][0][0] < last in starts
            }
        for number in temporary:
            if number not in self._partners:
                continue
            first = spans[number][0][0]  # a value that is made later is bound to the memory of the first ones
            able = [
                other
                for other, time, is_operand in self._partners[number]
                if is_operand
                and time == first
                and sizes[other] == sizes[number]
                and other in rank
                and spans[other][0][0] < time
                and (other, time) not in found
                and (len(spans[other]) == 1 or any(last == time for _, last in spans[other]))
            ]
            if able:
                found.add((min(able, key=rank.__getitem__), first))
        return found

    def _bounds(self, static: int) -> tuple[int, int]:
        """The least and the most that the peak can be in this order of the instructions. `static` are the bytes that
        live throughout."""
        end = len(self._schedule.instructions)
        lasting = sum([size for _, _, size, _ in self._tables])
        most = [0] * (end + 3)
        # After an instruction, the values that are made and still used need memory. While an instruction runs, it may
        # need no more than that. XLA counts the temporaries of one memory space after those of another.
        after: dict[int, list[int]] = {}
        for number in self._buffers:
            size, kind, values = self._sizes[number], self._kinds[number], self._values[number]
            if kind == TEMPORARY:
                for first, last in self._spans[number]:
                    most[first] += size
                    most[last + 1] -= size
            if kind == CONSTANT or (kind == PARAMETER and number not in self._live_out):
                lasting += size
                continue
            change = after.setdefault(self._ranges.leaves[values[0]].space, [0] * (end + 3))
            for first, last in self._spans[number]:
                change[first] += size
                change[last] -= size
        least = max([max(accumulate(change)) for change in after.values()], default=0)
        return max(static, lasting + least), static + max(accumulate(most))


def _totals(
    sizes: Sequence[int], lives: Sequence[int], begins: Sequence[int], ends: Sequence[int], steps: int
) -> list[int]:
    """The bytes that live in each of `steps` steps. `sizes` are those of values; `lives`, `begins` and `ends` have the
    value, the first and the last step of each life."""
    change = [0] * (steps + 2)  # a value of the result may end after the last step
    for value, begin, last in zip(lives, begins, ends, strict=True):
        size = sizes[value]
        change[begin] += size
        change[last + 1] -= size
    return list(accumulate(change))[:steps]


def keeps_positions(instruction: HloInstruction, operands: Sequence[int]) -> bool:
    """Whether an instruction can compute its result in the memory of the operands with these numbers.

    It can if each element of the result needs, of these operands, only the element at its own position; and if it is a
    dynamic-update-slice, a scatter, a sort or a triangular-solve and these are the operands that XLA lets it overwrite.
    """
    opcode = instruction.opcode
    if opcode in _ELEMENTWISE:
        return True
    if replaces_a_part(instruction):
        return operands == [0]
    if opcode == Opcode.SORT:
        return True
    if opcode == Opcode.TRIANGULAR_SOLVE:
        return operands == [1]
    if opcode != Opcode.FUSION or not instruction.called_computations:
        return False
    if instruction.details.fusion_kind == "kOutput":
        root = instruction.called_computations[0].root
        starts = _fused_parameters(instruction, operands)
        return root.opcode == Opcode.ADD and all(each in root.operands and len(each.users) == 1 for each in starts)
    return fuses_by_position(instruction, operands)


def fuses_by_position(fusion: HloInstruction, operands: Sequence[int]) -> bool:
    """Whether each element of a fusion's result needs, of these operands, only the element at its own position."""
    pending = _fused_parameters(fusion, operands)
    seen: set[HloInstruction] = set(pending)
    while pending:
        for user in pending.pop().users:
            if user.opcode not in _ELEMENTWISE and operation_of(user.opcode).source is not ResultSource.OPERANDS:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True


def _fused_parameters(fusion: HloInstruction, operands: Sequence[int]) -> list[HloInstruction]:
    fused = fusion.called_computations[0].instructions
    return [each for each in fused if each.opcode == Opcode.PARAMETER and each.parameter_number in operands]
