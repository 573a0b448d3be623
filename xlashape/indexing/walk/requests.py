"""What the analysis of one instruction asks of the computations that it calls.

Rules that look into computations are generators: they yield a request, are sent its answer, and return theirs. Whoever runs them keeps a list
of those that wait, so computations that call computations never take the interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

from xlashape.hlo import HloComputation
from xlashape.indexing.answers.operand_indexing import OperandIndexingSet

__all__ = ["WAYS_OF_ACCESS", "Asking", "Request", "Sets", "Steps"]

WAYS_OF_ACCESS = "ways_of_access"
"""The limit whose error a request may be answered with: the computation reads something in too many ways."""


class Request(NamedTuple):
    """The maps of a computation: from a leaf of its result to its parameters, or from a leaf of a parameter to its result."""

    computation: HloComputation
    parameter: int
    """-1: from the result."""
    leaf: int


Sets: TypeAlias = tuple[OperandIndexingSet, ...]
"""One set a parameter; for a request from a parameter, one for each leaf of the result."""

T = TypeVar("T")
Asking: TypeAlias = Generator[Request, Sets, T]
"""Something that returns a T after it has asked for what it needs."""
Steps: TypeAlias = Generator[Request, Sets, Sets]
