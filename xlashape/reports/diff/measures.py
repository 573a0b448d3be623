"""The costs of an instruction, in numbers that add up: those of a module are the sums over its instructions.

An instruction inside a fusion has no buffer, and reads and writes no memory; its fusion does. Bytes of buffers include
the padding of tiles; results whose size is not known count nothing. What is read and written, and FLOPs, are those of
the report `cost`; copies are the rows of the report `copies` with their bytes, collectives those of the report
`collectives`. What is read, written, copied, exchanged and calculated counts each iteration of a loop, and a loop of
unknown length once. Of a conditional the branch that `cost` counts is read, written, exchanged and calculated; of
copies, each branch counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Final, NamedTuple

from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo.collectives import find_collectives
from xlashape.hlo.flow import Buffers, InstructionBuffer, executed_computations
from xlashape.hlo.flow.buffers import own_buffers
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.limits import INT64_MAX, spend
from xlashape.reports.copies.times import copied_bytes
from xlashape.reports.cost.program import ClassCosts, costs_of
from xlashape.reports.cost.traffic import NO_TRAFFIC, Traffic
from xlashape.shape import Shape, shape_util, tiling
from xlashape.shape.tiling.padding import physical_bytes


class Measures(NamedTuple):
    """The numbers of an instruction, or of several."""

    instructions: int = 0
    fusions: int = 0
    copies: int = 0
    """Executed instructions that move data and compute nothing."""
    copy_bytes: int = 0
    """The bytes that copies read and write in one run of the module."""
    collectives: int = 0
    collective_bytes: int = 0
    """The bytes of the results of collectives in one run of the module."""
    bytes: int = 0
    """The bytes of the instruction's own buffers, padding included."""
    padding_bytes: int = 0
    """The bytes of these buffers that are no elements."""
    bytes_read: int = 0
    """Bytes in one run of the module, as those that are written."""
    bytes_written: int = 0
    flops: int = 0
    """FLOPs in one run of the module; those that are not known count 0."""

    def plus(self, other: Measures) -> Measures:
        """The sums of the numbers of both."""
        return Measures(*[a + b for a, b in zip(self, other, strict=True)])

    def minus(self, other: Measures) -> Measures:
        """The numbers of this one less those of the other."""
        return Measures(*[a - b for a, b in zip(self, other, strict=True)])


NOTHING: Final = Measures()


class ShapeSizes:
    """The sizes of shapes, each computed once."""

    def __init__(self) -> None:
        self._bytes: dict[Shape, tuple[int, int]] = {}

    def of(self, shape: Shape) -> tuple[int, int]:
        """The bytes of all arrays of a shape, and how many of them are padding."""
        known = self._bytes.get(shape)
        if known is None:
            known = self._bytes[shape] = self._computed(shape)
        return known

    def _computed(self, shape: Shape) -> tuple[int, int]:
        size = padding = 0
        for leaf in shape.leaves():
            array = leaf.buffer_shape if leaf.is_buffer else leaf
            if not array.is_array:
                continue
            try:
                own = physical_bytes(array)
                bits = min(max(8, array.element_type.bit_width), tiling.stored_bits(array))
                elements = -(-shape_util.elements_in(array) * bits // 8)
            except XlashapeError:
                continue
            size += own
            padding += own - elements
        return size, padding


class ModuleMeasures:
    """The measures of a module's instructions, in the order of its computations and their instructions."""

    __slots__ = ("_applied", "_buffers", "_costs", "_known", "_sizes", "donated", "executed", "of", "times", "unknown")

    def __init__(self, module: HloModule) -> None:
        self._sizes = ShapeSizes()
        self._buffers = Buffers(module)
        self.executed = frozenset([computation.index for computation in executed_computations(module)])
        """The indices of the computations that are executed instruction by instruction."""
        self.donated = self._buffers.donated
        self._known: dict[tuple[bool, bool, int], dict[tuple[object, int], Measures]] = defaultdict(dict)
        self._applied: dict[int, list[Measures]] = {}
        """The measures of computations that are applied to elements, by their list of classes; equal ones share it."""
        self._costs = _costs(module)
        times = self._costs.times if self._costs else {}
        self.times = {computation.index: count for computation, count in times.items()}
        """Index of a computation that is executed or fused → how often it runs in one run of the module."""
        unknown: set[tuple[int, int]] = set()
        self.unknown = None if self._costs is None else unknown
        """The instructions whose FLOPs are not known, each by the index of its computation and its index in that
        computation; None where nothing is known that `cost` counts.
        """
        self.of: list[list[Measures]] = [self._rows(computation, unknown) for computation in module.computations]
        """For each computation, the measures of each instruction."""
        self._count_fused_collectives(module)
        for maker in {each for each, _ in self._buffers.taken}:
            if maker.computation.index in self.executed:
                row = self.of[maker.computation.index]
                size, padding = self._of_buffers(self._buffers.of(maker))
                row[maker.index] = row[maker.index]._replace(bytes=size, padding_bytes=padding)
        for each in self.donated:
            # An output in the memory of a parameter has no bytes of its own, except those by which it is larger.
            places = ((each.instruction, each.shape_index), (each.parameter, each.parameter_index))
            own, taken = [self._sizes.of(_part(maker.shape, index))[0] for maker, index in places]
            if own > taken:
                row = self.of[each.instruction.computation.index]
                found = row[each.instruction.index]
                row[each.instruction.index] = found._replace(bytes=found.bytes + own - taken)
        copies: dict[tuple[int, int], Measures] = {}
        for each, size in copied_bytes(module):
            row = self.of[each.computation.index]
            found = row[each.index]
            copy = copies.get((id(found), size))
            if copy is None:
                copy = copies[id(found), size] = found._replace(copies=1, copy_bytes=size)
            row[each.index] = copy

    @property
    def unknown_totals(self) -> tuple[str, ...]:
        """The numbers that are not known of all instructions of the module."""
        if self.unknown is None:
            return "bytes_read", "bytes_written", "flops"
        return ("flops",) if self.unknown else ()

    def total(self) -> Measures:
        """The measures of the module."""
        every = list(chain(*self.of))
        each, count = dict(zip(map(id, every), every, strict=True)), Counter(map(id, every))
        columns = zip(*[[count[key] * value for value in measures] for key, measures in each.items()], strict=True)
        return Measures(*map(sum, columns))

    def _rows(self, computation: HloComputation, unknown: set[tuple[int, int]]) -> list[Measures]:
        """The measures of a computation's instructions, without copies and donations. Adds the instructions whose FLOPs
        are not known to `unknown`. Instructions that are alike share an object.
        """
        instructions = computation.instructions
        spend(1 + len(instructions))
        is_executed = computation.index in self.executed
        if self._costs is None or computation not in self._costs.classes:
            return [self._measured(each, is_executed, 0, NO_TRAFFIC, 1) for each in instructions]
        classes = self._costs.classes[computation]
        flops, runs = self._costs.flops.get(computation, {}), self.times.get(computation.index, 1)
        if not flops and id(classes) in self._applied:
            return list(self._applied[id(classes)])
        if None in flops.values():
            unknown.update([(computation.index, i) for i, number in enumerate(classes) if flops[number] is None])
        known = self._known[is_executed, computation is computation.module.entry, runs]
        of_class: dict[int, Measures] = {}
        for number, instruction in dict(zip(classes, instructions, strict=True)).items():
            key = number, flops.get(number) or 0
            if key not in known:
                traffic = self._costs.traffic.get(number, NO_TRAFFIC)
                known[key] = self._measured(instruction, is_executed, min(key[1], INT64_MAX), traffic, runs)
            of_class[number] = known[key]
        rows = [of_class[number] for number in classes]
        if not flops:
            self._applied[id(classes)] = list(rows)
        return rows

    def _count_fused_collectives(self, module: HloModule) -> None:
        """Takes away the collectives of fusions that are parts of others: that of a TPU stands in several fusions."""
        fused = [
            (instruction, row)
            for computation, row in zip(module.computations, self.of, strict=True)
            if computation.index not in self.executed
            for instruction in computation.instructions
            if row[instruction.index].collectives
        ]
        collectives = {each.instruction for each in find_collectives(module)} if fused else ()
        for instruction, row in fused:
            if instruction not in collectives:
                row[instruction.index] = row[instruction.index]._replace(collectives=0, collective_bytes=0)

    def _measured(
        self, instruction: HloInstruction, is_executed: bool, flops: int, traffic: Traffic, runs: int
    ) -> Measures:
        """The measures of an instruction that runs so often, without copies and donations."""
        row = instruction.kind.row
        fusions = int(row.fuses_called_computation)
        collectives = collective_bytes = size = padding = 0
        if row.exchanges_with_replicas and row.async_step in (None, AsyncStep.START):
            collectives, collective_bytes = 1, min(self._result_bytes(instruction) * runs, INT64_MAX)
        if is_executed:
            size, padding = self._of_buffers(own_buffers(instruction))
        read, written = [min(runs * each, INT64_MAX) for each in traffic[:2]] if is_executed else (0, 0)
        return Measures(1, fusions, 0, 0, collectives, collective_bytes, size, padding, read, written, flops)

    def _of_buffers(self, buffers: Iterable[InstructionBuffer]) -> tuple[int, int]:
        """The bytes of buffers, and how many of them are padding."""
        sizes = [self._sizes.of(buffer.shape) for buffer in buffers]
        return sum([size for size, _ in sizes]), sum([padding for _, padding in sizes])

    def _result_bytes(self, instruction: HloInstruction) -> int:
        shape = instruction.shape
        repeated = instruction.kind.row.repeated_operand
        if repeated is not None and shape.is_tuple and len(shape.tuple_shapes) > 1:
            # (operand, result, contexts…), in a copy-start (result, operand, context).
            return self._sizes.of(shape.tuple_shapes[1 - repeated])[0]
        return self._sizes.of(shape)[0]


def _costs(module: HloModule) -> ClassCosts | None:
    """What the report `cost` counts; None where a shape or an attribute is invalid."""
    try:
        return costs_of(module)
    except InvalidModuleError:
        return None


def _part(shape: Shape, index: Iterable[int]) -> Shape:
    """The part of a shape at an index, or the last part on the way there that exists."""
    for number in index:
        if not (shape.is_tuple and 0 <= number < len(shape.tuple_shapes)):
            break
        shape = shape.tuple_shapes[number]
    return shape
