"""The memory plan in a BufferAssignmentProto, by XLA's formulas (ComputePeakMemorySizes, HeapSimulator).

How the peak is found: allocations of parameters, constants and outputs live throughout, each with the size of the
largest value in it. The heap traces of the proto list when XLA's simulation of the heap gives memory to every other
value and when it takes it away. They are replayed in their order, with one running total:

    ALLOC a         adds a user to a; the first user adds a's size
    SHARE_WITH a b  a takes the memory of b, or of the value whose memory b takes, and adds a user to that value; the
                    first user adds its size
    FREE a          removes a user from the value whose memory a takes; the last user subtracts its size

A value that is freed and allocated again lives twice. All memory spaces are added up, as XLA does.

One case counts less than XLA's formula does. A pass before the heap simulator may choose places in memory, as on TPUs;
then no event says that a value takes the memory of a living one. Living values of equal size at one such place count
once here, and several times in XLA's formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlashape.errors import InvalidModuleError
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.limits import INT64_MAX, check, spend
from xlashape.proto import xla
from xlashape.reports.memory.plan import (
    PARAMETER,
    TEMPORARY,
    Allocation,
    Lives,
    Place,
    Plan,
    Steps,
    Values,
    kind_of,
    may_merge,
)
from xlashape.shape import Shape
from xlashape.shape.xla_util.shape_util import byte_size_of

_ALLOC, _FREE, _SHARE_WITH = 0, 1, 2
_KNOWN: Final = frozenset([_ALLOC, _FREE, _SHARE_WITH])
_MOST_WALKED: Final = 50_000_000
"""The most steps along chains of values that share memory, over a whole replay. XLA's chains are short."""


def plan_of_assignment(
    proto: xla.BufferAssignmentProto, module: HloModule | None, shapes: Mapping[int, Shape] | None = None
) -> Plan:
    """The plan of a buffer assignment. `module` is the assigned module; without one, `shapes` may give the shapes of
    logical buffers by their ids.

    Raises InvalidModuleError for an assignment that contradicts itself or its module.
    """
    return _Reader(proto, module, shapes or {}).plan()


class _Instructions:
    """Finds instructions of a module by the ids or names with which an assignment names them."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._by_id: dict[int, HloInstruction] | None = None
        self._by_name: dict[str, HloInstruction] | None = None

    def of(self, location: xla.LogicalBufferProto.Location) -> HloInstruction | None:
        number = location.instruction_id
        if self._by_id is None:
            self._by_id = {
                instruction.id: instruction
                for computation in self._module.computations
                for instruction in computation.instructions
            }
        if number or not location.instruction_name:
            return self._by_id.get(number)
        if self._by_name is None:
            self._by_name = {instruction.name: instruction for instruction in self._by_id.values()}
        return self._by_name.get(location.instruction_name)


class _Reader:
    """Makes the plan of one assignment."""

    def __init__(self, proto: xla.BufferAssignmentProto, module: HloModule | None, shapes: Mapping[int, Shape]) -> None:
        self._shapes = shapes
        self._proto = proto
        self._module = module
        self._instructions = None if module is None else _Instructions(module)
        self._logical: list[xla.LogicalBufferProto] = list(proto.logical_buffers)
        count = len(self._logical)
        spend(count)
        self._number_of: dict[int, int] = {}
        self._sizes: list[int] = []
        self._spaces: list[int] = []
        for number, logical in enumerate(self._logical):
            self._number_of[logical.id] = number
            self._sizes.append(logical.size)
            self._spaces.append(logical.color)
        self._kinds = [TEMPORARY] * count
        self._allocation_of = [-1] * count
        self._offsets = [-1] * count
        if min(self._sizes, default=0) < 0:
            number = next(number for number, size in enumerate(self._sizes) if size < 0)
            raise InvalidModuleError(
                f"buffer assignment: {self._name(number)} has a size of {self._sizes[number]} bytes"
            )

    def _name(self, number: int) -> str:
        return f"logical buffer {self._logical[number].id}"

    # -- where values are made ----------------------------------------------------------------

    def place(self, number: int) -> Place:
        """Where a value is made."""
        location = self._logical[number].defined_at
        index = tuple(location.shape_index)
        if self._instructions is None:
            return Place(None, location.instruction_name, index, self._shapes.get(self._logical[number].id))
        instruction = self._instruction(number, location)
        shape = instruction.shape
        for each in index:
            if not shape.is_tuple or not 0 <= each < len(shape.tuple_shapes):
                raise InvalidModuleError(
                    f"buffer assignment: {self._name(number)} is at {{{','.join(map(str, index))}}} of "
                    f"instruction {instruction.name!r}, whose shape is {instruction.shape}"
                )
            shape = shape.tuple_shapes[each]
        return Place(instruction, instruction.name, index, shape)

    def _instruction(self, number: int, location: xla.LogicalBufferProto.Location) -> HloInstruction:
        assert self._instructions is not None
        found = self._instructions.of(location)
        if found is None:
            named = repr(location.instruction_name) if location.instruction_name else f"id {location.instruction_id}"
            raise InvalidModuleError(
                f"buffer assignment: {self._name(number)} is made by instruction {named}, which the module does not "
                "have"
            )
        return found

    def _unpadded_sizes(self) -> list[int] | None:
        """The bytes of each value's elements without tiles, by XLA's formula; None without a module. For a value inside
        nested tuples, XLA takes the last number of its index as if that were an index into the outermost tuple."""
        if self._instructions is None:
            return None
        known: dict[tuple[int, str, int], int] = {}
        sizes: list[int] = []
        for number, logical in enumerate(self._logical):
            location = logical.defined_at
            last = location.shape_index[-1] if location.shape_index else -1
            key = (location.instruction_id, location.instruction_name, last)
            size = known.get(key)
            if size is None:
                shape = self._instruction(number, location).shape
                if last >= 0:
                    if not shape.is_tuple or last >= len(shape.tuple_shapes):
                        self.place(number)  # raises an error that names the index, unless the tuple is nested
                    shape = shape.tuple_shapes[last] if shape.is_tuple and last < len(shape.tuple_shapes) else shape
                size = known[key] = byte_size_of(shape)
            sizes.append(size)
        return sizes

    # -- allocations --------------------------------------------------------------------------

    def _allocations(self) -> tuple[Allocation, ...]:
        found: list[Allocation] = []
        indices: set[int] = set()
        for proto in self._proto.buffer_allocations:
            if proto.size < 0:
                raise InvalidModuleError(
                    f"buffer assignment: allocation {proto.index} has a size of {proto.size} bytes"
                )
            if proto.index in indices:
                raise InvalidModuleError(f"buffer assignment: two allocations have the index {proto.index}")
            indices.add(proto.index)
            kind = kind_of(
                is_parameter=proto.is_entry_computation_parameter,
                is_constant=proto.is_constant,
                is_live_out=proto.maybe_live_out,
            )
            values: list[int] = []
            for assigned in proto.assigned:
                number = self._number_of.get(assigned.logical_buffer_id)
                if number is None:
                    continue
                values.append(number)
                self._allocation_of[number] = len(found)
                self._offsets[number] = assigned.offset
                self._kinds[number] = kind
            spend(len(values))
            found.append(
                Allocation(
                    number=proto.index,
                    size=proto.size,
                    space=proto.color,
                    kind=kind,
                    is_thread_local=proto.is_thread_local,
                    is_live_out=proto.maybe_live_out,
                    is_parameter=proto.is_entry_computation_parameter,
                    is_aliased=proto.is_parameter_aliased_with_output,
                    is_constant=proto.is_constant,
                    parameter_number=proto.parameter_number,
                    parameter_index=tuple(proto.parameter_shape_index),
                    values=tuple(values),
                )
            )
        if sum([each.size for each in found]) > INT64_MAX:
            raise InvalidModuleError("buffer assignment: the sizes of its allocations add up to more than int64 holds")
        return tuple(found)

    def _largest(self, allocation: Allocation) -> int | None:
        """The largest value in an allocation, the first of equals; None if no value is in it."""
        return max(allocation.values, key=self._sizes.__getitem__, default=None)

    def _shown(self, allocation: Allocation, largest: int) -> int:
        """The most informative of the largest values of an allocation: the parameter if the allocation is one's, else a
        value that does not merge others."""
        if self._instructions is None:
            return largest
        wanted = allocation.kind == PARAMETER
        for number in allocation.values:
            if self._sizes[number] == self._sizes[largest]:
                made = self._instruction(number, self._logical[number].defined_at)
                if made.opcode == Opcode.PARAMETER if wanted else not may_merge(made):
                    return number
        return largest

    # -- the replay ---------------------------------------------------------------------------

    def plan(self) -> Plan:
        """The plan: the allocations, and the replay that the docstring of this file describes."""
        allocations = self._allocations()
        sizes = self._sizes
        unpadded = self._unpadded_sizes()
        flat = sizes if unpadded is None else unpadded
        lives: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        users = [0] * len(sizes)
        life_of: dict[int, int] = {}
        heirs: dict[int, list[tuple[int, int]]] = {}
        total = flat_total = 0
        for allocation in allocations:
            largest = self._largest(allocation) if allocation.lives_throughout else None
            if largest is not None:
                users[largest] += 1
                total += sizes[largest]
                flat_total += flat[largest]
                life_of[largest] = len(lives)
                lives.append(self._shown(allocation, largest))
                begins.append(0)
                ends.append(-1)
        flat_peak = flat_total
        step_values = [-1]
        totals = [total]
        step = 0
        was_free = True
        instruction = last = -1
        underlying: dict[int, int] = {}
        live_at: dict[tuple[int, int, int], int] = {}
        walked = 0
        number_of, logical = self._number_of.get, self._logical
        for trace in self._proto.heap_simulator_traces:
            is_placed = not trace.whole_module_simulation
            for position, event in enumerate(trace.events):
                if not position & 0xFFF:
                    spend(0x1000)
                kind = event.kind
                number = number_of(event.buffer_id)
                if number is None or kind not in _KNOWN:
                    raise self._event_error(event)
                if kind == _FREE:
                    root = number
                    if root in underlying:
                        while root in underlying:
                            root = underlying[root]
                            walked += 1
                        check("steps through values that share memory", walked, _MOST_WALKED)
                        del underlying[number]
                    users[root] -= 1
                    if users[root] == 0:
                        live_at.pop((self._allocation_of[root], self._offsets[root], sizes[root]), None)
                        total -= sizes[root]
                        flat_total -= flat[root]
                        ends[life_of.pop(root)] = step
                    was_free = True
                    continue
                # A step begins where an instruction makes the first of its values, or makes more after others have
                # ended.
                if was_free or number != last:
                    last = number
                    made_by = logical[number].defined_at.instruction_id
                    if was_free or made_by != instruction or not made_by:
                        was_free = False
                        instruction = made_by
                        step += 1
                        step_values.append(number)
                        totals.append(total)
                root = number
                if kind == _SHARE_WITH:
                    shared = number_of(event.share_with_canonical_id)
                    if shared is None:
                        raise self._event_error(event)
                    root = shared
                    while root in underlying:
                        root = underlying[root]
                        walked += 1
                    if root == number:
                        raise InvalidModuleError(
                            f"buffer assignment: {self._name(number)} shares its own memory, by way of "
                            f"{self._name(shared)}"
                        )
                    underlying[number] = root
                    check("steps through values that share memory", walked, _MOST_WALKED)
                elif is_placed and self._allocation_of[number] >= 0:
                    where = self._allocation_of[number], self._offsets[number], sizes[number]
                    root = live_at.setdefault(where, number)
                    if root != number:
                        underlying[number] = root
                users[root] += 1
                if users[root] == 1:
                    total += sizes[root]
                    flat_total += flat[root]
                    if flat_total > flat_peak:
                        flat_peak = flat_total
                    totals[step] = total
                    life_of[root] = len(lives)
                    lives.append(root)
                    begins.append(step)
                    ends.append(-1)
                if root != number and root in life_of:
                    heirs.setdefault(life_of[root], []).append((step, number))
        if max(totals) > INT64_MAX:
            raise InvalidModuleError("buffer assignment: the values that live at once are larger than int64 holds")
        # As in XLA, a value in two allocations that live throughout counts twice, and a trace can free it once.
        ends = [step if end < 0 else end for end in ends]
        return Plan(
            self._module,
            allocations,
            Values(sizes, self._spaces, self._kinds, self._allocation_of, self._offsets, self.place),
            Lives(lives, begins, ends, heirs),
            Steps(step_values, totals),
            None if unpadded is None else flat_peak,
        )

    def _event_error(self, event: xla.HeapSimulatorTrace.Event) -> InvalidModuleError:
        ids = [event.buffer_id, *([event.share_with_canonical_id] if event.kind == _SHARE_WITH else [])]
        missing = [each for each in ids if each not in self._number_of]
        if not missing:
            return InvalidModuleError(
                f"buffer assignment: an event of a heap trace is of the unknown kind {event.kind}"
            )
        return InvalidModuleError(
            f"buffer assignment: a heap trace names logical buffer {missing[0]}, which is not among its "
            f"{len(self._logical):,} logical buffers"
        )
