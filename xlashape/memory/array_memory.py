"""Why the buffer of one array is as large as it is, cause by cause.

The parts of a buffer, in this order: the elements; bits that `E(n)` adds to each; padding of each tile and of the tail
(`tiling.padding_report`); the sizes of dynamic dimensions. Sizes are those of `tiling.physical_bytes` without a target, and those of
`shape_util.byte_size_of` on a target.
"""

from __future__ import annotations

from typing import Any

from xlashape.frozen import set_field
from xlashape.math import byte_text, ceil_div, checked_int64
from xlashape.memory.answer import MemoryAnswer
from xlashape.memory.buffer_table import BUFFER_COLUMNS, buffer_row
from xlashape.memory.parts import Cause, Suggestion, factor_text, share_of
from xlashape.shape import Shape, Target, shape_util, tiling, tpu_layout
from xlashape.shape.arguments.arrays import array_of
from xlashape.shape.tiling.padding import padding_report
from xlashape.tables import Table

__all__ = ["ArrayMemory", "array_bytes", "array_causes", "element_bytes_of", "on_target"]

_SHOWN = 8
"""The text shows at most this many suggestions; `suggestions` holds all of them."""


class ArrayMemory(MemoryAnswer):
    """The explanation of the size of an array's buffer, with changes that make it smaller."""

    __slots__ = ("_buffer_bytes", "_element_bytes", "causes", "given", "shape", "suggestions", "target")
    _fields = ("shape", "given", "target", "element_bytes", "buffer_bytes", "causes", "suggestions")

    shape: Shape
    """The array with the layout that is explained."""
    given: Shape
    """The array as it was given: `shape`, unless the target's default layout took the place of a layout without tiles."""
    target: Target | None
    """The device whose sizes are computed; None for sizes by the layout alone."""
    _element_bytes: int
    _buffer_bytes: int
    causes: tuple[Cause, ...]
    """The causes of overhead, in the order in which they are applied."""
    suggestions: tuple[Suggestion, ...]
    """Changes that make the buffer smaller, the smallest result first."""

    def __init__(
        self,
        shape: Shape,
        given: Shape,
        target: Target | None,
        element_bytes: int,
        buffer_bytes: int,
        causes: tuple[Cause, ...],
        suggestions: tuple[Suggestion, ...],
    ) -> None:
        set_field(self, "shape", shape)
        set_field(self, "given", given)
        set_field(self, "target", target)
        set_field(self, "_element_bytes", element_bytes)
        set_field(self, "_buffer_bytes", buffer_bytes)
        set_field(self, "causes", causes)
        set_field(self, "suggestions", suggestions)

    @property
    def element_bytes(self) -> int:
        """The bytes of the elements alone, each with the bits of its type, rounded up to whole bytes unless `E(n)` packs elements."""
        return self._element_bytes

    @property
    def buffer_bytes(self) -> int:
        """The bytes of the buffer."""
        return self._buffer_bytes

    def facts(self) -> list[tuple[str, str]]:
        """The lines of the text, each as its heading (empty if it is that of the line before) and its text."""
        lines: list[tuple[str, str]] = []
        if self.shape != self.given:
            assert self.target is not None
            lines.append(("layout", f"{self.target.name} gives {self.given} the layout {self.shape.layout}"))
        lines.append(("elements", byte_text(self.element_bytes)))
        times = "no padding"
        if self.overhead_bytes:
            times = f"{factor_text(self.factor)} the elements" if self.element_bytes else "and no elements"
        lines.append(("buffer", f"{byte_text(self.buffer_bytes)}, {times}"))
        lines += [("" if i else "why", str(cause)) for i, cause in enumerate(self.causes)]
        if self.suggestions and not self.overhead_bytes and all(one.kind == "type" for one in self.suggestions):
            # Without padding the size is what the elements need: a line says that nothing else helps.
            types = [f"{one.shape.element_type}, {byte_text(one.buffer_bytes)}" for one in self.suggestions[:_SHOWN]]
            lines.append(("smaller", f"only with narrower elements, if the values fit: {'; '.join(types)}"))
            return lines
        lines += [("" if i else "smaller", str(one)) for i, one in enumerate(self.suggestions[:_SHOWN])]
        if len(self.suggestions) > _SHOWN:
            lines.append(("", f"and {len(self.suggestions) - _SHOWN} more"))
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a dict for JSON. Sizes are in bytes."""
        return {
            "kind": "array",
            "shape": str(self.shape),
            "given": str(self.given),
            "target": None if self.target is None else self.target.name,
            "element_bytes": self.element_bytes,
            "buffer_bytes": self.buffer_bytes,
            "overhead_bytes": self.overhead_bytes,
            "factor": self.factor,
            "causes": [cause.to_dict() for cause in self.causes],
            "suggestions": [suggestion.to_dict() for suggestion in self.suggestions],
        }

    def table(self) -> Table:
        """The buffer as a table of one row."""
        return Table(BUFFER_COLUMNS, [buffer_row(self.shape, self.element_bytes, self.buffer_bytes)])

    def __str__(self) -> str:
        return "\n".join([str(self.shape), *[f"  {head:<9} {text}" for head, text in self.facts()]])


def on_target(shape: Shape, target: Target | None) -> Shape:
    """The array with the layout it has on the target: on a TPU the default one, if the array's layout has no tiles."""
    return tpu_layout.default_shape(shape, target) if target is not None and target.is_tpu else shape


def element_bytes_of(shape: Shape) -> int:
    """The bytes of the elements of an array alone.

    >>> [element_bytes_of(Shape.parse(text)) for text in ("s4[6]", "s4[6]{0:E(4)}", "pred[6]{0:E(32)}", "f32[6]{0:T(128)}")]
    [6, 3, 6, 24]
    """
    array = array_of(shape)
    return checked_int64(ceil_div(shape_util.elements_in(array) * _own_bits(array), 8), "the bytes of the elements")


def _own_bits(array: Shape) -> int:
    whole_bytes = max(8, array.element_type.bit_width)
    return min(whole_bytes, tiling.stored_bits(array))


def array_bytes(shape: Shape, target: Target | None = None) -> int:
    """The bytes of an array's buffer on the target, or by its layout without a target, including the prefix for dynamic sizes."""
    if target is not None:
        return shape_util.byte_size_of(shape, target=target)
    array = array_of(shape)
    prefix = array.layout.dynamic_shape_metadata_prefix_bytes if array.layout is not None else 0
    return checked_int64(tiling.physical_bytes(array) + prefix, "the bytes of the buffer")


def array_causes(shape: Shape, target: Target | None = None) -> tuple[Cause, ...]:
    """What makes an array's buffer larger than its elements, in the order in which it is applied.

    >>> for cause in array_causes(Shape.parse("pred[3,128]{1,0:T(8,128)E(32)}")):
    ...     print(cause)
    E(32) gives each pred 32 bits instead of 8: 4 times as much (+1,152 bytes (1.12 KiB))
    tile (8,128) pads dimension 0 from 3 to 8: 2.667 times as much (+2,560 bytes (2.50 KiB))
    """
    array = array_of(shape)
    count = shape_util.elements_in(array)
    stored, own = tiling.stored_bits(array), _own_bits(array)
    made = elements = element_bytes_of(array)
    overhead = array_bytes(array, target) - elements
    causes: list[Cause] = []

    def add(kind: str, text: str, total: int, **more: Any) -> None:
        nonlocal made
        causes.append(Cause(kind, text, total - made, share_of(total - made, overhead), **more))
        made = total

    packing = _packing(array, count, stored)
    if packing is not None:
        causes.append(packing)
    if stored > own and count:
        times = factor_text(stored / own)
        text = f"E({stored}) gives each {array.element_type} {stored} bits instead of {own}: {times} as much"
        add("element size", text, ceil_div(count * stored, 8))
    if target is None or target.counts_padding:
        positions = count
        for padding in padding_report(array).causes:
            positions += padding.elements
            add(
                "tail" if padding.tile is None else "tile",
                str(padding),
                ceil_div(positions * stored, 8),
                dimensions=padding.dimensions,
                size=padding.size,
                padded=padding.padded,
                tile=padding.tile,
            )
        prefix = array.layout.dynamic_shape_metadata_prefix_bytes if array.layout is not None else 0
        if prefix:
            add(
                "metadata",
                f"M({prefix}) puts {byte_text(prefix)} before the elements for the actual sizes",
                made + prefix,
            )
    dynamic = target.dynamic_size_bytes * array.rank if target is not None and any(array.dynamic_dimensions) else 0
    if dynamic:
        add("dynamic sizes", f"the actual sizes of {array.rank} dimensions stand behind the elements", made + dynamic)
    # An array without elements has no causes of padding, but its buffer may still have a tail.
    if made < elements + overhead:
        add("tail", "the buffer of an array without elements is rounded up", elements + overhead)
    return tuple(causes)


def _packing(array: Shape, count: int, stored: int) -> Cause | None:
    bits = array.element_type.bit_width
    unpacked, packed = count, ceil_div(count * bits, 8)
    if bits >= 8 or not count:
        return None
    if stored < 8:
        saved = unpacked - ceil_div(count * stored, 8)
        text = f"E({stored}) packs {8 // stored} elements into a byte: {byte_text(saved)} less than one byte each"
    else:
        saved = packed - unpacked
        text = f"each {array.element_type} takes a byte of its own: {byte_text(-saved)} more than packed by E({bits})"
    return Cause("packing", text, 0, 0.0, saved_bytes=saved)
