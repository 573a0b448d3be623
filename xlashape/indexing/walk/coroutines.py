"""How code asks for the maps of a called computation: without recursion.

Computations call computations, thousands deep in made-up modules, so a recursive walk would overflow the interpreter's
stack. Code that needs the maps of a computation is written as a generator instead, which yields a request and is sent
the maps:

    def maps_of_call(computation: HloComputation) -> MapsCoroutine:
        maps = yield ComputationRequest(computation, FROM_RESULT, leaf=0)  # leaf: the number of an array in the result
        return maps

`Analysis` runs such a generator. When it yields a request whose answer is not known yet, `Analysis` puts it on a list,
runs the generator that walks the requested computation, and sends its result to the one that waits. A generator
delegates to another with `yield from`. A LimitExceededError of the limit `ACCESSES` is thrown into the generator that
waits for the walk; it may catch the error and give a coarser answer.

Two calls of one computation may read at two offsets. Within the computation, the instruction that produces an offset
may be a parameter; `seen_from_caller` names the argument that the parameter takes instead.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from xlashape.hlo import HloComputation, HloInstruction
from xlashape.indexing.answers.operand_indexing import Answer, OperandIndexing, OperandIndexingSet

ACCESSES = "ways_of_access"
"""The name that errors give to the limit of the different maps to one array of a computation."""

FROM_RESULT = -1
"""In place of a parameter's number: the maps lead from the result."""


class Repetition(Protocol):
    """How a loop takes the maps of the instructions that its body runs, in the computations that the body calls too."""

    def seen(self, instruction: HloInstruction, answer: Answer) -> Answer:
        """The maps from the result of an instruction to its operands."""
        ...

    def seen_backwards(self, instruction: HloInstruction, operand: int, answer: Answer) -> Answer:
        """The maps from an operand to the result."""
        ...


class ComputationRequest(NamedTuple):
    """Asks for the maps of a computation: from a leaf of its result to its parameters, or from a leaf of a parameter to
    its result.
    """

    computation: HloComputation
    parameter: int
    """The number of the parameter, or `FROM_RESULT`."""
    leaf: int
    """The leaf of the result, or of the parameter."""
    gives_up: bool = False
    """What happens where an array is reached in too many ways. True: the answer names every element of it. False: the
    walk ends with a LimitExceededError.
    """
    repetition: Repetition | None = None
    """How the loop that runs the computation again and again takes its maps; None outside of loops."""


ComputationMaps: TypeAlias = tuple[OperandIndexingSet, ...]
"""From the result: one set for each parameter. From a parameter: one set for each leaf of the result."""

T = TypeVar("T")
Coroutine: TypeAlias = Generator[ComputationRequest, ComputationMaps, T]
"""A generator that returns a T after it has been sent the maps that it asked for."""
MapsCoroutine: TypeAlias = Coroutine[ComputationMaps]


def seen_from_caller(answer: Answer, arguments: Mapping[HloInstruction, HloInstruction]) -> Answer:
    """The maps, with the arguments of a call as producers in place of the parameters that take them."""
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
