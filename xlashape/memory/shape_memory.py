"""Explains the size of the buffers of any shape: an array, or a tuple with its tables and elements."""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.frozen import set_field
from xlashape.math import byte_text, checked_int64
from xlashape.memory.answer import MemoryAnswer
from xlashape.memory.array_memory import ArrayMemory
from xlashape.memory.buffer_table import BUFFER_COLUMNS, buffer_row
from xlashape.memory.parts import Cause, factor_text, share_of
from xlashape.memory.suggestions import array_memory
from xlashape.shape import Shape, ShapeIndex, Target, shape_util
from xlashape.tables import Table

__all__ = ["TupleElement", "TupleMemory", "shape_memory"]

_SHOWN = 20
"""The maximum of a tuple's elements in the text."""


class TupleElement(NamedTuple):
    """A buffer of a tuple: that of an array in it, or the table of pointers of the tuple itself or of a tuple in it."""

    shape_index: ShapeIndex
    shape: Shape
    buffer_bytes: int
    array: ArrayMemory | None
    """The explanation of an array's buffer; None for tables, tokens and opaques."""

    def to_dict(self) -> dict[str, Any]:
        """The buffer as a dict for JSON."""
        return {
            "index": str(self.shape_index),
            "shape": str(self.shape),
            "buffer_bytes": self.buffer_bytes,
            "array": None if self.array is None else self.array.to_dict(),
        }


class TupleMemory(MemoryAnswer):
    """The explanation of a tuple's buffers: its table of pointers, and the buffers of its elements.

    A token or an opaque is explained as a tuple with one element: itself.
    """

    __slots__ = _fields = ("shape", "target", "elements")

    shape: Shape
    target: Target | None
    elements: tuple[TupleElement, ...]
    """A tuple before its elements."""

    def __init__(self, shape: Shape, target: Target | None, elements: tuple[TupleElement, ...]) -> None:
        set_field(self, "shape", shape)
        set_field(self, "target", target)
        set_field(self, "elements", elements)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements of all arrays."""
        return sum([one.array.element_bytes for one in self.elements if one.array is not None])

    @property
    def buffer_bytes(self) -> int:
        """The bytes of all buffers."""
        return checked_int64(sum([one.buffer_bytes for one in self.elements]), "the bytes of all buffers")

    @property
    def table_bytes(self) -> int:
        """The bytes of the tables of pointers."""
        return sum([one.buffer_bytes for one in self.elements if one.shape.is_tuple])

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes that the tuple adds: its tables of pointers, and overhead of the arrays within it. The causes of the arrays themselves are in `elements`."""
        causes: list[Cause] = []
        overhead = self.overhead_bytes
        tables = [one for one in self.elements if one.shape.is_tuple]
        if self.table_bytes:
            many = f"the tables of pointers of {len(tables)} tuples" if len(tables) > 1 else "the table of pointers"
            text = f"{many}: {byte_text(self.table_bytes)}"
            causes.append(Cause("tuple table", text, self.table_bytes, share_of(self.table_bytes, overhead)))
        nested = [one for one in self.elements if one.array is not None and one.buffer_bytes != one.array.buffer_bytes]
        added = sum([one.buffer_bytes - one.array.buffer_bytes for one in nested if one.array is not None])
        if nested and self.target is not None:
            text = f"{len(nested)} scalar{'s' if len(nested) > 1 else ''} inside the tuple take {byte_text(self.target.nested_scalar_bytes)} each"
            causes.append(Cause("nested scalar", text, added, share_of(added, overhead)))
        own = sum([one.array.overhead_bytes for one in self.elements if one.array is not None])
        if own:
            causes.append(Cause("tile", f"padding of the arrays: {byte_text(own)}", own, share_of(own, overhead)))
        opaque = overhead - sum([cause.bytes for cause in causes])
        if opaque:
            causes.append(
                Cause("opaque", f"pointers of opaques: {byte_text(opaque)}", opaque, share_of(opaque, overhead))
            )
        return tuple(causes)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes."""
        return {
            "kind": "tuple",
            "shape": str(self.shape),
            "target": None if self.target is None else self.target.name,
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "causes": [cause.to_dict() for cause in self.causes],
            "elements": [element.to_dict() for element in self.elements],
        }

    def table(self) -> Table:
        """A row for each buffer. Tables of pointers have no elements."""
        return Table(
            BUFFER_COLUMNS,
            [
                buffer_row(
                    one.shape if one.array is None else one.array.shape,
                    0 if one.array is None else one.array.element_bytes,
                    one.buffer_bytes,
                    index=one.shape_index,
                )
                for one in self.elements
            ],
        )

    def __str__(self) -> str:
        times = f", {factor_text(self.factor)} the elements" if self.overhead_bytes and self.element_bytes else ""
        lines = [str(self.shape), f"  elements  {byte_text(self.element_bytes)}"]
        lines.append(f"  buffers   {byte_text(self.buffer_bytes)}{times}")
        lines += [f"  {'' if i else 'why':<9} {cause.text}" for i, cause in enumerate(self.causes)]
        for element in self.elements[:_SHOWN]:
            head = f"{element.shape_index} "
            if element.array is None:
                what = "the table" if element.shape.is_tuple else str(element.shape)
                lines.append(f"  {head}{what}: {byte_text(element.buffer_bytes)}")
            else:
                lines.append("\n".join(["  " + line for line in (head + str(element.array)).splitlines()]))
        if len(self.elements) > _SHOWN:
            lines.append(f"  and {len(self.elements) - _SHOWN} more")
        return "\n".join(lines)


def shape_memory(shape: Shape, target: Target | None = None) -> ArrayMemory | TupleMemory:
    """Why the buffers of a shape are as large as they are. Errors as in `tiling.physical_bytes`.

    >>> print(shape_memory(Shape.parse("(f32[], f32[2]{0:T(128)})"), Target.of("tpu")).buffer_bytes)  # 512 + 4,096 + 512
    5120
    """
    if shape.is_array or shape.is_buffer:
        return array_memory(shape, target)
    elements: list[TupleElement] = []
    for inner, index in shape_util.for_each_subshape(shape):
        array = array_memory(inner, target) if inner.is_array or inner.is_buffer else None
        if array is None:
            size = shape_util.byte_size_of(inner, target=target)
        elif target is not None and index and inner.is_scalar and target.nested_scalar_bytes:
            size = target.nested_scalar_bytes
        else:
            size = array.buffer_bytes
        elements.append(TupleElement(index, inner, size, array))
    return TupleMemory(shape, target, tuple(elements))
