"""The origin of a leaf: where it was computed, before tuples, their elements and copies handed it on unchanged."""

from __future__ import annotations

from bisect import bisect_right

from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import element_starts
from xlashape.limits import spend


def origin(instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int]:
    """The instruction, and its leaf, that computes a leaf.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[] parameter(0) t = (f32[]) tuple(p) ROOT r = f32[] get-tuple-element(t), index=0 }"
    >>> computed_by, leaf = origin(HloModule.parse(text).entry.root, 0)
    >>> computed_by.name, leaf
    ('p', 0)
    """
    current = instruction, leaf
    while (source := _handed_on_from(*current)) is not None:
        current = source
    return current


def origins(instruction: HloInstruction, count: int) -> list[tuple[HloInstruction, int]]:
    """The origins of leaves 0 to count - 1. A path that several leaves share is followed once."""
    found: list[tuple[HloInstruction, int]] = []
    known: dict[tuple[HloInstruction, int], tuple[HloInstruction, int]] = {}
    for leaf in range(count):
        current = instruction, leaf
        path: list[tuple[HloInstruction, int]] = []
        while (end := known.get(current)) is None and (source := _handed_on_from(*current)) is not None:
            path.append(current)
            current = source
        spend(len(path))
        found.append(current if end is None else end)
        known |= dict.fromkeys(path, found[-1])
    return found


def _handed_on_from(instruction: HloInstruction, leaf: int) -> tuple[HloInstruction, int] | None:
    """The leaf of an operand that a leaf of the instruction is; None where the instruction computes it."""
    opcode = instruction.proto.opcode
    if opcode == Opcode.TUPLE:
        starts = element_starts(instruction.shape)
        if not 0 <= leaf < starts[-1] or len(starts) != len(instruction.operands) + 1:
            return None
        number = bisect_right(starts, leaf) - 1
        return instruction.operands[number], leaf - starts[number]
    if opcode == Opcode.GET_TUPLE_ELEMENT and instruction.operands and instruction.operands[0].shape.is_tuple:
        starts = element_starts(instruction.operands[0].shape)
        if not 0 <= instruction.proto.tuple_index < len(starts) - 1:
            return None
        return instruction.operands[0], leaf + starts[instruction.proto.tuple_index]
    passes = operation_of(opcode).passes_first_operand_through and bool(instruction.operands)
    return (instruction.operands[0], leaf) if passes else None
