"""A memory plan for a module that has no assignment of buffers: lives of values in its schedule, shared by the rules of XLA's BufferAssigner.

Buffers are assigned from the largest to the smallest. Parameters, constants and outputs have allocations that live throughout. Another buffer is put into an
allocation of an output, or of a parameter that holds an output, where it fits and no value there lives at the same time. What is left is temporary, and
takes memory while its values live. A value takes over the memory of an operand that ends where it begins, if the shapes are equal and each element of it is
computed from the same element of the operand.

The lower bound shares everything that dies where something begins, and all memory of outputs until they are made; the upper bound shares nothing but what
must share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.elementwise import OPERATIONS
from xlashape.hlo.ops.opcode import Opcode
from xlashape.limits import spend
from xlashape.reports.memory.plan import (
    CONSTANT,
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
from xlashape.reports.memory.values import ValueRanges, value_ranges
from xlashape.shape.xla_util.shape_util import byte_size_of

_ELEMENTWISE: Final = frozenset([operation.opcode for operation in OPERATIONS])
_POINTER: Final = 8
_OWN_ORDER: Final = (
    "The module has no schedule: its instructions are taken in an order of our own that keeps little memory alive."
)
_BY_LIVENESS: Final = "The module has no buffer assignment: the peak is estimated from the lives of its values."


class _Buffer(NamedTuple):
    """Values that must share memory."""

    size: int
    values: tuple[int, ...]
    """In the order in which they begin."""
    kind: int
    is_live_out: bool
    spans: tuple[tuple[int, int], ...]
    """When any of its values lives, apart from each other and in order."""
    space: int


def plan_of_module(module: HloModule) -> Plan:
    """The estimated plan of a module."""
    schedule = flat_schedule(module)
    ranges = value_ranges(module, schedule)
    return _Estimate(module, schedule, ranges).plan()


class _Estimate:
    """Assigns the buffers of a module."""

    def __init__(self, module: HloModule, schedule: FlatSchedule, ranges: ValueRanges) -> None:
        self._module = module
        self._schedule = schedule
        self._ranges = ranges
        self._of_group: dict[int, int] = {}
        self._buffers = self._grouped()
        self._elementwise: dict[tuple[HloInstruction, int], bool] = {}
        of, buffer_of = ranges.of, [self._of_group.get(buffer, -1) for buffer in ranges.buffers]
        self._near = [
            [buffer_of[value] for each in (instruction, *instruction.operands) for value in of[each]]
            for instruction in schedule.instructions
        ]
        """By time, the buffers of the operands and the result of the instruction that runs then, -1 for those without bytes; nothing after the last."""
        self._near.append([])

    def _grouped(self) -> list[_Buffer]:
        ranges = self._ranges
        groups: dict[int, list[int]] = {}
        for value, buffer in enumerate(ranges.buffers):
            groups.setdefault(buffer, []).append(value)
        results = frozenset([ranges.buffers[value] for value in ranges.results])
        found: list[_Buffer] = []
        for number, values in groups.items():
            size = max([ranges.sizes[value] for value in values])
            if not size:
                continue
            kind = TEMPORARY
            for value in values:
                made = ranges.instructions[value]
                if made.opcode == Opcode.PARAMETER and made.computation is self._module.entry:
                    kind = PARAMETER
                elif made.opcode == Opcode.CONSTANT and kind != PARAMETER:
                    kind = CONSTANT
            is_live_out = number in results
            if kind == TEMPORARY and is_live_out:
                kind = OUTPUT
            values.sort(key=ranges.begins.__getitem__)
            shape = ranges.shapes[values[0]]
            space = shape.layout.memory_space if shape.layout is not None else 0
            spans = _union([(ranges.begins[value], ranges.ends[value]) for value in values])
            self._of_group[number] = len(found)
            found.append(_Buffer(size, tuple(values), kind, is_live_out, spans, space))
        return found

    # -- sharing ------------------------------------------------------------------------------

    def _takes_over(self, later: int, earlier: int) -> bool:
        """Whether a value may be computed in the memory of one that is used for the last time where it begins."""
        ranges = self._ranges
        if ranges.ends[earlier] != ranges.begins[later] or later in ranges.merged:
            return False
        made = ranges.instructions[later]
        if made.opcode == Opcode.COPY or ranges.shapes[later] != ranges.shapes[earlier]:
            return False
        operands = [number for number, operand in enumerate(made.operands) if earlier in ranges.of[operand]]
        if made.opcode in _ELEMENTWISE or len(operands) != 1:
            return bool(operands) and made.opcode in _ELEMENTWISE
        key = (made, operands[0])
        known = self._elementwise.get(key)
        if known is None:
            known = self._elementwise[key] = keeps_positions(made, operands)
        return known

    def _interferes(self, a: _Buffer, b: _Buffer) -> bool:
        """Whether values of two buffers live at the same time."""
        ranges = self._ranges
        if not _overlap(a.spans, b.spans):
            return False
        for x in a.values:
            for y in b.values:
                if ranges.begins[x] <= ranges.ends[y] and ranges.begins[y] <= ranges.ends[x]:
                    if not (self._takes_over(x, y) or self._takes_over(y, x)):
                        return True
        return False

    def _neighbours(self, buffer: _Buffer) -> list[int]:
        """The buffers of the operands and results of the instructions that run where the buffer begins and ends to live: it may share memory with these."""
        near = self._near
        return [number for span in buffer.spans for time in span for number in near[time]]

    def _position(self, value: int) -> tuple[int, int]:
        """The order in which XLA assigns buffers of the same size: by computation, in the order in which they were made, then by instruction."""
        instruction = self._ranges.instructions[value]
        return -instruction.computation.proto.id, instruction.index

    # -- the plan -----------------------------------------------------------------------------

    def plan(self) -> Plan:
        buffers = self._buffers
        made = [min([self._position(value) for value in buffer.values]) for buffer in buffers]
        order = sorted(
            range(len(buffers)), key=lambda each: (-buffers[each].size, not buffers[each].is_live_out, made[each])
        )
        slots = _Slots(len(self._schedule.instructions))
        temporary: list[int] = []
        for number in order:
            spend()
            buffer = buffers[number]
            if buffer.kind == TEMPORARY:
                spans = buffer.spans
                near: dict[int, set[int]] = {}
                for other in self._neighbours(buffer):
                    if (slot := slots.slot_of.get(other)) is not None:
                        near.setdefault(slot, set()).add(other)
                left = slots.free(spans)
                for slot in near:
                    left |= 1 << slot
                while left:
                    # The allocation of the smallest buffer comes first.
                    slot = left.bit_length() - 1
                    left ^= 1 << slot
                    inside = [buffers[each] for each in near.get(slot, ())]
                    if not (
                        any(self._interferes(buffer, each) for each in inside)
                        or slots.taken(_without(spans, [span for each in inside for span in each.spans])) >> slot & 1
                    ):
                        slots.put(slot, number, spans)
                        break
                else:
                    temporary.append(number)
            elif buffer.is_live_out:
                slots.add(number, buffer.spans)
        return self._made(temporary)

    def _made(self, temporary: Sequence[int]) -> Plan:
        ranges, buffers = self._ranges, self._buffers
        end = len(self._schedule.instructions)
        lasting = [number for number, buffer in enumerate(buffers) if buffer.kind != TEMPORARY]
        tables = self._tables
        static = sum([buffers[number].size for number in lasting]) + sum([size for _, _, size, _ in tables])
        lives: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        heirs: dict[int, list[tuple[int, int]]] = {}
        for number in lasting:
            lives.append(self._shown(buffers[number]))
            begins.append(0)
            ends.append(end)
        shared = self._shared(temporary)
        for number in temporary:
            buffer = buffers[number]
            for first, last in buffer.spans:
                inside = [value for value in buffer.values if first <= ranges.begins[value] <= last]
                last -= (number, last) in shared
                heirs[len(lives)] = [(ranges.begins[value] + 1, value) for value in inside[1:]]
                lives.append(inside[0])
                begins.append(first + 1)
                ends.append(max(first, last) + 1)
        sizes = list(ranges.sizes)
        kinds = [TEMPORARY] * len(sizes)
        allocation_of = [-1] * len(sizes)
        allocations: list[Allocation] = []
        for number in lasting:
            buffer = buffers[number]
            for value in buffer.values:
                kinds[value] = buffer.kind
                allocation_of[value] = len(allocations)
            allocations.append(self._allocation(len(allocations), buffer))
        for number in (*lasting, *temporary):
            for value in buffers[number].values:
                sizes[value] = buffers[number].size
        space_of = {
            shape: shape.layout.memory_space if shape.layout is not None else 0
            for shape in dict.fromkeys(ranges.shapes)
        }
        spaces = [space_of[shape] for shape in ranges.shapes]
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
        most = max(totals) - static
        if most:
            space = 0
            inside = tuple([value for number in temporary for value in buffers[number].values])
            for value in inside:
                allocation_of[value] = len(allocations)
            allocations.append(Allocation(len(allocations), most, space, TEMPORARY, values=inside))

        def place(value: int) -> Place:
            if value >= len(ranges.shapes):
                return table_places[value - len(ranges.shapes)]
            instruction = ranges.instructions[value]
            return Place(instruction, instruction.name, ranges.indexes[value], ranges.shapes[value])

        lower, upper = self._bounds(static)
        notes = (_BY_LIVENESS,) if self._schedule.is_given else (_BY_LIVENESS, _OWN_ORDER)
        return Plan(
            self._module,
            tuple(allocations),
            Values(sizes, spaces, kinds, allocation_of, [-1] * len(sizes), place),
            Lives(lives, begins, ends, heirs),
            Steps([-1] * (end + 1), totals, self._schedule.instructions),
            self._unpadded(sizes, lives, begins, ends, end),
            notes,
            (min(lower, max(totals)), max(upper, max(totals))),
        )

    def _unpadded(
        self,
        sizes: Sequence[int],
        lives: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        end: int,
    ) -> int:
        flat = list(sizes)
        for value, shape in enumerate(self._ranges.shapes):
            if shape.layout is not None and shape.layout.tiles and not shape.is_unbounded_dynamic:
                flat[value] = byte_size_of(shape)
        return max(_totals(flat, lives, begins, ends, end + 1))

    def _shown(self, buffer: _Buffer) -> int:
        """The value that stands for a buffer that lives throughout: the parameter, else one that does not merge others."""
        if buffer.kind == PARAMETER:
            for value in buffer.values:
                made = self._ranges.instructions[value]
                if made.opcode == Opcode.PARAMETER and made.computation is self._module.entry:
                    return value
        return next((value for value in buffer.values if value not in self._ranges.merged), buffer.values[0])

    def _allocation(self, number: int, buffer: _Buffer) -> Allocation:
        shown = self._shown(buffer)
        is_parameter = buffer.kind == PARAMETER
        return Allocation(
            number,
            buffer.size,
            buffer.space,
            buffer.kind,
            is_live_out=buffer.is_live_out,
            is_parameter=is_parameter,
            is_aliased=is_parameter and buffer.is_live_out,
            is_constant=buffer.kind == CONSTANT,
            parameter_number=self._ranges.instructions[shown].proto.parameter_number if is_parameter else 0,
            parameter_index=self._ranges.indexes[shown] if is_parameter else (),
            values=buffer.values,
        )

    @cached_property
    def _tables(self) -> list[tuple[HloInstruction, tuple[int, ...], int, int]]:
        """The tables of pointers of tuples among the parameters and the result: where, bytes, kind."""
        entry = self._module.entry
        found: list[tuple[HloInstruction, tuple[int, ...], int, int]] = []
        for instruction, kind in (*[(each, PARAMETER) for each in entry.parameters], (entry.root, OUTPUT)):
            pending = [((), instruction.shape)] if kind == OUTPUT or instruction is not entry.root else []
            while pending:
                index, shape = pending.pop()
                if shape.is_tuple:
                    found.append((instruction, index, _POINTER * len(shape.tuple_shapes), kind))
                    pending += [((*index, number), each) for number, each in enumerate(shape.tuple_shapes)]
        return found + [(each, (), leaf_bytes(each.shape), CONSTANT) for each in self._applied_constants()]

    def _applied_constants(self) -> list[HloInstruction]:
        """The constants of computations that are applied to elements, which have memory too, though nothing else there does."""
        found: list[HloInstruction] = []
        seen: set[HloComputation] = set(self._schedule.spans)
        pending: list[HloInstruction] = list(self._schedule.instructions)
        while pending:
            instruction = pending.pop()
            if instruction.opcode == Opcode.CONSTANT and instruction.computation not in self._schedule.spans:
                found.append(instruction)
            if instruction.opcode != Opcode.FUSION and instruction.proto.called_computation_ids:
                for called in instruction.called_computations:
                    if called not in seen:
                        seen.add(called)
                        pending += called.instructions
        return found

    def _shared(self, temporary: Sequence[int]) -> set[tuple[int, int]]:
        """The temporary buffers whose memory is taken over where one of their spans ends: buffer and time."""
        ranges, buffers = self._ranges, self._buffers
        begins: dict[int, list[int]] = {}
        dying: dict[int, list[int]] = {}
        for number in temporary:
            for first, last in buffers[number].spans:
                begins.setdefault(first, []).append(number)
                dying.setdefault(last, []).append(number)
        found: set[tuple[int, int]] = set()
        for time, numbers in begins.items():
            candidates = dying.get(time, [])
            for number in numbers:
                for other in candidates:
                    if other == number or (other, time) in found or buffers[other].size != buffers[number].size:
                        continue
                    if buffers[other].spans[0][0] >= time:
                        continue
                    later = [value for value in buffers[number].values if ranges.begins[value] == time]
                    earlier = [value for value in buffers[other].values if ranges.ends[value] == time]
                    if any(self._takes_over(x, y) for x in later for y in earlier):
                        found.add((other, time))
                        break
        return found

    def _bounds(self, static: int) -> tuple[int, int]:
        """The least and the most that the peak can be in this order of the instructions."""
        ranges, buffers, end = self._ranges, self._buffers, len(self._schedule.instructions)
        lasting = sum([size for _, _, size, _ in self._tables])
        most = [0] * (end + 3)
        # After an instruction a value needs memory if it is there and still used; more may not be needed while the
        # instruction runs.
        after = [0] * (end + 3)
        for each in buffers:
            if each.kind == TEMPORARY:
                for first, last in each.spans:
                    most[first] += each.size
                    most[last + 1] -= each.size
            if each.kind == CONSTANT or (each.kind == PARAMETER and not each.is_live_out):
                lasting += each.size
            else:
                for first, last in _union([(ranges.begins[value], ranges.sure_ends[value]) for value in each.values]):
                    after[first] += each.size
                    after[last] -= each.size
        return max(static, lasting + max(accumulate(after))), static + max(accumulate(most))


class _Slots:
    """Allocations that values are put into one after the other, and when they are taken. A set of slots is a number with a bit for each.

    The nodes of a binary tree over the times of the schedule have such sets. Node 1 is the root, the children of a node are 2n and 2n + 1, and the leaves
    are the times: a span is at most two nodes on each level.
    """

    def __init__(self, times: int) -> None:
        self._first_leaf = 1 << times.bit_length()
        self._some = [0] * (2 * self._first_leaf)
        """The slots that something below the node takes."""
        self._all = [0] * (2 * self._first_leaf)
        """The slots that are taken at all times below the node, by what was put there and not further down."""
        self._count = 0
        self.slot_of: dict[int, int] = {}
        """By buffer, the slot that it is in."""

    def add(self, number: int, spans: Sequence[tuple[int, int]]) -> None:
        """A slot that has a buffer in it."""
        self._count += 1
        self.put(self._count - 1, number, spans)

    def put(self, slot: int, number: int, spans: Sequence[tuple[int, int]]) -> None:
        """Puts a buffer into a slot."""
        self.slot_of[number] = slot
        bit, some, every = 1 << slot, self._some, self._all
        for first, last in spans:
            low, high = first + self._first_leaf, last + self._first_leaf
            nodes = [low, high]
            while low ^ high > 1:
                if not low & 1:
                    nodes.append(low + 1)
                if high & 1:
                    nodes.append(high - 1)
                low >>= 1
                high >>= 1
                some[low] |= bit
                some[high] |= bit
            for node in nodes:
                some[node] |= bit
                every[node] |= bit
            while low := low >> 1:
                some[low] |= bit

    def taken(self, spans: Iterable[tuple[int, int]]) -> int:
        """The slots that something takes while the spans last."""
        some, every = self._some, self._all
        found = 0
        for first, last in spans:
            low, high = first + self._first_leaf, last + self._first_leaf
            found |= some[low] | some[high]
            while low ^ high > 1:
                if not low & 1:
                    found |= some[low + 1]
                if high & 1:
                    found |= some[high - 1]
                low >>= 1
                high >>= 1
                found |= every[low] | every[high]
            while low := low >> 1:
                found |= every[low]
        return found

    def free(self, spans: Iterable[tuple[int, int]]) -> int:
        """The slots that nothing takes while the spans last."""
        return ~self.taken(spans) & ((1 << self._count) - 1)


def _union(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def _without(spans: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of spans that are in none of the others."""
    left = list(spans)
    for begin, end in others:
        parts: list[tuple[int, int]] = []
        for first, last in left:
            if last < begin or end < first:
                parts.append((first, last))
                continue
            if first < begin:
                parts.append((first, begin - 1))
            if end < last:
                parts.append((end + 1, last))
        left = parts
    return left


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    x = y = 0
    while x < len(a) and y < len(b):
        if a[x][0] <= b[y][1] and b[y][0] <= a[x][1]:
            return True
        if a[x][1] < b[y][1]:
            x += 1
        else:
            y += 1
    return False


def _totals(
    sizes: Sequence[int], lives: Sequence[int], begins: Sequence[int], ends: Sequence[int], steps: int
) -> list[int]:
    change = [0] * (steps + 1)
    for value, begin, last in zip(lives, begins, ends, strict=True):
        change[begin] += sizes[value]
        change[min(last, steps - 1) + 1] -= sizes[value]
    return list(accumulate(change))[:steps]


def keeps_positions(instruction: HloInstruction, operands: Sequence[int]) -> bool:
    """Whether each element of the result needs of these operands only the element at its own position, or is what was there."""
    opcode = instruction.opcode
    if opcode in _ELEMENTWISE:
        return True
    if opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER):
        return operands == [0]
    if opcode == Opcode.SORT:
        return True
    if opcode == Opcode.TRIANGULAR_SOLVE:
        return operands == [1]
    if opcode != Opcode.FUSION or not instruction.called_computations:
        return False
    fused = instruction.called_computations[0]
    starts = [
        each
        for each in fused.instructions
        if each.opcode == Opcode.PARAMETER and each.proto.parameter_number in operands
    ]
    if instruction.proto.fusion_kind == "kOutput":
        root = fused.root
        return root.opcode == Opcode.ADD and all(each in root.operands and len(each.users) == 1 for each in starts)
    seen: set[HloInstruction] = set(starts)
    pending = list(starts)
    while pending:
        for user in pending.pop().users:
            if user.opcode not in _ELEMENTWISE and user.opcode != Opcode.TUPLE:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True
