"""What a rule may know of an instruction: its shapes, their leaves and the attributes that the rule's reader took from it."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.indexing.answers.leaves import dims_of, first_leaves, leaves
from xlashape.shape import Shape

__all__ = ["Op", "operand_dims", "output_dims"]


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
