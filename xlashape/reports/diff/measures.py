"""What an instruction costs: numbers that add up, so that the numbers of a module are the sums of those of its instructions.

An instruction inside a fusion has no buffers, and reads and writes no memory: its fusion does. Bytes are those in memory, tile padding included; results
whose size is not known count nothing. Operands are counted as read in full and results as written in full, once for each time that the instruction is in
the module, and not for each iteration of a loop.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.hlo.analysis.buffers import executed_computations, instruction_buffers
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.shape import Shape, shape_util, tiling
from xlashape.shape.tiling.physical_size import physical_bytes

_COPIES: Final = frozenset((Opcode.COPY, Opcode.COPY_START))
_ENDS: Final = frozenset(
    (
        Opcode.COPY_DONE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ALL_GATHER_DONE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.SEND_DONE,
        Opcode.RECV_DONE,
    )
)
_REPEATS_OPERANDS: Final = {Opcode.ALL_GATHER_START: 0, Opcode.COLLECTIVE_PERMUTE_START: 0, Opcode.COPY_START: 1}
"""The element of the result of a start that is the operand again."""
_NOT_READ: Final = frozenset(
    (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.AFTER_ALL, Opcode.PARTITION_ID, Opcode.REPLICA_ID)
)


class Measures(NamedTuple):
    """The numbers of an instruction, or of several."""

    instructions: int = 0
    fusions: int = 0
    copies: int = 0
    copy_bytes: int = 0
    """The bytes that copies write."""
    collectives: int = 0
    collective_bytes: int = 0
    """The bytes of the results of collectives."""
    bytes: int = 0
    """The bytes of the buffers of its own, padding included."""
    padding_bytes: int = 0
    """The bytes of these buffers that are no elements."""
    bytes_read: int = 0
    bytes_written: int = 0

    def plus(self, other: Measures) -> Measures:
        """The sum."""
        return Measures(*[a + b for a, b in zip(self, other, strict=True)])

    def minus(self, other: Measures) -> Measures:
        """The difference."""
        return Measures(*[a - b for a, b in zip(self, other, strict=True)])


NOTHING: Final = Measures()


class Sizes:
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

    __slots__ = ("_sizes", "executed", "of")

    def __init__(self, module: HloModule) -> None:
        self._sizes = Sizes()
        self.executed = frozenset([computation.index for computation in executed_computations(module)])
        """The indices of the computations that are executed instruction by instruction."""
        self.of: list[list[Measures]] = []
        for computation in module.computations:
            spend(1 + len(computation.instructions))
            is_executed = computation.index in self.executed
            self.of.append([self._measured(instruction, is_executed) for instruction in computation.instructions])

    def total(self) -> Measures:
        """The measures of the module."""
        columns = zip(*[measures for computation in self.of for measures in computation], strict=True)
        return Measures(*map(sum, columns))

    def operand_bytes(self, instruction: HloInstruction) -> list[int]:
        """The bytes of each operand."""
        return [self._sizes.of(operand.shape)[0] for operand in instruction.operands]

    def _measured(self, instruction: HloInstruction, is_executed: bool) -> Measures:
        row = operation_of(instruction.proto.opcode)
        opcode = row.opcode
        fusions = int(opcode == Opcode.FUSION)
        copies = copy_bytes = collectives = collective_bytes = 0
        if opcode in _COPIES or (
            row.exchanges_with_replicas and opcode not in _ENDS and row.async_step in (None, AsyncStep.START)
        ):
            size = self._result_bytes(instruction)
            if opcode in _COPIES:
                copies, copy_bytes = 1, size
            else:
                collectives, collective_bytes = 1, size
        if not is_executed:
            return Measures(1, fusions, copies, copy_bytes, collectives, collective_bytes)
        size = padding = 0
        for buffer in instruction_buffers(instruction):
            own, rest = self._sizes.of(buffer.shape)
            size += own
            padding += rest
        read = written = 0
        moves = not (row.moves_no_data or row.runs_called_instructions or opcode in _ENDS or opcode in _NOT_READ)
        if moves and row.async_step in (None, AsyncStep.START):
            read = sum(self.operand_bytes(instruction))
            written = self._result_bytes(instruction)
        return Measures(1, fusions, copies, copy_bytes, collectives, collective_bytes, size, padding, read, written)

    def _result_bytes(self, instruction: HloInstruction) -> int:
        shape = instruction.shape
        repeated = _REPEATS_OPERANDS.get(instruction.opcode) if isinstance(instruction.opcode, Opcode) else None
        if repeated is not None and shape.is_tuple and len(shape.tuple_shapes) > 1:
            # (operand, result, contexts…), in a copy-start (result, operand, context).
            return self._sizes.of(shape.tuple_shapes[1 - repeated])[0]
        return self._sizes.of(shape)[0]
