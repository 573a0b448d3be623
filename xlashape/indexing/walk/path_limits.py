"""How many maps a walk through one computation keeps, and what it does with more.

A fusion is small, and its maps are what XLA answers: a walk through it keeps up to `MAX_ACCESSES` different maps to one leaf, and ends with a
LimitExceededError beyond. A branch of a conditional, or a called computation, may be a whole model with hundreds of results, each of which reads
hundreds of arrays along many paths. A walk through it gives up exactness instead, one leaf at a time:

- a leaf that more than `MAX_WAYS` different maps lead to is reached in every element, as in loops (`repeated.iterations`);
- a fusion within it that ends with that error is walked through once more, giving up exactness, too;
- after so many compositions of maps (`MAX_COMPOSITIONS` for all results of the computation together) so is any leaf that two different maps lead to.
"""

from __future__ import annotations

from xlashape.errors import LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.leaves import leaf_count
from xlashape.indexing.walk.coroutines import ACCESSES

MAX_ACCESSES = 1 << 10
"""Different maps to one leaf of an instruction in a walk that does not give up exactness."""

MAX_WAYS = 32
"""Different maps to one leaf of an instruction in a walk that gives up exactness, before they become "every element"."""

MAX_COMPOSITIONS = 1 << 14
"""Compositions of maps in the walks from all results of one computation, or from all its parameters, before they keep only one map to each leaf."""

MIN_COMPOSITIONS = 1 << 6
"""Compositions that each of these walks may make however many there are."""


class PathLimits:
    """The limits of one walk, and what it has used of them."""

    def __init__(self, compositions: int | None) -> None:
        self._left = compositions
        self.given_up: set[tuple[HloInstruction, int]] = set()
        """The leaves that have become "every element"."""

    @classmethod
    def exact(cls) -> PathLimits:
        """Of a walk that raises a LimitExceededError where a leaf has too many maps."""
        return cls(None)

    @classmethod
    def giving_up(cls, computation: HloComputation) -> PathLimits:
        """Of a walk that names every element of a leaf that has too many maps.

        Each walk has its share of the compositions, so that an answer does not depend on the questions before it.
        """
        walks = leaf_count(computation.root.shape) + sum([leaf_count(p.shape) for p in computation.parameters])
        return cls(max(MIN_COMPOSITIONS, MAX_COMPOSITIONS // max(1, walks)))

    @property
    def are_exact(self) -> bool:
        """Whether the walk keeps every map, and ends with an error where there are too many."""
        return self._left is None

    def spend(self, compositions: int) -> None:
        """Counts compositions of maps."""
        if self._left is not None:
            self._left -= compositions

    def gives_up(self, instruction: HloInstruction, leaf: int, ways: int) -> bool:
        """Whether so many maps to a leaf become "every element", from now on. LimitExceededError for too many where that is not allowed."""
        if self._left is not None:
            if ways <= (MAX_WAYS if self._left >= 0 else 1):
                return False
            self.given_up.add((instruction, leaf))
            return True
        if ways > MAX_ACCESSES:
            raise LimitExceededError(
                f"instruction {instruction.name!r} is accessed in more than {MAX_ACCESSES} different ways",
                limit=ACCESSES,
                maximum=MAX_ACCESSES,
                value=ways,
            )
        return False
