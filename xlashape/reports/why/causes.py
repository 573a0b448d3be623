"""The causes that make the buffer of an array larger than its elements.

The parts of a buffer are counted in this order: the elements; bits that the layout's element size, `E(n)`, adds to
each; padding of each tile and of the tail (`tiling.padding_report`); the actual sizes of dynamic dimensions. Sizes are
those of `tiling.physical_bytes` without a target, and those of `shape_util.byte_size_of` on a target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xlashape.base.math import byte_text, ceil_div, checked_int64, factor_text
from xlashape.shape import Shape, Target, Tile, shape_util, tiling, tpu_layout
from xlashape.shape.arguments import array_of
from xlashape.shape.tiling.padding import padding_report


class Cause(NamedTuple):
    """One reason why a buffer is larger than its elements.

    `kind` is one of

    - "tile": a tile pads a dimension, or several that are combined
    - "tail": the number of elements is rounded up
    - "element size": the layout's `E(n)` gives an element more bits than its type has
    - "packing": `E(n)` packs elements into bytes, or elements below 8 bits are not packed; `bytes` is 0, since the
      bytes of elements are counted as they are stored, and `saved_bytes` says what packing saves (below 0: what its
      absence costs)
    - "dynamic sizes", "metadata": the actual sizes of dynamic dimensions, behind or before the elements
    - "tuple table", "nested scalar", "opaque": what a tuple adds: its table of pointers, the larger buffers that a
      target gives to scalars in it, pointers of opaques
    """

    kind: str
    text: str
    bytes: int
    """The bytes that this cause adds after the causes before it. Their sum over all causes is the overhead of the
    buffer.
    """
    share: float
    """The fraction of the overhead, 0.0 to 1.0."""
    dimensions: tuple[int, ...] = ()
    """The logical dimensions that are padded."""
    size: int | None = None
    padded: int | None = None
    """The size with padding, of the kinds "tile" and "tail"."""
    tile: Tile | None = None
    saved_bytes: int = 0
    name: str = ""
    """The name of the buffer, where an answer has several; else empty."""

    def __str__(self) -> str:
        return f"{self.text} (+{byte_text(self.bytes)})" if self.bytes else self.text


def share_of(part: int, whole: int) -> float:
    """The fraction part / whole; 0.0 if the whole is 0."""
    return part / whole if whole else 0.0


def on_target(shape: Shape, target: Target | None) -> Shape:
    """The array with the layout that it has on the target: on a TPU the default one, if its own layout has no tiles.
    Without a target, and on others, the array itself.

    A scalar without tiles that is not in main memory stays as it is, and so do semaphores and small arrays in memory of
    their own: the compiler chose their layouts.
    """
    if target is None or not target.is_tpu:
        return shape
    space = shape.layout.memory_space if shape.layout is not None else 0
    if space and (shape.is_scalar or space in (*target.semaphore_spaces, *target.small_spaces)):
        return shape
    return tpu_layout.default_shape(shape, target)


def element_bytes_of(shape: Shape) -> int:
    """The bytes of the elements of an array alone: each in whole bytes, unless the layout packs them.

    >>> [
    ...     element_bytes_of(Shape.parse(text))
    ...     for text in ("s4[6]", "s4[6]{0:E(4)}", "pred[6]{0:E(32)}", "f32[6]{0:T(128)}")
    ... ]
    [6, 3, 6, 24]
    """
    array = array_of(shape)
    return checked_int64(ceil_div(shape_util.elements_in(array) * _own_bits(array), 8), "the bytes of the elements")


def _own_bits(array: Shape) -> int:
    """The bits of an element without those that `E(n)` adds: whole bytes, unless the layout packs elements."""
    whole_bytes = max(8, array.element_type.bit_width)
    return min(whole_bytes, tiling.stored_bits(array))


def array_bytes(shape: Shape, target: Target | None = None) -> int:
    """The bytes of an array's buffer on the target, or by its layout without a target, including the prefix for dynamic
    sizes.
    """
    if target is not None:
        return shape_util.byte_size_of(shape, target=target)
    array = array_of(shape)
    prefix = array.layout.dynamic_shape_metadata_prefix_bytes if array.layout is not None else 0
    return checked_int64(tiling.physical_bytes(array) + prefix, "the bytes of the buffer")


def array_causes(shape: Shape, target: Target | None = None) -> tuple[Cause, ...]:
    """What makes an array's buffer larger than its elements, in the order in which the parts of a buffer are counted.

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
    # An array without elements, and a scalar without tiles, have no causes of padding, but their buffers may still have
    # a tail.
    if made < elements + overhead:
        what = "an array without elements" if not count else "a scalar without tiles"
        add("tail", f"the buffer of {what} is rounded up", elements + overhead)
    return tuple(causes)


def _packing(array: Shape, count: int, stored: int) -> Cause | None:
    """What packing saves, or would save, of an array with `count` elements of `stored` bits each; None for elements of
    8 bits or more."""
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
