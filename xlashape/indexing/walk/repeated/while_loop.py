"""The maps of a while loop. Hard code: read `iterations` first, which holds the algorithm.

The state is what the body takes and returns, a tuple of arrays (leaves). From an output, the walk goes from the last
iteration back to the first; from the operand, forwards.

- The number of iterations is known (`trip_count`): an element comes from where that many iterations lead.
- It is not known: an element comes from where any number of iterations leads, none included. The condition decides how
  often the body runs, so an array that the body changes depends on what the condition reads as well.
- A leaf that the body returns unchanged is the leaf of the operand, however often the body runs.

    while (i, x) with i < 3: (i + 1, reverse(x))

    The trip count is 3. Output x reads the operand's x by (d0) -> (-d0 + 7), what three reversals are, and does not
    read i.

What is given up:

- An offset within the body that does not follow from a counter (see `timed`) is taken to have any value within its
  bounds in each iteration, whatever it was in the iteration before; the maps are marked as conservative. From the
  operand on, this holds of every offset.
- Where the frontiers are given up (see `iterations`), or the body runs more than `MAX_INSTRUCTIONS` instructions, as
  that of a transformer's layers does, only the dependencies between arrays are used: the maps name every element of
  each array that the result depends on, and are marked as conservative.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.base.caches import cached
from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.leaves import leaf_sizes, scalar_value
from xlashape.indexing.answers.operand_indexing import NOT_ACCESSED, OperandIndexing, OperandIndexingSet, set_of
from xlashape.indexing.ops.rows import everything, identity, to_scalar
from xlashape.indexing.walk.coroutines import ACCESSES, FROM_RESULT, ComputationRequest, Coroutine, MapsCoroutine
from xlashape.indexing.walk.dependencies import (
    Dependencies,
    KnownContents,
    dependencies,
    origin,
    origins,
    reachable_from,
    reaching,
    successors_first,
)
from xlashape.indexing.walk.instruction_answers import check_output
from xlashape.indexing.walk.repeated import iterations
from xlashape.indexing.walk.repeated.counters import Counters
from xlashape.indexing.walk.repeated.iterations import Compose, Dims, Frontier, StateWalk, StepMaps, ValueNumbers
from xlashape.indexing.walk.repeated.repetition import LoopBody
from xlashape.indexing.walk.repeated.timed import TimedWalk
from xlashape.indexing.walk.repeated.trip_count import stated, trip_count
from xlashape.shape import Shape


def _starts(loop: HloInstruction, arrays: int) -> dict[int, int]:
    """The integers that arrays of the state begin with, by leaf: constants, and what XLA says of the counter."""
    found = [scalar_value(origin(loop.operands[0], leaf)[0]) for leaf in range(arrays)]
    starts = {leaf: number for leaf, number in enumerate(found) if number is not None}
    config = loop.details.backend_config
    counter = stated(config, "known_induction_variable", "tuple_index")
    start = stated(config, "known_init_step", "init")
    if counter is not None and start is not None and counter < arrays == len(loop.shape.tuple_shapes):
        starts.setdefault(counter, start)
    return starts


# -- loops -------------------------------------------------------------------------------------


class WhileLoop:
    """A while loop. The constructor raises InvalidModuleError unless the operand, the parameters of body and condition
    and the result of the body all have the shape of the loop, and the condition gives a scalar.
    """

    def __init__(self, instruction: HloInstruction, compose: Compose, known: KnownContents) -> None:
        self.instruction = instruction
        self.compose = compose
        self.arrays = _sizes(instruction.shape)
        called = instruction.called_computations
        fits = (
            len(called) == 2
            and len(instruction.operands) == 1
            and all(len(computation.parameters) == 1 for computation in called)
        )
        if fits:
            self.body, self.condition = called
            states = (instruction.operands[0], self.body.parameters[0], self.body.root, self.condition.parameters[0])
            is_scalar = _sizes(self.condition.root.shape) == ((),)
            fits = is_scalar and all(_sizes(state.shape) == self.arrays for state in states)
        if not fits:
            raise InvalidModuleError(
                f"instruction {instruction.name!r} (while) has a body or operands that do not fit it"
            )
        parameter = self.body.parameters[0]
        self.is_changed = [
            source != (parameter, leaf) for leaf, source in enumerate(origins(self.body.root, len(self.arrays)))
        ]
        self.count = trip_count(instruction, self.body, self.condition) if any(self.is_changed) else 0
        """How often the body runs; None where it is not known. A body that changes nothing need not run."""
        self._timed: TimedWalk | None = None
        self._repetition: LoopBody | None = None
        self._known = known
        self._dependencies: tuple[Dependencies, Dependencies] | None = None
        self._order: list[int] | None = None
        self._is_given_up = False

    # -- from an output -------------------------------------------------------------------------

    def from_output(self, output: int) -> MapsCoroutine:
        """One set, for the operand."""
        check_output(self.instruction, output, len(self.arrays))
        dims = self.arrays[output]
        if not self.is_changed[output] or self.count == 0:
            return (set_of(identity(dims)[0].map, output),)
        if self._is_followed():
            try:
                return (yield from self._followed_back(output))
            except LimitExceededError as error:
                self._give_up(error)
        body, _ = self._body_and_condition()
        mattering = reachable_from(1 << output | self._leaves_of_condition(), body.leaves)
        return (_every_element_of(dims, self.arrays, mattering, body.contents.exchanges),)

    def _followed_back(self, output: int) -> MapsCoroutine:
        dims = self.arrays[output]
        walk = self._state_walk(self.body, dims, self._maps_back)
        first = iterations.start_at(dims, output)
        if self.count is not None:
            if self._timed is not None and (yield from self._varies(output)):
                found = yield from self._timed.from_output(output)
                if found is not None:
                    return (found,)
            last = (yield from walk.frontiers(first, self.count)).after(self.count)
            if last is not None:
                return (_set_of_frontier(last),)
        else:
            # The elements that the condition reads matter too: add them to the start.
            (reads_of_condition,) = yield ComputationRequest(self.condition, FROM_RESULT, 0)
            to_condition = OperandIndexing(to_scalar(dims)[0].map)
            for read in reads_of_condition:
                composed = walk.through_step(to_condition, read)
                if not composed.map.is_known_empty:
                    first.setdefault(composed.leaf, {})[composed] = None
        return (_set_of_frontier((yield from walk.closure(first))),)

    def _maps_back(self, leaf: int) -> Coroutine[Sequence[OperandIndexing]]:
        (reads,) = yield ComputationRequest(self.body, FROM_RESULT, leaf, repetition=self._repetition)
        return reads

    def _varies(self, output: int) -> Coroutine[bool]:
        """Whether the maps of some iterations differ from those of others, in arrays that the output depends on."""
        pending, seen = [output], {output}
        while pending:
            for access in (yield from self._maps_back(pending.pop())):
                if access.runtime or access.is_conservative:
                    return True
                if access.leaf not in seen:
                    seen.add(access.leaf)
                    pending.append(access.leaf)
        return False

    # -- from the operand -----------------------------------------------------------------------

    def from_operand(self, leaf: int) -> MapsCoroutine:
        """One set for each leaf of the result."""
        dims = self.arrays[leaf]
        first = iterations.start_at(dims, leaf)
        if self.count == 0:
            return self._sets_by_leaf(first)
        if self._is_followed():
            try:
                return (yield from self._followed_forward(leaf))
            except LimitExceededError as error:
                self._give_up(error)
        body, _ = self._body_and_condition()
        if self._order is None:
            self._order = successors_first(body.leaves)
        dependents = reaching(1 << leaf, body.leaves, self._order)
        decides = bool(dependents & self._leaves_of_condition())
        for output, is_changed in enumerate(self.is_changed):
            if is_changed and (decides or dependents >> output & 1):
                access = iterations.every_element(dims, self.arrays[output], output, exchanges=body.contents.exchanges)
                first[output] = {access: None}
        return self._sets_by_leaf(first)

    def _followed_forward(self, leaf: int) -> MapsCoroutine:
        dims = self.arrays[leaf]
        first = iterations.start_at(dims, leaf)
        walk = self._state_walk(self.body, dims, self._maps_forward)
        if self.count is not None:
            last = (yield from walk.frontiers(first, self.count)).after(self.count)
            if last is not None:
                return self._sets_by_leaf(last)
        union = yield from walk.closure(first)
        if self.count is None:
            yield from self._add_condition(dims, union)
        return self._sets_by_leaf(union)

    def _maps_forward(self, leaf: int) -> Coroutine[Sequence[OperandIndexing]]:
        answer = yield ComputationRequest(self.body, 0, leaf, repetition=self._repetition)
        return [access.with_leaf(output) for output, writes in enumerate(answer) for access in writes]

    def _add_condition(self, dims: Dims, union: Frontier) -> Coroutine[None]:
        """Adds that elements which the condition reads, in any iteration, take part in every element that the body
        changes.
        """
        exchanges = self._body_and_condition()[1].contents.exchanges
        walk = StateWalk(self.condition, dims, {0: ()}, self._maps_forward, self.compose, exchanges=exchanges)
        for leaf, accesses in [(leaf, list(accesses)) for leaf, accesses in union.items()]:
            (to_condition,) = yield ComputationRequest(self.condition, 0, leaf)
            for access in accesses:
                for step in to_condition:
                    decides = walk.through_step(access, step)
                    if decides.map.is_known_empty:
                        continue
                    for output, target in enumerate(self.arrays):
                        if self.is_changed[output]:
                            to_output = OperandIndexing(everything((), target).map, leaf=output)
                            union.setdefault(output, {})[self.compose(decides, to_output)] = None

    def _sets_by_leaf(self, frontier: Frontier) -> tuple[OperandIndexingSet, ...]:
        sets = [NOT_ACCESSED] * len(self.arrays)
        for output, accesses in frontier.items():
            sets[output] = OperandIndexingSet([access.with_leaf(0) for access in accesses])
        return tuple(sets)

    # -- both directions ------------------------------------------------------------------------

    def _state_walk(self, body: HloComputation, dims: Dims, step_maps: StepMaps) -> StateWalk:
        exchanges = any(known.contents.exchanges for known in self._body_and_condition())
        return StateWalk(body, dims, dict(enumerate(self.arrays)), step_maps, self.compose, exchanges=exchanges)

    def _is_followed(self) -> bool:
        """Whether the maps of the body are followed, instead of the dependencies between arrays alone."""
        instructions = sum(known.contents.instructions for known in self._body_and_condition())
        is_followed = not self._is_given_up and instructions <= iterations.MAX_INSTRUCTIONS
        if is_followed and self._repetition is None:
            self._repetition = LoopBody(None)
            if self.count:
                values = ValueNumbers(self.body)
                counters = Counters(self.body, self.count, _starts(self.instruction, len(self.arrays)), values.origin)
                self._timed = TimedWalk(self.body, self.count, self.arrays, self.is_changed, counters, values)
                self._repetition = self._timed.plain
        return is_followed

    def _give_up(self, error: LimitExceededError) -> None:
        """The body reads an array in too many ways: from now on only dependencies are used. Raises any other error
        again.
        """
        if error.limit != ACCESSES:
            raise error
        self._is_given_up = True

    def _body_and_condition(self) -> tuple[Dependencies, Dependencies]:
        if self._dependencies is None:
            self._dependencies = dependencies(self.body, self._known), dependencies(self.condition, self._known)
        return self._dependencies

    def _leaves_of_condition(self) -> int:
        """The leaves that decide how often the body runs, as bits; none where the number is known."""
        return self._body_and_condition()[1].leaves[0] if self.count is None else 0


def _set_of_frontier(frontier: Frontier) -> OperandIndexingSet:
    return OperandIndexingSet([access for _, accesses in sorted(frontier.items()) for access in accesses])


# Keeping results saves 60 % of the time of the maps of a loop over 200 arrays that is too large to be followed.
@cached(max_bytes=4 << 20, weigh=lambda key, value: 500 + 100 * len(key[1]) + 600 * len(value))
def _every_element_of(dims: Dims, arrays: tuple[Dims, ...], mattering: int, exchanges: bool) -> OperandIndexingSet:
    """Every element of the arrays in the set `mattering`."""
    return OperandIndexingSet(
        [
            iterations.every_element(dims, sizes, leaf, exchanges=exchanges)
            for leaf, sizes in enumerate(arrays)
            if mattering >> leaf & 1
        ]
    )


# Keeping results saves a fifth of the time of the maps of such a loop.
@cached(max_bytes=4 << 20, weigh=lambda key, value: 200 + 430 * len(value))
def _sizes(shape: Shape) -> tuple[Dims, ...]:
    return tuple(leaf_sizes(shape))
