"""Operand utilisation: how much of an operand an instruction reads, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import dims_of, is_unbounded, leaves
from xlashape.indexing.answers.operand_indexing import OperandIndexing
from xlashape.indexing.answers.operand_indexing_set import OperandIndexingSet
from xlashape.indexing.queries import output_to_input
from xlashape.indexing.reports.counting import (
    MAX_POINTS,
    box_size,
    distinct_elements,
    fixed_runtime,
    point_count,
    reached_elements,
)
from xlashape.limits import spend
from xlashape.math import product
from xlashape.symbolic import IndexingMap, VariableKind

__all__ = ["OperandUtilisation", "operand_utilisation", "utilisation_of"]


class OperandUtilisation(NamedTuple):
    """What one output reads of one operand (of all its leaves together)."""

    elements: int | None
    """How many elements the operand has. None where a dimension is unbounded."""
    distinct: int | None
    """How many of them are read at least once. None where that is unknown, or too much to go through."""
    reads: int | None
    """How many reads there are: for every element of the output, one for each element that its maps name."""
    is_upper_bound: bool = False
    """`distinct` may be less: which elements are read is known at run time only."""

    @property
    def utilisation(self) -> float | None:
        """Distinct elements read ÷ elements; 1.0 of an operand without elements."""
        if self.distinct is None or self.elements is None:
            return None
        return self.distinct / self.elements if self.elements else 1.0

    @property
    def reads_per_element(self) -> float | None:
        """Reads ÷ distinct elements read; 0.0 where nothing is read."""
        if self.reads is None or self.distinct is None:
            return None
        return self.reads / self.distinct if self.distinct else 0.0


def operand_utilisation(instruction: HloInstruction, output: int = 0) -> tuple[OperandUtilisation, ...]:
    """How much of each operand the instruction reads for one of its outputs.

    A runtime offset of the whole operation moves what is read and changes no count. Where an offset belongs to each element (gather), distinct
    elements are an upper bound. Errors as for `output_to_input`.
    """
    return utilisation_of(instruction, output_to_input(instruction, output))


def utilisation_of(
    instruction: HloInstruction, operands: Iterable[OperandIndexingSet]
) -> tuple[OperandUtilisation, ...]:
    """`operand_utilisation`, where the maps are known."""
    found: list[OperandUtilisation] = []
    for operand, read in zip(instruction.operands, operands, strict=True):
        if is_unbounded(operand.shape):
            found.append(OperandUtilisation(None, None, None))
            continue
        sizes = [product(dims_of(leaf)) for leaf in leaves(operand.shape)]
        found.append(_utilisation(read.simplify(), sizes))
    return tuple(found)


def _utilisation(read: OperandIndexingSet, sizes: list[int]) -> OperandUtilisation:
    spend(1 + len(read))
    elements = sum(sizes)
    members = [one for one in read if not one.map.is_known_empty]
    if any(one.map.is_undefined for one in members):
        return OperandUtilisation(elements, None, None)
    reads: int | None = 0
    distinct: int | None = 0
    bound = False
    of_leaf: dict[int, list[OperandIndexing]] = {}
    for one in members:
        of_leaf.setdefault(one.leaf, []).append(one)
    for leaf, size in enumerate(sizes):
        own = of_leaf.get(leaf, [])
        for one in own:
            count = _point_count(one.map)
            reads = None if reads is None or count is None else reads + count
        found, upper = _distinct(own, size)
        distinct = None if distinct is None or found is None else distinct + found
        bound = bound or upper
    return OperandUtilisation(elements, distinct, reads, bound and distinct is not None)


def _distinct(members: list[OperandIndexing], size: int) -> tuple[int | None, bool]:
    """How many of the `size` elements of one leaf are read, and whether that is an upper bound."""
    if not members:
        return 0, False
    if any(_varies(one) for one in members):
        counts = [_point_count(one.map) for one in members]
        total = size if None in counts else sum(count for count in counts if count is not None)
        return min(size, total), True
    if len({one.runtime for one in members}) > 1:
        # Offsets of their own move what each of them reads: over the same elements or beside one another.
        counts = [_distinct_elements(fixed_runtime(one.map)) for one in members]
        known = [count for count in counts if count is not None]
        if size in known:
            return size, False
        return (min(size, sum(known)), True) if len(known) == len(counts) else (size, True)
    maps = list(dict.fromkeys(fixed_runtime(one.map) for one in members))
    counts = [_distinct_elements(one) for one in maps]
    if size in counts or len(maps) == 1:
        best = size if size in counts else counts[0]
        return (None if best is None else min(best, size)), False
    if size <= MAX_POINTS and all(box_size(one) <= MAX_POINTS for one in maps):
        return _union(maps), False
    total = None if None in counts else sum(count for count in counts if count is not None)
    return (None, False) if total is None else (min(size, total), True)


# Modules repeat their maps, so counts are kept.


@lru_cache(maxsize=1 << 12)
def _point_count(found: IndexingMap) -> int | None:
    return point_count(fixed_runtime(found))


@lru_cache(maxsize=1 << 12)
def _distinct_elements(found: IndexingMap) -> int | None:
    return distinct_elements(found)


def _varies(one: OperandIndexing) -> bool:
    """Whether a runtime variable has a value of its own for each element."""
    return any(
        variable.kind is not VariableKind.RUNTIME
        for producer in one.runtime
        for variable in producer.map.used_variables()
    )


def _union(maps: list[IndexingMap]) -> int:
    import numpy as np

    rows = [reached_elements(one) for one in maps]
    return len(np.unique(np.concatenate(rows), axis=0))
