"""How code asks for the maps of a called computation: without recursion, and within limits.

Computations call computations, thousands deep in made-up modules, so a recursive walk would overflow the interpreter's
stack. Code that needs the maps of a computation is written as a generator instead, which yields a request and is sent
the maps:

    def maps_of_call(computation: HloComputation) -> MapsCoroutine:
        maps = yield ComputationRequest(computation, FROM_RESULT, leaf=0)
        return maps

`Analysis` runs such a generator. When it yields a request whose answer is not known yet, `Analysis` puts it on a list,
runs the generator that walks the requested computation, and sends its result to the one that waits. A generator
delegates to another with `yield from`.

A walk through a fusion keeps up to `MAX_ACCESSES` different maps to one leaf. Beyond, a LimitExceededError of the limit
`ACCESSES` is thrown into the generator that waits for it, which may catch the error and give a coarser answer. A branch
of a conditional, or a called computation, may be a whole model with hundreds of results, each of which reads hundreds
of arrays along many paths. A walk through it gives up exactness instead, one leaf at a time:

- a leaf that more than `MAX_WAYS` different maps lead to is reached in every element, as in loops
  (`repeated.iterations`);
- a fusion within it that ends with that error is walked through once more, giving up exactness, too;
- after so many compositions of maps (`MAX_COMPOSITIONS` for all results of the computation together) so is any leaf
  that two different maps lead to.

Two calls of one computation may read at two offsets. Within the computation, the producer of an offset may be a
parameter; `with_call_arguments` names the argument that the parameter takes instead.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from xlashape.errors import LimitExceededError
from xlashape.hlo import HloComputation, HloInstruction
from xlashape.hlo.ops.calls import Arguments
from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.answers.leaves import leaf_count
from xlashape.indexing.answers.operand_indexing import Answer, OperandIndexing, OperandIndexingSet

ACCESSES = "ways_of_access"
"""The limit, as errors name it, of the different maps to one array of a computation."""

FROM_RESULT = -1
"""In place of a parameter's number: the maps lead from the result."""


class ComputationRequest(NamedTuple):
    """Asks for the maps of a computation: from a leaf of its result to its parameters, or from a leaf of a parameter to
    its result.
    """

    computation: HloComputation
    parameter: int
    """The number of the parameter, or `FROM_RESULT`."""
    leaf: int
    """Of the result, or of the parameter."""
    gives_up: bool = False
    """Whether an array that is reached in many ways is to be named in every element, instead of in too many maps for an
    answer.
    """


ComputationMaps: TypeAlias = tuple[OperandIndexingSet, ...]
"""From the result: one set for each parameter. From a parameter: one set for each leaf of the result."""

T = TypeVar("T")
Coroutine: TypeAlias = Generator[ComputationRequest, ComputationMaps, T]
"""Returns a T after it has been sent the maps that it asked for."""
MapsCoroutine: TypeAlias = Coroutine[ComputationMaps]


def with_call_arguments(instruction: HloInstruction, answer: Answer) -> Answer:
    """The maps of a call, with its arguments as producers in place of the parameters that take them; any other answer
    as it is.
    """
    if operation_of(instruction.fields.opcode).calls.arguments is not Arguments.OPERANDS:
        return answer
    called = instruction.called_computations
    if len(called) != 1:  # a while loop, whose offsets differ from iteration to iteration
        return answer
    # A fusion may have more operands than parameters.
    return seen_from_caller(answer, dict(zip(called[0].parameters, instruction.operands, strict=False)))


def seen_from_caller(answer: Answer, arguments: Mapping[HloInstruction, HloInstruction]) -> Answer:
    """The maps with what a call passes, by parameter, as producers in place of the parameters."""
    if not any(access.runtime for accesses in answer for access in accesses):
        return answer
    return tuple(
        [OperandIndexingSet([_seen_from_caller(access, arguments) for access in accesses]) for accesses in answer]
    )


def _seen_from_caller(access: OperandIndexing, arguments: Mapping[HloInstruction, HloInstruction]) -> OperandIndexing:
    if not access.runtime:
        return access
    producers = [
        producer.with_instruction(arguments.get(producer.instruction, producer.instruction))
        for producer in access.runtime
    ]
    return access.with_map(access.map, tuple(producers))


# -- limits ------------------------------------------------------------------------------------


MAX_ACCESSES = 1 << 10
"""Different maps to one leaf of an instruction in a walk that does not give up exactness."""

MAX_WAYS = 32
"""Different maps to one leaf of an instruction in a walk that gives up exactness, before they become "every element".
"""

MAX_COMPOSITIONS = 1 << 14
"""Compositions of maps in the walks from all results of one computation, or from all its parameters, before they keep
only one map to each leaf.
"""

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
        """Whether so many maps to a leaf become "every element", from now on. LimitExceededError for too many where
        that is not allowed.
        """
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
