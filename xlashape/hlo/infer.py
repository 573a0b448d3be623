"""Shapes of results that text leaves out. What XLA's shape inference answers for the operations whose shape may be left out."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.proto import xla
from xlashape.shape import Shape

__all__ = ["infer_shape"]


def infer_shape(
    opcode: str, message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]
) -> Shape | str:
    """The result's shape with its default layout, or what is wrong."""
    return f"the shape of {opcode} must be written"
