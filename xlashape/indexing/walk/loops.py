"""Maps of a while loop: the maps of its body, followed from the last iteration back to the first.

The number of iterations may be known (`trip_counts`): then an element comes from where that many iterations lead. If not, it may come from
where any number of them leads, none included, and an array that the body changes depends on what the condition reads as well: that decides how
often the body runs. An array that the body hands on untouched is what came in.

Maps that repeat after some iterations are exact, whatever the number; `rounds` says when "every element" takes the place of too many. What is
read at an offset is read at any offset: iterations do not know of one another. Of a body of very many instructions, as of a transformer's layers,
it is only told which arrays depend on which.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.ops.build import dims_of, everything, identity, to_scalar
from xlashape.indexing.ops.registry import leaves
from xlashape.indexing.walk.analysis import EMPTY
from xlashape.indexing.walk.leaf_dependencies import (
    Dependencies,
    dependencies,
    ends_first,
    origins,
    reached_from,
    reaching,
)
from xlashape.indexing.walk.requests import WAYS_OF_ACCESS, Asking, Request, Steps
from xlashape.indexing.walk.rounds import MAX_INSTRUCTIONS, Compose, Dims, Frontier, Step, Walk, moved_to, start, whole
from xlashape.indexing.walk.trip_counts import trip_count
from xlashape.shape import Shape

__all__ = ["Loop"]

MAX_KEPT_MEMBERS = 1 << 5
"""Members of a set that is kept for the next loop. Of n arrays that all depend on one another, n sets have n members each."""


class Loop:
    """A while loop, checked: its body takes and returns what goes round."""

    def __init__(
        self, instruction: HloInstruction, compose: Compose, counted: dict[HloComputation, tuple[int, bool]]
    ) -> None:
        self.name = instruction.name
        self.compose = compose
        called = instruction.called_computations
        self.arrays = _sizes(instruction.shape)
        fits = len(called) == 2 and len(instruction.operands) == 1 and all(len(one.parameters) == 1 for one in called)
        if fits:
            self.body, self.condition = called
            state = (instruction.operands[0], self.body.parameters[0], self.body.root, self.condition.parameters[0])
            fits = all(_sizes(one.shape) == self.arrays for one in state) and _sizes(self.condition.root.shape) == ((),)
        if not fits:
            raise InvalidModuleError(f"instruction {self.name!r} (while) has a body or operands that do not fit it")
        parameter = self.body.parameters[0]
        self.changed = [
            found != (parameter, leaf) for leaf, found in enumerate(origins(self.body.root, len(self.arrays)))
        ]
        self.count = trip_count(instruction, self.body, self.condition) if any(self.changed) else 0
        self._dependencies: tuple[Dependencies, Dependencies] | None = None
        self._order: list[int] | None = None
        self._given_up = False
        self._counted = counted

    # -- from a result ------------------------------------------------------------------------------------------------------------

    def from_output(self, output: int) -> Steps:
        """One set, for the operand."""
        if not 0 <= output < len(self.arrays):
            raise InvalidArgumentError(f"{self.name} has no output {output}: it has {len(self.arrays)}", field="output")
        dims = self.arrays[output]
        if not self.changed[output] or self.count == 0:
            return (_handed_on(dims, output),)
        if self._is_followed():
            try:
                return (yield from self._followed_back(output))
            except LimitExceededError as error:
                self._give_up(error)
        body, _ = self._known()
        mask = reached_from(1 << output | self._control(), body.leaves)
        if mask.bit_count() > MAX_KEPT_MEMBERS:
            return (_every_element.__wrapped__(dims, self.arrays, mask, body.exchanges),)
        return (_every_element(dims, self.arrays, mask, body.exchanges),)

    def _followed_back(self, output: int) -> Steps:
        dims = self.arrays[output]
        walk = self._walk(self.body, dims, self._back)
        first = start(dims, output)
        if self.count is not None:
            found = (yield from walk.rounds(first, self.count)).after(self.count)
            if found is not None:
                return (_set(found),)
        else:
            (deciding,) = yield Request(self.condition, -1, 0)
            decided = OperandIndexing(to_scalar(dims)[0].map)
            for one in deciding:
                found = walk.through(decided, one)
                if not found.map.is_known_empty:
                    first.setdefault(found.leaf, {})[found] = None
        return (_set((yield from walk.closure(first))),)

    def _back(self, leaf: int) -> Asking[Sequence[OperandIndexing]]:
        (read,) = yield Request(self.body, -1, leaf)
        return read

    # -- from what goes in --------------------------------------------------------------------------------------------------------

    def from_operand(self, leaf: int) -> Steps:
        """One set for each leaf of the result."""
        dims = self.arrays[leaf]
        first = start(dims, leaf)
        if self.count == 0:
            return self._by_leaf(first)
        if self._is_followed():
            try:
                return (yield from self._followed_forth(leaf))
            except LimitExceededError as error:
                self._give_up(error)
        body, _ = self._known()
        if self._order is None:
            self._order = ends_first(body.leaves)
        reached = reaching(1 << leaf, body.leaves, self._order)
        decides = bool(reached & self._control())
        for output, changed in enumerate(self.changed):
            if changed and (decides or reached >> output & 1):
                every = whole(dims, self.arrays[output], output, exchanged=body.exchanges)
                first[output] = {every: None}
        return self._by_leaf(first)

    def _followed_forth(self, leaf: int) -> Steps:
        dims = self.arrays[leaf]
        first = start(dims, leaf)
        walk = self._walk(self.body, dims, self._forth)
        if self.count is not None:
            found = (yield from walk.rounds(first, self.count)).after(self.count)
            if found is not None:
                return self._by_leaf(found)
        found = yield from walk.closure(first)
        if self.count is None:
            yield from self._deciding(dims, found)
        return self._by_leaf(found)

    def _forth(self, leaf: int) -> Asking[Sequence[OperandIndexing]]:
        answer = yield Request(self.body, 0, leaf)
        return [moved_to(one, output) for output, written in enumerate(answer) for one in written]

    def _deciding(self, dims: Dims, found: Frontier) -> Asking[None]:
        """Elements that the condition reads, in whichever iteration, take part in everything that the body changes."""
        exchanged = self._known()[1].exchanges
        walk = Walk(self.condition, dims, {0: ()}, self._forth, self.compose, exchanged=exchanged)
        for leaf, members in [(leaf, list(members)) for leaf, members in found.items()]:
            (decided,) = yield Request(self.condition, 0, leaf)
            for member in members:
                for one in decided:
                    decides = walk.through(member, one)
                    if decides.map.is_known_empty:
                        continue
                    for output, target in enumerate(self.arrays):
                        if self.changed[output]:
                            every = OperandIndexing(everything((), target).map, leaf=output)
                            found.setdefault(output, {})[self.compose(decides, every)] = None

    def _by_leaf(self, found: Frontier) -> tuple[OperandIndexingSet, ...]:
        sets = [EMPTY] * len(self.arrays)
        for output, members in found.items():
            sets[output] = OperandIndexingSet([moved_to(one, 0) for one in members])
        return tuple(sets)

    # -- both ---------------------------------------------------------------------------------------------------------------------

    def _walk(self, body: HloComputation, dims: Dims, step: Step) -> Walk:
        exchanged = any(known.exchanges for known in self._known())
        return Walk(body, dims, dict(enumerate(self.arrays)), step, self.compose, exchanged=exchanged)

    def _is_followed(self) -> bool:
        return not self._given_up and sum(known.instructions for known in self._known()) <= MAX_INSTRUCTIONS

    def _give_up(self, error: LimitExceededError) -> None:
        """Maps of the body that are too many leave what depends on what."""
        if error.limit != WAYS_OF_ACCESS:
            raise error
        self._given_up = True

    def _known(self) -> tuple[Dependencies, Dependencies]:
        if self._dependencies is None:
            self._dependencies = dependencies(self.body, self._counted), dependencies(self.condition, self._counted)
        return self._dependencies

    def _control(self) -> int:
        """The leaves that decide how often the body runs, as bits."""
        return self._known()[1].leaves[0] if self.count is None else 0


def _set(found: Frontier) -> OperandIndexingSet:
    return OperandIndexingSet([member for _, members in sorted(found.items()) for member in members])


@lru_cache(maxsize=1 << 10)
def _handed_on(dims: Dims, leaf: int) -> OperandIndexingSet:
    return OperandIndexingSet([OperandIndexing(identity(dims)[0].map, leaf=leaf)])


@lru_cache(maxsize=1 << 10)
def _every_element(dims: Dims, arrays: tuple[Dims, ...], mask: int, exchanged: bool) -> OperandIndexingSet:
    return OperandIndexingSet(
        [whole(dims, own, leaf, exchanged=exchanged) for leaf, own in enumerate(arrays) if mask >> leaf & 1]
    )


@lru_cache(maxsize=1 << 10)
def _sizes(shape: Shape) -> tuple[Dims, ...]:
    return tuple([dims_of(leaf) for leaf in leaves(shape)])
