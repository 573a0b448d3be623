"""How a consumer, an instruction that reads arrays, uses their elements: it streams them, combines them, reads them
again, or looks them up."""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.reports.utilisation import has_offset_of_elements
from xlashape.limits import spend
from xlashape.symbolic import VariableKind
from xlashape.symbolic.expr.expression import variables_of

CACHED: Final = frozenset({"reduced", "reused", "windowed", "sorted"})
"""Ways of reading whose traffic depends on the tiles that the code generator chooses. Where an operand is read in these
ways alone, no bytes count as wasted.
"""
UNKNOWN: Final = frozenset({"gathered", "unknown"})
"""Ways of reading for which it is not known how many bytes are fetched."""

_WINDOWS: Final = frozenset({Opcode.CONVOLUTION, Opcode.REDUCE_WINDOW, Opcode.SELECT_AND_SCATTER})
_SORTS: Final = frozenset({Opcode.SORT, Opcode.TOPK})
_DECIDING: Final = _WINDOWS | _SORTS


class Consumer(NamedTuple):
    """How a consumer uses the elements of one access, one way of reading an operand."""

    kind: str
    """A text of `ACCESSES` in `xlashape.reports.vocabularies`."""
    reused_along: tuple[str, ...] = ()
    """The dimensions of the output along which the same elements are read again, with their sizes: `d1:4096`."""


def deciding_opcodes(instruction: HloInstruction) -> frozenset[str]:
    """Those of an instruction's opcode, or of the opcodes that a fusion fuses, that decide how elements are used."""
    found: set[str] = set()
    seen: set[HloComputation] = set()
    pending = [instruction]
    for each in pending:  # grows while it is gone through
        fused = each.called_computations[:1] if operation_of(each.opcode).fuses_called_computation else ()
        if not fused:
            found.add(str(each.opcode))
        elif fused[0] not in seen:
            seen.add(fused[0])
            spend(len(fused[0].instructions))
            pending += fused[0].instructions
    return _DECIDING & found


def consumer_of(access: OperandIndexing, opcodes: frozenset[str], *, reads_again: bool) -> Consumer:
    """How an instruction with these opcodes uses the elements of an access. `access` is simplified; `reads_again`:
    whether it reads some element several times.
    """
    indexing_map = access.map
    if indexing_map.is_known_empty:
        return Consumer("not read")
    if indexing_map.is_undefined or access.is_conservative:
        return Consumer("unknown")
    by_result = [variables_of([result]) for result in indexing_map.results]
    used = {variable for each in by_result for variable in each}
    dims, ranges, _ = indexing_map.variable_expressions()
    combined = [
        each for each, var in zip(ranges, indexing_map.ranges, strict=True) if each in used and var.bounds.size > 1
    ]
    along = tuple(
        [
            f"d{number}:{var.bounds.size}"
            for number, (each, var) in enumerate(zip(dims, indexing_map.dims, strict=True))
            if each not in used and var.bounds.size > 1
        ]
    )
    if has_offset_of_elements(access):
        return Consumer("gathered")
    if combined and opcodes & _SORTS:
        return Consumer("sorted", along)
    mixed = any(len({variable.kind for variable in each} - {VariableKind.RUNTIME}) > 1 for each in by_result)
    if (combined and opcodes & _WINDOWS) or (mixed and reads_again and combined):
        return Consumer("windowed" if mixed or not along else "reused", along)
    if combined:
        return Consumer("reused" if along or reads_again else "reduced", along)
    return Consumer("broadcast" if along or reads_again else "streamed", along)
