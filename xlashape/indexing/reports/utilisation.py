"""Operand utilisation: how much of an operand an instruction reads, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlashape.base.caches import cached
from xlashape.base.math import product
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded, leaf_sizes, map_bytes
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.queries import output_to_input
from xlashape.indexing.reports import counting
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap, VariableKind


class OperandUtilisation(NamedTuple):
    """How much one output reads of one operand (of all its leaves, the arrays within it, together)."""

    elements: int | None
    """How many elements the operand has. None where it or the result has an unbounded dimension."""
    distinct: int | None
    """How many of them are read at least once. None where that is not known, or there are too many to enumerate."""
    reads: int | None
    """The number of reads: the elements that the maps name, summed over the elements of the output. None as for
    `distinct`.
    """
    is_upper_bound: bool = False
    """Whether fewer than `distinct` elements may be read: which ones is known at run time only, a map is EVERY_ELEMENT
    (a custom call), or the operand is read in several ways whose common elements are too many to enumerate.
    """

    @property
    def utilisation(self) -> float | None:
        """Distinct elements read ÷ elements; 1.0 for an operand without elements."""
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

    A runtime offset of the whole operation changes which elements are read, but not how many. Where each element has an
    offset of its own (gather), `distinct` is an upper bound, and so it is where a map is EVERY_ELEMENT. Errors as for
    `output_to_input`.

    >>> from xlashape.hlo import HloModule
    >>> text = "HloModule m ENTRY e { p = f32[10] parameter(0) ROOT s = f32[5] slice(p), slice={[0:5]} }"
    >>> (read,) = operand_utilisation(HloModule.parse(text).entry.root)
    >>> read.utilisation, read.reads_per_element
    (0.5, 1.0)
    """
    return utilisation_of(instruction, output_to_input(instruction, output))


def utilisation_of(
    instruction: HloInstruction, operands: Iterable[OperandIndexingSet]
) -> tuple[OperandUtilisation, ...]:
    """`operand_utilisation`, where the maps are known."""
    is_unbounded_output = is_unbounded(instruction.shape)  # once: the shape may have as many leaves as operands
    return tuple(
        [
            OperandUtilisation(None, None, None)
            if is_unbounded_output
            else utilisation_of_operand(reads, operand.shape)
            for operand, reads in zip(instruction.operands, operands, strict=True)
        ]
    )


def utilisation_of_operand(accesses: OperandIndexingSet, operand: Shape) -> OperandUtilisation:
    """How much of an operand of this shape is read, for an output without unbounded dimensions."""
    if is_unbounded(operand):
        return OperandUtilisation(None, None, None)
    sizes = [product(dims) for dims in leaf_sizes(operand)]
    spend(1 + len(accesses))
    elements = sum(sizes)
    members = [access for access in accesses.simplify() if not access.map.is_known_empty]
    if any(access.map.is_undefined for access in members):
        return OperandUtilisation(elements, None, None)
    reads: int | None = 0
    distinct: int | None = 0
    is_upper_bound = False
    by_leaf: dict[int, list[OperandIndexing]] = {}
    for access in members:
        by_leaf.setdefault(access.leaf, []).append(access)
    for leaf, size in enumerate(sizes):
        of_leaf = by_leaf.get(leaf, [])
        for access in of_leaf:
            count = point_count_of(access.map)
            reads = None if reads is None or count is None else reads + count
        distinct_of_leaf, is_bound_of_leaf = _distinct(of_leaf, size)
        distinct = None if distinct is None or distinct_of_leaf is None else distinct + distinct_of_leaf
        is_upper_bound = is_upper_bound or is_bound_of_leaf
    return OperandUtilisation(elements, distinct, reads, is_upper_bound and distinct is not None)


def _distinct(members: list[OperandIndexing], size: int) -> tuple[int | None, bool]:
    """How many of the `size` elements of one leaf are read, and whether that is an upper bound."""
    named, is_bound = _named(members, size)
    exact = [access for access in members if not access.is_conservative]
    if len(exact) < len(members):
        is_bound = _named(exact, size) != (named, False)
    return named, is_bound


def _named(members: list[OperandIndexing], size: int) -> tuple[int | None, bool]:
    """How many of the `size` elements of one leaf the maps name, and whether that is an upper bound."""
    if not members:
        return 0, False
    if any(has_offset_of_elements(access) for access in members):
        counts = [point_count_of(access.map) for access in members]
        total = size if None in counts else sum(count for count in counts if count is not None)
        return min(size, total), True
    if len({access.runtime for access in members}) > 1:
        # Accesses with different offsets may read the same elements, or different ones.
        counts = [_distinct_elements(counting.fixed_runtime(access.map)) for access in members]
        known = [count for count in counts if count is not None]
        if size in known:
            return size, False
        return (min(size, sum(known)), True) if len(known) == len(counts) else (size, True)
    maps = list(dict.fromkeys(counting.fixed_runtime(access.map) for access in members))
    counts = [_distinct_elements(indexing_map) for indexing_map in maps]
    if size in counts or len(maps) == 1:
        best = size if size in counts else counts[0]
        return (None if best is None else min(best, size)), False
    if size <= counting.MAX_POINTS and all(
        counting.box_size(indexing_map) <= counting.MAX_POINTS for indexing_map in maps
    ):
        return _union_size(maps), False
    total = None if None in counts else sum(count for count in counts if count is not None)
    return (None, False) if total is None else (min(size, total), True)


class _Count(NamedTuple):
    """A count in a cache, since modules repeat their maps. None: there are too many points to enumerate."""

    value: int | None


def point_count_of(indexing_map: IndexingMap) -> int | None:
    """How many reads a map has, with runtime variables at their lower bounds; None where there are too many to
    enumerate.
    """
    return _kept_point_count(indexing_map).value


@cached(max_bytes=8 << 20, weigh=lambda key, value: 300 + map_bytes(key[0]))
def _kept_point_count(indexing_map: IndexingMap) -> _Count:
    return _Count(counting.point_count(counting.fixed_runtime(indexing_map)))


def _distinct_elements(indexing_map: IndexingMap) -> int | None:
    return _kept_distinct_elements(indexing_map).value


@cached(max_bytes=8 << 20, weigh=lambda key, value: 300 + map_bytes(key[0]))
def _kept_distinct_elements(indexing_map: IndexingMap) -> _Count:
    return _Count(counting.distinct_elements(indexing_map))


def has_offset_of_elements(access: OperandIndexing) -> bool:
    """Whether some runtime variable may have a different value for each element of the output."""
    return any(
        variable.kind is not VariableKind.RUNTIME
        for producer in access.runtime
        for variable in producer.map.used_variables()
    )


def _union_size(maps: list[IndexingMap]) -> int:
    """How many elements at least one of the maps reaches."""
    import numpy as np

    rows = [counting.reached_elements(indexing_map) for indexing_map in maps]
    return counting.distinct_rows(np.concatenate(rows))
