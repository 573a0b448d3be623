"""How well instructions read: utilisation and coalescing of every operand, for one instruction or for all that a module executes.

for found in operand_reads(fusion):           # one OperandReads an operand
    found.utilisation.utilisation, found.accesses[0].stride
for one in module_reads(module): ...          # one InstructionReads an output
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction, HloModule
from xlashape.indexing.answers.leaves import leaves
from xlashape.indexing.answers.operand_indexing_set import OperandIndexingSet
from xlashape.indexing.queries import checked_number, errors_name_instruction
from xlashape.indexing.reports.coalescing import OperandCoalescing, check_warp, coalescing_of
from xlashape.indexing.reports.physical import physical_of
from xlashape.indexing.reports.utilisation import OperandUtilisation, utilisation_of
from xlashape.indexing.walk.analysis import Analysis
from xlashape.limits import spend

__all__ = ["InstructionReads", "OperandReads", "executed_readers", "instruction_reads", "module_reads", "operand_reads"]

_STEPS = frozenset({"while", "conditional", "call", "async-start", "async-update", "async-done"})
"""Operations that execute the computations they call one instruction after the other. Of a fusion or a reducer, no instruction
has arrays of its own in memory."""
_NO_READS = _STEPS | {
    "tuple",
    "get-tuple-element",
    "bitcast",
    "optimization-barrier",
    "add-dependency",
    "after-all",
    "domain",
}
"""Operations that read no element themselves: they name arrays, order others, or have them executed."""


class OperandReads(NamedTuple):
    """How one output of an instruction reads one operand."""

    operand: int
    utilisation: OperandUtilisation
    accesses: tuple[OperandCoalescing, ...]
    """One for each way in which the operand is read; empty where it is not."""


class InstructionReads(NamedTuple):
    """How one output of an instruction reads its operands."""

    instruction: HloInstruction
    output: int
    operands: tuple[OperandReads, ...]
    """One an operand."""


def operand_reads(
    instruction: HloInstruction, output: int = 0, *, warp: int = 32, segment_bytes: int = 128
) -> tuple[OperandReads, ...]:
    """`operand_utilisation` and `coalescing` of each operand. Errors are theirs: an output without positions, a warp or segment below 1.

    >>> text = "HloModule m ENTRY e { p = f32[64,64] parameter(0) ROOT t = f32[64,64] transpose(p), dimensions={1,0} }"
    >>> (found,) = operand_reads(HloModule.parse(text).entry.root)
    >>> found.utilisation.utilisation, found.accesses[0].stride, found.accesses[0].transactions
    (1.0, 64, 32.0)
    """
    output = checked_number(instruction, output, "output")
    check_warp(warp, segment_bytes)
    with errors_name_instruction(instruction):
        return _reads(Analysis(), instruction, output, warp, segment_bytes)


def instruction_reads(
    instruction: HloInstruction,
    output: int | None = None,
    *,
    warp: int = 32,
    segment_bytes: int = 128,
    analysis: Analysis | None = None,
) -> Iterator[InstructionReads]:
    """`operand_reads` of one output, or of every one that is an array. `analysis` serves several instructions of one module."""
    analysis = analysis or Analysis()
    arrays = [number for number, leaf in enumerate(leaves(instruction.shape)) if leaf.is_array or leaf.is_buffer]
    for number in arrays if output is None else (output,):
        with errors_name_instruction(instruction):
            found = _reads(analysis, instruction, number, warp, segment_bytes)
        yield InstructionReads(instruction, number, found)


def module_reads(module: HloModule, *, warp: int = 32, segment_bytes: int = 128) -> Iterator[InstructionReads]:
    """`operand_reads` of every output of every instruction that `executed_readers` names; lazily.

    What was found out for one instruction serves the next. Outputs that are no arrays are left out.
    """
    check_warp(warp, segment_bytes)
    analysis = Analysis()
    for one in executed_readers(module):
        yield from instruction_reads(one, warp=warp, segment_bytes=segment_bytes, analysis=analysis)


def executed_readers(module: HloModule) -> list[HloInstruction]:
    """The instructions that read arrays from memory, in the module's order.

    Those of the entry computation and of what it executes instruction by instruction: bodies of loops, branches, calls. Not what is fused or
    applied: those have no arrays of their own in memory. Not what moves nothing either: tuples and their elements, bitcasts, and the loops,
    branches and calls themselves.
    """
    # The check is for callers without types.
    if not isinstance(module, HloModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"module takes an HloModule, not {type(module).__name__}", field="module")
    reached = {module.entry}
    pending = [module.entry]
    while pending:
        for one in pending.pop().instructions:
            if one.proto.opcode in _STEPS:
                for called in one.called_computations:
                    if called not in reached:
                        reached.add(called)
                        pending.append(called)
    return [
        one
        for computation in module.computations
        if computation in reached
        for one in computation.instructions
        if one.operands and one.proto.opcode not in _NO_READS
    ]


def _reads(
    analysis: Analysis, instruction: HloInstruction, output: int, warp: int, segment_bytes: int
) -> tuple[OperandReads, ...]:
    maps: tuple[OperandIndexingSet, ...] = analysis.output_to_input(instruction, output)
    spend(len(maps))
    used = utilisation_of(instruction, maps)
    ways = coalescing_of(instruction, physical_of(instruction, output, maps), warp, segment_bytes)
    grouped: list[list[OperandCoalescing]] = [[] for _ in used]
    for way in ways:
        grouped[way.operand].append(way)
    return tuple([OperandReads(number, use, tuple(grouped[number])) for number, use in enumerate(used)])
