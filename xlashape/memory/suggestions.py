"""Changes that make the buffer of an array smaller, each with the changed array and the exact size of its buffer.

Tiles of a changed array: where the tiles have the form that TPUs give (`tpu_layout.has_tpu_tiles`), those that a TPU gives to the changed array;
otherwise the same tiles. Changes that do not save memory are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from xlashape.errors import XlashapeError
from xlashape.memory.array_memory import ArrayMemory, array_bytes, array_causes, element_bytes_of, on_target
from xlashape.memory.parts import Suggestion
from xlashape.memory.reshapes import free_reshapes
from xlashape.shape import Layout, PrimitiveType, Shape, Target, tpu_layout
from xlashape.shape.arguments.arrays import array_of
from xlashape.shape.parts.target import TPU
from xlashape.shape.tiling.padding import padding_report

__all__ = ["array_memory", "suggestions_for"]

_KINDS = ("order", "tiles", "merge", "split", "reshape", "packing", "round", "type")
"""The kinds of suggestions; of equal sizes, the kind that changes less comes first."""

_MOST_OF_A_KIND = 3
_RESHAPES = ("merge", "split", "reshape")
_MOST_RESHAPES = 4
_MOST_RANK = 24
"""Orders and reshapes of arrays with more dimensions are not searched."""

_NARROWER = {
    "f64": "f32 bf16",
    "f32": "bf16 f8e4m3fn",
    "bf16": "f8e4m3fn f4e2m1fn",
    "f16": "f8e4m3fn f4e2m1fn",
    "c128": "c64",
    "s64": "s32 s16",
    "s32": "s16 s8",
    "s16": "s8 s4",
    "s8": "s4 s2",
    "u64": "u32 u16",
    "u32": "u16 u8",
    "u16": "u8 u4",
    "u8": "u4 u2",
}
"""By spelling, the next narrower types of the same kind. All floats of 8 bits have f4e2m1fn."""


def array_memory(shape: Shape, target: Target | None = None, *, suggest: bool = True) -> ArrayMemory:
    """Why the buffer of an array is as large as it is. Without `suggest` it has no suggestions.

    Errors as in `tiling.physical_bytes`.

    >>> memory = array_memory(Shape.parse("s32[1024,8,4]{2,1,0:T(8,128)}"))
    >>> memory.element_bytes, memory.buffer_bytes, memory.factor
    (131072, 4194304, 32.0)
    >>> print(memory.suggestions[0])
    order {0,1,2:T(8,128)}: 131,072 bytes (128.00 KiB), 3.1% of now
    """
    given = array_of(shape)
    array = on_target(given, target)
    size = array_bytes(array, target)
    return ArrayMemory(
        array,
        given,
        target,
        element_bytes_of(array),
        size,
        array_causes(array, target),
        suggestions_for(array, target) if suggest else (),
    )


def suggestions_for(shape: Shape, target: Target | None = None) -> tuple[Suggestion, ...]:
    """Changes that make the buffer of an array smaller: the smallest buffer first; of equal sizes, the one that changes less first."""
    array = array_of(shape)
    now = array_bytes(array, target)
    best: dict[Shape, Suggestion] = {}
    for kind, text, changed in _candidates(array, target):
        try:
            size = array_bytes(changed, target)
        except XlashapeError:  # the size of a changed array may exceed int64
            continue
        if size < now and changed not in best:
            best[changed] = Suggestion(kind, text, changed, size, now - size)
    ranked = sorted(best.values(), key=lambda one: (one.buffer_bytes, _KINDS.index(one.kind), one.text))
    shown: list[Suggestion] = []
    counts: dict[str, int] = {}
    for one in ranked:
        group = "reshape" if one.kind in _RESHAPES else one.kind
        counts[group] = counts.get(group, 0) + 1
        if counts[group] <= (_MOST_RESHAPES if group == "reshape" else _MOST_OF_A_KIND):
            shown.append(one)
    return tuple(shown)


def _candidates(array: Shape, target: Target | None) -> Iterator[tuple[str, str, Shape]]:
    tiler = _Tiler(array, target)
    if 0 not in array.dimensions:
        if array.rank <= _MOST_RANK and (target is None or target.counts_padding):
            yield from _orders(array, tiler)
            yield from _reshapes(array, tiler)
            yield from _rounded(array, tiler)
        yield from _packed(array)
        yield from _narrower(array, tiler)


class _Tiler:
    """Gives changed arrays their tiles."""

    def __init__(self, array: Shape, target: Target | None) -> None:
        self.layout = array.layout or Layout.default(array.rank)
        self.is_tpu = tpu_layout.has_tpu_tiles(array)
        self.target = target if target is not None and target.is_tpu else TPU

    def __call__(self, changed: Shape) -> Shape:
        """The array with tiles; its layout has its order and no tiles."""
        layout = changed.layout or Layout.default(changed.rank)
        tiles = self.layout.tiles
        if self.is_tpu:
            tiles = tpu_layout.default_tiles(
                changed.element_type, changed.dimensions, layout.minor_to_major, self.target
            )
        return changed.replace(layout=layout.replace(tiles=tiles))

    def tile_sizes(self) -> tuple[int, int]:
        """The sizes of the first tile over the second most minor and the most minor dimension; 1 where there is none."""
        sizes = self.layout.tiles[0].dimensions if self.layout.tiles else ()
        rows, lanes = (1, 1, *sizes)[-2:] if len(sizes) < 2 else sizes[-2:]
        if self.is_tpu:
            rows, lanes = 8, 128
        return max(1, rows), max(1, lanes)


def _in_order(array: Shape, order: tuple[int, ...]) -> Shape:
    layout = array.layout or Layout.default(array.rank)
    return array.replace(layout=layout.replace(minor_to_major=order, tiles=(), split_configs=()))


def _orders(array: Shape, tiler: _Tiler) -> Iterator[tuple[str, str, Shape]]:
    own = tiler.layout.minor_to_major
    if tiler.is_tpu:
        for minor in own:
            for second in own:
                if minor != second:
                    order = (minor, second, *[d for d in own if d not in (minor, second)])
                    changed = tiler(_in_order(array, order))
                    if order == own:
                        tiles = "".join(map(str, changed.layout.tiles)) if changed.layout is not None else ""
                        yield "tiles", f"tiles {tiles}", changed
                    else:
                        yield "order", f"order {changed.layout}", changed
    report = padding_report(array)
    for order in () if report.is_best else report.best_orders:
        changed = array.replace(layout=tiler.layout.replace(minor_to_major=order, split_configs=()))
        yield "order", f"order {changed.layout}", changed


def _reshapes(array: Shape, tiler: _Tiler) -> Iterator[tuple[str, str, Shape]]:
    if not tiler.layout.tiles:
        return
    for reshaped in islice(free_reshapes(array, *tiler.tile_sizes()), 1_000):
        changed = tiler(reshaped.shape)
        numbers = ", ".join(map(str, reshaped.dimensions))
        dimensions = f"dimension{'s' if len(reshaped.dimensions) > 1 else ''} {numbers}"
        verb = reshaped.kind
        if reshaped.kind == "merge" and all(array.dimensions[d] == 1 for d in reshaped.dimensions):
            verb = "drop"
        yield reshaped.kind, f"{verb} {dimensions}, which keeps the order of the elements: {changed}", changed


def _rounded(array: Shape, tiler: _Tiler) -> Iterator[tuple[str, str, Shape]]:
    now = array_bytes(array)
    padded = {d for cause in padding_report(array).causes for d in cause.dimensions}
    steps = sorted({size for tile in tiler.layout.tiles for size in tile.dimensions if size > 1} | {2, 4})
    for d in sorted(padded):
        size = array.dimensions[d]
        # More than half of the dimension stays. The largest size that makes the buffer smaller is taken.
        for rounded in sorted({size // step * step for step in steps} - {size}, reverse=True):
            if rounded * 2 < size or not rounded:
                break
            sizes = [rounded if i == d else each for i, each in enumerate(array.dimensions)]
            changed = tiler(array.replace(dimensions=sizes, layout=tiler.layout.replace(tiles=(), split_configs=())))
            if array_bytes(changed) < now:
                yield "round", f"reduce dimension {d} from {size:,} to {rounded:,}: {changed}", changed
                break


def _packed(array: Shape) -> Iterator[tuple[str, str, Shape]]:
    layout = array.layout or Layout.default(array.rank)
    bits = array.element_type.bit_width
    if layout.element_size_in_bits > bits:
        stored = bits if bits < 8 else 0
        changed = array.replace(layout=layout.replace(element_size_in_bits=stored))
        yield "packing", f"store each {array.element_type} in {bits} bits: {changed}", changed
    elif not layout.element_size_in_bits and bits < 8:
        changed = array.replace(layout=layout.replace(element_size_in_bits=bits))
        yield "packing", f"pack the elements by E({bits}): {changed}", changed


def _narrower(array: Shape, tiler: _Tiler) -> Iterator[tuple[str, str, Shape]]:
    kind = array.element_type
    names = _NARROWER.get(kind.text, "f4e2m1fn" if kind.is_floating and kind.bit_width == 8 else "")
    for name in names.split():
        narrow = PrimitiveType.parse(name)
        bits = narrow.bit_width if narrow.bit_width < 8 else 0
        layout = tiler.layout.replace(tiles=(), element_size_in_bits=bits, split_configs=())
        changed = tiler(array.replace(element_type=narrow, layout=layout))
        yield "type", f"elements of {name}, if the values fit: {changed}", changed
