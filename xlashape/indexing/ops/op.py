"""What a rule may know of an instruction: its shapes, their leaves and the attributes that the rule's reader took from it.

And what a rule answers with: for each operand (input to output: for each output) a row, the accesses of one array. An access names operands by their
number, not by their instruction. `walk.instruction_answers` binds it to an instruction: it becomes an `OperandIndexing`, a row becomes an
`OperandIndexingSet`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from xlashape.indexing.answers.leaves import dims_of, first_leaves, leaves
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap


class Op(NamedTuple):
    """An operation as rules see it. Not the instruction itself: whatever an answer depends on is part of the `Op`, so equal ones share answers."""

    shape: Shape
    """Of the result."""
    operand_shapes: tuple[Shape, ...]
    attributes: Any
    """What the rule's attribute reader returned."""
    outputs: tuple[Shape, ...]
    """The leaves of the result."""
    operands: tuple[tuple[Shape, ...], ...]
    """The leaves of each operand."""
    starts: tuple[int, ...]
    """The number of each operand's first leaf when all operands' leaves are counted together; the last item is how many there are."""

    @classmethod
    def of(cls, shape: Shape, operand_shapes: tuple[Shape, ...], attributes: Any) -> Op:
        """With the leaves of the shapes."""
        operands = tuple([leaves(operand) for operand in operand_shapes])
        return cls(shape, operand_shapes, attributes, leaves(shape), operands, first_leaves(operand_shapes))


def output_dims(op: Op, output: int) -> tuple[int, ...]:
    """The sizes of an output's leaf."""
    return dims_of(op.outputs[output])


def operand_dims(op: Op, operand: int, leaf: int = 0) -> tuple[int, ...]:
    """The sizes of an operand's leaf."""
    return dims_of(op.operands[operand][leaf])


class Runtime(NamedTuple):
    """Where the value of a runtime variable comes from: an element of an operand."""

    operand: int
    map: IndexingMap
    """From the variables of the access to the element. It has the dimensions of the access; its ranges too if it depends on any."""
    is_clamped: bool = True
    """Whether the operation clamps the value into the variable's bounds. If not, nothing is accessed where the value lies beyond them."""


class Replicas(NamedTuple):
    """Which replica holds an element, for operations across replicas."""

    map: IndexingMap
    """From the dimensions of the access to a position in the list of replicas that data comes from (goes to)."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Replicas that exchange data among themselves. Empty: all replicas in order."""
    pairs: tuple[tuple[int, int], ...] | None = None
    """(source, target) instead of groups."""


class Access(NamedTuple):
    """One way in which an array is accessed."""

    map: IndexingMap
    leaf: int = 0
    """Output to input: which leaf of the operand. Input to output: 0."""
    runtime: tuple[Runtime | None, ...] = ()
    """One for each runtime variable of the map. None: the position of the executing replica in its group."""
    replicas: Replicas | None = None
    is_conservative: bool = False
    """The map names every element because nothing narrower is known to be true."""


Row: TypeAlias = tuple[Access, ...]

NOT_ACCESSED: Row = ()
"""The row of an array that is not accessed."""


class SparseRows(NamedTuple):
    """Rows of which few are not empty. A tuple of n elements has n outputs, each of which reads one of n operands."""

    length: int
    not_empty: dict[int, Row]
    """By number."""

    def dense(self) -> tuple[Row, ...]:
        """All rows.

        >>> SparseRows(3, {1: NOT_ACCESSED}).dense()
        ((), (), ())
        """
        return tuple([self.not_empty.get(number, NOT_ACCESSED) for number in range(self.length)])


Rows: TypeAlias = tuple[Row, ...] | SparseRows
