"""What the rules of the indexing analysis take and return: their arguments, their answers, and checks of operands and
attributes. `register` has the decorators that register rules, and an example of one.

A rule is a pure function of an `Op`: the shapes of an instruction, their leaves (the arrays within them,
`answers.leaves`), and the attributes that the rule's reader took from the instruction. It answers with a `Row` for each
operand (input to output: for each output). A row holds the ways in which one array is accessed, each an `Access`. An
access names operands by their number; `walk.instruction_answers` binds it to an instruction: the access becomes an
`OperandIndexing`, the row an `OperandIndexingSet`. A rule that finds attributes which do not fit the shapes raises
`Malformed`; the analysis turns it into an InvalidModuleError that names the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from xlashape.indexing.answers.leaves import dims_of, first_leaves, leaves
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap


class Op(NamedTuple):
    """An operation as rules see it. Not the instruction itself: whatever an answer depends on is part of the `Op`, so
    equal ones share answers.
    """

    shape: Shape
    """The shape of the result."""
    operand_shapes: tuple[Shape, ...]
    attributes: Any
    """What the rule's attribute reader returned."""
    outputs: tuple[Shape, ...]
    """The leaves of the result."""
    operands: tuple[tuple[Shape, ...], ...]
    """The leaves of each operand."""
    starts: tuple[int, ...]
    """The number of each operand's first leaf when all operands' leaves are counted together; the last item is the
    number of all leaves.
    """

    @classmethod
    def of(cls, shape: Shape, operand_shapes: tuple[Shape, ...], attributes: Any) -> Op:
        """An `Op` with the leaves of the shapes."""
        operands = tuple([leaves(operand) for operand in operand_shapes])
        return cls(shape, operand_shapes, attributes, leaves(shape), operands, first_leaves(operand_shapes))

    def output_dims(self, output: int) -> tuple[int, ...]:
        """The sizes of an output's leaf."""
        return dims_of(self.outputs[output])

    def operand_dims(self, operand: int, leaf: int = 0) -> tuple[int, ...]:
        """The sizes of an operand's leaf."""
        return dims_of(self.operands[operand][leaf])

    def require_operands(self, count: int) -> None:
        """Raises Malformed unless the operation has that many operands, each one array (or token)."""
        if len(self.operands) != count:
            raise Malformed(f"has {len(self.operands)} operands instead of {count}")
        for shape in self.operand_shapes:
            if shape.is_tuple:
                raise Malformed("has a tuple among its operands")


class Runtime(NamedTuple):
    """Where the value of a runtime variable comes from: an element of an operand."""

    operand: int
    map: IndexingMap
    """The map from the variables of the access to the element. It has the dimensions of the access, and also its ranges
    if the element depends on any.
    """
    is_clamped: bool = True
    """Whether the operation clamps the value into the variable's bounds. If not, nothing is accessed where the value
    lies beyond them.
    """


class Replicas(NamedTuple):
    """Which replica holds an element, for operations across replicas."""

    map: IndexingMap
    """The map from the dimensions of the access to a position in the list of replicas that data comes from (goes to).
    """
    groups: tuple[tuple[int, ...], ...] = ()
    """Each group lists the replicas that exchange data among themselves. Empty: all replicas in order."""
    pairs: tuple[tuple[int, int], ...] | None = None
    """(source, target) instead of groups."""


class Access(NamedTuple):
    """One way in which an array is accessed."""

    map: IndexingMap
    leaf: int = 0
    """Output to input: the number of the operand's leaf. Input to output: 0."""
    runtime: tuple[Runtime | None, ...] = ()
    """Where the value of each runtime variable of the map comes from. None: it is the position of the executing replica
    in its group.
    """
    replicas: Replicas | None = None
    is_conservative: bool = False
    """Whether the map names every element, or every index along a dimension, because nothing narrower is known to be
    true.
    """
    stays_inside: bool = True
    """Whether every index that the map leads to lies within the array. If not, nothing is read at the others, which the
    map names as XLA's map does.
    """


Row: TypeAlias = tuple[Access, ...]

NOT_ACCESSED: Row = ()
"""The row of an array that is not accessed."""


class SparseRows(NamedTuple):
    """Rows, most of which are empty: a tuple of n elements has n outputs, each of which reads one of n operands."""

    length: int
    not_empty: dict[int, Row]
    """The rows that are not empty, by number."""

    def dense(self) -> tuple[Row, ...]:
        """All rows.

        >>> SparseRows(3, {1: NOT_ACCESSED}).dense()
        ((), (), ())
        """
        return tuple([self.not_empty.get(number, NOT_ACCESSED) for number in range(self.length)])


Rows: TypeAlias = tuple[Row, ...] | SparseRows


# -- checks -----------------------------------------------------------------------------------


class Malformed(Exception):
    """Attributes or operands that do not fit the operation. It never leaves `xlashape.indexing`."""


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises Malformed unless the condition holds. Pass a function where formatting the message takes longer than the
    check.
    """
    if not condition:
        raise Malformed(message if isinstance(message, str) else message())


def require_dims(what: str, dims: Sequence[int], rank: int) -> None:
    """Raises Malformed unless the numbers are different dimensions of an array of that rank."""
    if len(set(dims)) != len(dims) or (dims and not 0 <= min(dims) <= max(dims) < rank):
        raise Malformed(f"{what} {list(dims)} are not different dimensions of rank {rank}")
