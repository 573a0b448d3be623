"""The costs of an instruction, in numbers that add up: those of a module are the sums over its instructions.

An instruction inside a fusion has no buffer, and reads and writes no memory; its fusion does. Bytes are those in
memory, tile padding included; results whose size is not known count nothing. An instruction counts as if it read its
operands and wrote its result in full. Copies are the rows of the report `copies` with their bytes, FLOPs those of the
report `cost`, collectives the rows of the report `collectives`. What is read, written, copied, exchanged and calculated
counts each iteration of a loop, a loop of unknown length once, and of a conditional the branch that `cost` counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from xlashape.errors import InvalidModuleError, XlashapeError
from xlashape.hlo.collectives import find_collectives
from xlashape.hlo.flow import Buffers, InstructionBuffer, executed_computations
from xlashape.hlo.flow.buffers import own_buffers
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.operation import AsyncStep, MemoryTraffic
from xlashape.limits import INT64_MAX, spend
from xlashape.reports.copies.times import copied_bytes
from xlashape.reports.cost.program import Flops, flops_of
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

    __slots__ = ("_buffers", "_known", "_sizes", "donated", "executed", "of", "times", "unknown")

    def __init__(self, module: HloModule) -> None:
        self._sizes = ShapeSizes()
        self._buffers = Buffers(module)
        self.executed = frozenset([computation.index for computation in executed_computations(module)])
        """The indices of the computations that are executed instruction by instruction."""
        self.donated = self._buffers.donated
        self._known: dict[tuple[bool, bool, int], dict[object, Measures]] = defaultdict(dict)
        self.of: list[list[Measures]] = []
        """For each computation, the measures of each instruction."""
        self.times: dict[int, int] = {}
        """Index of a computation that is executed or fused → how often it runs in one run of the module."""
        flops = self._flops(module)
        unknown: set[tuple[int, int]] = set()
        self.unknown = None if flops is None else unknown
        """The instructions whose FLOPs are not known, each by the index of its computation and its index in that
        computation; None where no FLOPs are known.
        """
        collectives = {each.instruction for each in find_collectives(module)}
        copied = {(each.computation.index, each.index): size for each, size in copied_bytes(module)}
        for computation in module.computations:
            spend(1 + len(computation.instructions))
            index = computation.index
            # An instruction of a computation that the entry does not reach is a class of its own.
            classes: Sequence[object] = computation.instructions
            counts: Sequence[int | None] = [0] * len(computation.instructions)
            if flops is not None:
                classes = flops.classes.get(computation, classes)
                counts = flops.known.get(computation, counts)
            if None in counts:
                unknown.update([(index, number) for number, count in enumerate(counts) if count is None])
            rows = self._rows(computation, list(zip(classes, counts, strict=True)))
            if index not in self.executed:  # a collective of a TPU stands in several fusions
                for number, row in enumerate(rows):
                    if row.collectives and computation.instructions[number] not in collectives:
                        rows[number] = row._replace(collectives=0, collective_bytes=0)
            self.of.append(rows)
        for maker in {each for each, _ in self._buffers.taken}:
            row = self.of[maker.computation.index]
            if maker.computation.index in self.executed:
                runs = self.times.get(maker.computation.index, 1)
                row[maker.index] = self._measured(maker, self._buffers.of(maker), row[maker.index].flops, runs)
        for each in self.donated:
            # An output in the memory of a parameter has no bytes of its own, except those by which it is larger.
            places = ((each.instruction, each.shape_index), (each.parameter, each.parameter_index))
            own, taken = [self._sizes.of(_part(maker.shape, index))[0] for maker, index in places]
            if own > taken:
                row = self.of[each.instruction.computation.index]
                found = row[each.instruction.index]
                row[each.instruction.index] = found._replace(bytes=found.bytes + own - taken)
        for (index, number), size in copied.items():
            self.of[index][number] = self.of[index][number]._replace(copies=1, copy_bytes=size)

    def _flops(self, module: HloModule) -> Flops | None:
        """The FLOPs of the instructions; None where a shape or an attribute is invalid. Fills `times`."""
        try:
            found = flops_of(module)
        except InvalidModuleError:
            return None
        self.times = {computation.index: count for computation, count in found.times.items()}
        return found

    @property
    def has_all_flops(self) -> bool:
        """Whether it is known of all instructions how many FLOPs they have and how often they run."""
        return self.unknown == set()

    def total(self) -> Measures:
        """The measures of the module."""
        each = {id(measures): measures for measures in chain(*self.of)}
        count = Counter(map(id, chain(*self.of)))
        columns = zip(*[[count[key] * value for value in measures] for key, measures in each.items()], strict=True)
        return Measures(*map(sum, columns))

    def _rows(self, computation: HloComputation, classes: Sequence[tuple[object, int | None]]) -> list[Measures]:
        """The measures of a computation's instructions, without copies and donations. `classes` has the class of each
        instruction, as in `Flops`, and its FLOPs. Instructions that are alike share an object.
        """
        is_executed = computation.index in self.executed
        runs = self.times.get(computation.index, 1)
        known = self._known[is_executed, computation is computation.module.entry, runs]
        for key, instruction in dict(zip(classes, computation.instructions, strict=True)).items():
            if key not in known:
                buffers = own_buffers(instruction) if is_executed else None
                known[key] = self._measured(instruction, buffers, min(key[1] or 0, INT64_MAX), runs)
        return [known[key] for key in classes]

    def _measured(
        self, instruction: HloInstruction, buffers: tuple[InstructionBuffer, ...] | None, flops: int, runs: int
    ) -> Measures:
        """The measures of an instruction that runs so often, without copies. `buffers` are None in a computation that
        is not executed."""
        row = instruction.kind.row
        fusions = int(row.fuses_called_computation)
        collectives = collective_bytes = 0
        if row.exchanges_with_replicas and row.async_step in (None, AsyncStep.START):
            collectives, collective_bytes = 1, min(self._result_bytes(instruction) * runs, INT64_MAX)
        if buffers is None:
            return Measures(1, fusions, 0, 0, collectives, collective_bytes, flops=flops)
        size = padding = 0
        for buffer in buffers:
            own, rest = self._sizes.of(buffer.shape)
            size += own
            padding += rest
        read = written = 0
        if row.traffic is not MemoryTraffic.NOTHING and not row.is_given:
            read = min(runs * sum([self._sizes.of(operand.shape)[0] for operand in instruction.operands]), INT64_MAX)
            written = min(runs * self._result_bytes(instruction), INT64_MAX)
        return Measures(1, fusions, 0, 0, collectives, collective_bytes, size, padding, read, written, flops)

    def _result_bytes(self, instruction: HloInstruction) -> int:
        shape = instruction.shape
        repeated = instruction.kind.row.repeated_operand
        if repeated is not None and shape.is_tuple and len(shape.tuple_shapes) > 1:
            # (operand, result, contexts…), in a copy-start (result, operand, context).
            return self._sizes.of(shape.tuple_shapes[1 - repeated])[0]
        return self._sizes.of(shape)[0]


def _part(shape: Shape, index: Iterable[int]) -> Shape:
    """The part of a shape at an index, or the last part on the way there that exists."""
    for number in index:
        if not (shape.is_tuple and 0 <= number < len(shape.tuple_shapes)):
            break
        shape = shape.tuple_shapes[number]
    return shape
