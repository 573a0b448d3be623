"""How well instructions read: utilisation and coalescing of every operand, for one instruction or for all that a module
executes.

    for reads in operand_reads(fusion):                      # one OperandReads for each operand
        reads.utilisation.utilisation, reads.accesses[0].stride
    for reads in module_reads(module): ...                   # one InstructionReads for each output
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xlashape.base.display import shown
from xlashape.base.frozen import Frozen, set_field
from xlashape.errors import XlashapeError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.hlo.flow import executed_computations, joins_parts
from xlashape.hlo.ops.operation import MemoryTraffic
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import leaves
from xlashape.indexing.queries import check_module, checked_number, errors_name_instruction, is_of_budget
from xlashape.indexing.reports.coalescing import OperandCoalescing, check_warp, coalescing_of
from xlashape.indexing.reports.physical import physical_of
from xlashape.indexing.reports.utilisation import OperandUtilisation, utilisation_of
from xlashape.indexing.walk.analysis import Analysis
from xlashape.limits import spend


class OperandReads(NamedTuple):
    """How one output of an instruction reads one operand."""

    operand: int
    utilisation: OperandUtilisation
    accesses: tuple[OperandCoalescing, ...]
    """One for each way in which the operand's arrays are read; empty where they are not read."""

    _repr_html_ = shown


class _Reads(NamedTuple):
    instruction: HloInstruction
    output: int
    operands: tuple[OperandReads, ...]


class InstructionReads(Frozen, _Reads):
    """How one output of an instruction reads its operands: a tuple of `instruction`, the number of the `output`, and
    `operands`, one OperandReads for each operand (empty where there is an `error`).
    """

    error: XlashapeError | None = None
    """The error that `operand_reads` raises for this output; None where the reads are known. It is no part of the
    tuple.
    """

    _repr_html_ = shown


class OutputReads(Frozen, tuple[OperandReads, ...]):  # noqa: SLOT001 - a tuple has no slots for its attributes
    """How one output of an instruction reads its operands: one OperandReads for each operand."""

    instruction: HloInstruction
    output: int

    _repr_html_ = shown

    @property
    def operands(self) -> tuple[OperandReads, ...]:
        """The OperandReads as a plain tuple."""
        return tuple(self)

    def __repr__(self) -> str:
        return f"<OutputReads of {self.instruction.name!r}, output {self.output}: {len(self)} operands>"


def operand_reads(
    instruction: HloInstruction, output: int = 0, *, warp: int = 32, segment_bytes: int = 128
) -> OutputReads:
    """`operand_utilisation` and `coalescing` of each operand. Raises the errors of these two functions.

    >>> text = "HloModule m ENTRY e { p = f32[64,64] parameter(0) ROOT t = f32[64,64] transpose(p), dimensions={1,0} }"
    >>> (reads,) = operand_reads(HloModule.parse(text).entry.root)
    >>> reads.utilisation.utilisation, reads.accesses[0].stride, reads.accesses[0].segments
    (1.0, 64, 32.0)
    """
    output = checked_number(instruction, output, "output")
    check_warp(warp, segment_bytes)
    with errors_name_instruction(instruction):
        reads = OutputReads(_reads(Analysis(), instruction, output, warp, segment_bytes))
    set_field(reads, "instruction", instruction)
    set_field(reads, "output", output)
    return reads


def instruction_reads(
    instruction: HloInstruction,
    output: int | None = None,
    *,
    warp: int = 32,
    segment_bytes: int = 128,
    analysis: Analysis | None = None,
) -> Iterator[InstructionReads]:
    """`operand_reads` of output number `output`; None: of all `computed_outputs`. Pass one `analysis` for several
    instructions of one module, to analyse equal parts once.
    """
    analysis = analysis or Analysis()
    for number in computed_outputs(instruction) if output is None else (output,):
        with errors_name_instruction(instruction):
            operands = _reads(analysis, instruction, number, warp, segment_bytes)
        yield InstructionReads(instruction, number, operands)


def module_reads(module: HloModule, *, warp: int = 32, segment_bytes: int = 128) -> Iterator[InstructionReads]:
    """`operand_reads` of every output of every instruction in `executed_readers`; lazily. `xlashape.reads` makes a
    report of them.

    Equal operations on equal shapes are analysed once. Outputs that are not arrays are left out. If `operand_reads`
    refuses an output, its InstructionReads has an `error`, and the instruction's further outputs are left out. Errors
    of the budget in force are raised.

    >>> text = '''HloModule m ENTRY e { p = f32[8,8] parameter(0) t = f32[8,8] transpose(p), dimensions={1,0}
    ... ROOT r = (f32[8,8]) tuple(t) }'''
    >>> [
    ...     (reads.instruction.name, reads.operands[0].utilisation.utilisation)
    ...     for reads in module_reads(HloModule.parse(text))
    ... ]
    [('t', 1.0)]
    """
    check_module(module)
    check_warp(warp, segment_bytes)
    return _module_reads(module, warp, segment_bytes)


def _module_reads(module: HloModule, warp: int, segment_bytes: int) -> Iterator[InstructionReads]:
    analysis = Analysis()
    for instruction in executed_readers(module):
        output = 0
        try:
            for output in computed_outputs(instruction):
                yield from instruction_reads(
                    instruction, output, warp=warp, segment_bytes=segment_bytes, analysis=analysis
                )
        except XlashapeError as error:
            if is_of_budget(error):
                raise
            failed = InstructionReads(instruction, output, ())
            set_field(failed, "error", error)
            yield failed


def executed_readers(module: HloModule) -> list[HloInstruction]:
    """The instructions that read arrays from memory, in the module's order.

    These are instructions of the entry computation and of the computations that it executes instruction by instruction:
    bodies of loops, branches, calls. Instructions that are fused or applied to elements have no arrays in memory.
    Instructions that move no data read nothing: tuples and their elements, bitcasts, barriers, the ends of asynchronous
    operations, and the loops, branches and calls themselves.
    """
    check_module(module)
    return [
        instruction
        for computation in executed_computations(module)
        for instruction in computation.instructions
        if instruction.operands and _reads_arrays(instruction)
    ]


def _reads_arrays(instruction: HloInstruction) -> bool:
    return instruction.kind.row.traffic is not MemoryTraffic.NOTHING and not joins_parts(instruction)


def computed_outputs(instruction: HloInstruction) -> list[int]:
    """The numbers of the outputs that are arrays and that the instruction computes. The operand that the start of an
    asynchronous operation repeats in its result is not computed."""
    shape, skipped = instruction.shape, range(0)
    repeated = operation_of(instruction.opcode).repeated_operand
    if repeated is not None and shape.is_tuple and repeated < len(shape.tuple_shapes):
        first = sum([len(leaves(each)) for each in shape.tuple_shapes[:repeated]])
        skipped = range(first, first + len(leaves(shape.tuple_shapes[repeated])))
    return [
        number
        for number, leaf in enumerate(leaves(shape))
        if (leaf.is_array or leaf.is_buffer) and number not in skipped
    ]


def _reads(
    analysis: Analysis, instruction: HloInstruction, output: int, warp: int, segment_bytes: int
) -> tuple[OperandReads, ...]:
    maps = analysis.output_to_input(instruction, output)
    spend(len(maps))
    utilisations = utilisation_of(instruction, maps)
    by_operand: list[list[OperandCoalescing]] = [[] for _ in utilisations]
    for access in coalescing_of(instruction, physical_of(instruction, output, maps), warp, segment_bytes):
        by_operand[access.operand].append(access)
    return tuple(
        [
            OperandReads(number, utilisation, tuple(by_operand[number]))
            for number, utilisation in enumerate(utilisations)
        ]
    )
