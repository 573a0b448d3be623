"""The size of a buffer, padding included, and a report on its padding: how much each tile adds along which dimension,
and which orders of the dimensions would have the least padding.

>>> print(padding_report(Shape.parse("s32[8388608,8,4]{2,1,0:T(8,128)}")))
s32[8388608,8,4]{2,1,0:T(8,128)}
  elements   1,073,741,824 bytes (1.00 GiB)
  buffer     34,359,738,368 bytes (32.00 GiB), 32 times the elements: 96.9% is padding
  why        tile (8,128) pads dimension 2 from 4 to 128: 32 times as much
  better     {0,1,2:T(8,128)}: 1,073,741,824 bytes (1.00 GiB), no padding

Sizes are those of `tiling.physical_bytes`, which ignores split configs and metadata. XLA has no function for this.
"""

from __future__ import annotations

from itertools import permutations
from math import perm
from typing import NamedTuple

from xlashape.base.caches import cached
from xlashape.base.math import byte_text, ceil_div, factor_text, product, round_up
from xlashape.errors import SizeOverflowError
from xlashape.limits import INT64_MAX
from xlashape.shape.arguments import array_of, guarded, not_a_shape
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.tile import Tile
from xlashape.shape.tiling.formula import geometry, tile_steps
from xlashape.shape.value.shape import Layout, Shape, shape_bytes


def physical_dimensions(shape: Shape) -> tuple[int, ...]:
    """The sizes after all tiles, most major first; the tail padding is not among them. Errors as in
    `tiling.linear_index`.

    >>> physical_dimensions(Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}"))
    (3, 3, 4, 128, 2, 1)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).physical


def physical_elements(shape: Shape) -> int:
    """The elements of the buffer, padding included. Errors as in `tiling.linear_index`.

    >>> physical_elements(Shape.parse("f32[3,5]{1,0:T(8,128)}"))
    1024
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    return geometry(shape).elements


def physical_bytes(shape: Shape) -> int:
    """The bytes of the buffer, padding included; elements packed by `E(n)` share bytes. Errors as in
    `tiling.linear_index`.

    Split configs are ignored. Dynamic dimensions count with their bounds; the metadata that some devices put before the
    data is not counted.

    >>> physical_bytes(Shape.parse("f32[3,5]{1,0:T(8,128)}")), physical_bytes(Shape.parse("s4[5]{0:E(4)}"))
    (4096, 3)
    """
    if type(shape) is not Shape:
        raise not_a_shape(shape)
    size = ceil_div(geometry(shape).elements * stored_bits(shape), 8)
    if size > INT64_MAX:
        raise SizeOverflowError(
            f"the bytes of {brief(shape)}, padding included, do not fit int64: {size}", field="shape"
        )
    return size


def stored_bits(shape: Shape) -> int:
    """The bits from one element of the buffer to the next: the layout's `E(n)`, or without it the width of the element
    type, at least 8.

    >>> (
    ...     stored_bits(Shape.parse("s4[5]")),
    ...     stored_bits(Shape.parse("s4[5]{0:E(4)}")),
    ...     stored_bits(Shape.parse("pred[5]")),
    ... )
    (8, 4, 8)
    """
    array = array_of(shape)
    bits = array.layout.element_size_in_bits if array.layout else 0
    return bits or max(8, array.element_type.bit_width)


# -- padding -----------------------------------------------------------------------------------


_MAX_ORDERS = 100_000
"""The largest number of dimension numbers in all orders to compare. If there are more, the orders are not compared, and
the report names none.
"""

_NAMED_ORDERS = 8
"""The largest number of equally good orders that a report names."""


class PaddingCause(NamedTuple):
    """One size that does not fill its tile, or the tail.

    `what` says in words what is padded: `size` becomes `padded`. `dimensions` are the logical dimensions of which the
    padded size is made (none for the tail, and for a dimension that is added because a tile has more sizes than the
    array has dimensions). `tile` is the tile that pads, number `tile_number` of the layout; both are None for the tail.
    `elements` is the number of elements that this cause adds after the causes before it, so that the sum over all
    causes is all padding.
    """

    what: str
    dimensions: tuple[int, ...]
    size: int
    padded: int
    tile: Tile | None
    tile_number: int | None
    elements: int

    @property
    def factor(self) -> float:
        """How many times as big this cause makes the buffer."""
        return self.padded / self.size

    def __str__(self) -> str:
        by = "the tail" if self.tile is None else f"tile {self.tile}"
        return f"{by} pads {self.what} from {self.size:,} to {self.padded:,}: {_growth(self.factor)}"


class PaddingReport(NamedTuple):
    """The sizes of an array and its buffer, and what makes the difference.

    - `logical_elements`, `physical_elements`; `logical_bytes`, `physical_bytes`: without and with padding. Elements
      below 8 bits share bytes if the layout says `E(n)`.
    - `causes`: what pads, in the order in which it is applied; the tail, if it pads, comes last.
    - `best_orders`: `minor_to_major` orders that make the smallest buffer with the same tiles, 8 at most, those nearest
      to the layout's own order first. If several orders put the same sizes under the tiles, only the nearest is listed.
      Empty if there are too many orders to compare.
    - `best_bytes`: the bytes of the buffer with any of `best_orders`.
    """

    shape: Shape
    logical_elements: int
    physical_elements: int
    logical_bytes: int
    physical_bytes: int
    causes: tuple[PaddingCause, ...]
    best_orders: tuple[tuple[int, ...], ...]
    best_bytes: int

    @property
    def padding_elements(self) -> int:
        """Elements of the buffer that hold no element of the array."""
        return self.physical_elements - self.logical_elements

    @property
    def padding_bytes(self) -> int:
        """Bytes of the buffer beyond those of the elements."""
        return self.physical_bytes - self.logical_bytes

    @property
    def padding_share(self) -> float:
        """The fraction of the buffer that is padding, 0.0 to 1.0."""
        return self.padding_elements / self.physical_elements if self.physical_elements else 0.0

    @property
    def expansion(self) -> float:
        """How many times as big as its elements the buffer is; 1.0 for an empty array."""
        return self.physical_elements / self.logical_elements if self.logical_elements else 1.0

    @property
    def is_best(self) -> bool:
        """Whether no other order of the dimensions makes a smaller buffer."""
        return self.best_bytes >= self.physical_bytes

    def facts(self) -> list[tuple[str, str]]:
        """The lines of the report, each as a heading and a text. The heading is empty if it is the same as before.

        >>> padding_report(Shape.parse("f32[4]")).facts()
        [('elements', '16 bytes'), ('buffer', '16 bytes, no padding')]
        """
        lines = [("elements", byte_text(self.logical_bytes))]
        buffer = byte_text(self.physical_bytes)
        if self.padding_elements:
            times = factor_text(self.expansion)
            share = f"{self.padding_share:.1%} is padding"
            if share.startswith("0.0%") and self.padding_bytes:
                share = f"{byte_text(self.padding_bytes)} are padding"
            lines.append(("buffer", f"{buffer}, {times} the elements: {share}"))
        else:
            lines.append(("buffer", f"{buffer}, no padding"))
        lines += [("" if i else "why", str(cause)) for i, cause in enumerate(self.causes)]
        if not self.is_best:
            rest = self.best_bytes - self.logical_bytes
            saved = f"{byte_text(self.best_bytes)}, " + ("padding of " + byte_text(rest) if rest else "no padding")
            layout = _layout(self.shape)
            for i, order in enumerate(self.best_orders[:3]):
                text = str(layout.replace(minor_to_major=order, split_configs=()))
                lines.append(("", f"{text}: the same") if i else ("better", f"{text}: {saved}"))
        elif self.padding_elements and self.best_orders:
            lines.append(("better", "no other order of the dimensions makes it smaller"))
        return lines

    def __str__(self) -> str:
        return "\n".join([str(self.shape), *[f"  {head:<10} {text}" for head, text in self.facts()]])


def _weight(key: tuple[Shape], report: PaddingReport) -> int:
    orders = sum([80 + 8 * len(order) for order in report.best_orders])
    return 2 * shape_bytes(key[0]) + 700 + 600 * len(report.causes) + orders


@guarded
@cached(max_bytes=4 << 20, weigh=_weight)
def padding_report(shape: Shape) -> PaddingReport:
    """How much of a buffer is padding, and why. Errors as in `tiling.physical_bytes`.

    >>> report = padding_report(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    >>> report.logical_bytes, report.physical_bytes, report.padding_share
    (60, 96, 0.375)
    >>> for cause in report.causes:
    ...     print(cause)
    tile (2,2) pads dimension 0 from 3 to 4: 33.3% more
    tile (2,2) pads dimension 1 from 5 to 6: 20% more
    """
    shape = array_of(shape)
    array = geometry(shape)
    size = physical_bytes(shape)
    logical = product(array.dimensions)
    bits = stored_bits(shape)
    causes = _causes(shape) if logical else []
    orders, best = _best_orders(shape)
    return PaddingReport(
        shape=shape,
        logical_elements=logical,
        physical_elements=array.elements,
        logical_bytes=ceil_div(logical * bits, 8),
        physical_bytes=size,
        causes=tuple(causes),
        best_orders=orders,
        best_bytes=ceil_div(best * bits, 8),
    )


def _causes(shape: Shape) -> list[PaddingCause]:
    array = geometry(shape)
    causes: list[PaddingCause] = []
    elements = product(array.dimensions)
    # For each physical dimension its name, and the logical dimensions that it is made of.
    names: list[tuple[str, tuple[int, ...]]] = [(f"dimension {d}", (d,)) for d in array.major_to_minor]
    for number, (step, tile) in enumerate(zip(array.steps, _layout(shape).tiles, strict=True)):
        names = [("a dimension that the tile adds", ())] * step.added + names
        at = len(step.kept)
        counts: list[tuple[str, tuple[int, ...]]] = []
        insides: list[tuple[str, tuple[int, ...]]] = []
        for group, size, t in zip(step.groups, step.sizes, step.tile, strict=True):
            what, dimensions = _combined(names[at : at + len(group)])
            at += len(group)
            padded = round_up(size, t)
            if padded > size:
                added = elements // size * (padded - size)
                causes.append(PaddingCause(what, dimensions, size, padded, tile, number, added))
                elements += added
            counts.append((what if t == 1 else f"the tiles along {what}", dimensions))
            insides.append((f"the inside of a tile along {what}", dimensions))
        names = names[: len(step.kept)] + counts + insides
    if array.elements > elements:
        causes.append(PaddingCause("all elements", (), elements, array.elements, None, None, array.elements - elements))
    return causes


def _combined(names: list[tuple[str, tuple[int, ...]]]) -> tuple[str, tuple[int, ...]]:
    if len(names) == 1:
        return names[0]
    dimensions = tuple(dict.fromkeys([d for _, several in names for d in several]))
    if all(what == f"dimension {several[0]}" for what, several in names if several):
        *first, last = [str(d) for d in dimensions] or ["none"]
        return (f"dimensions {', '.join(first)} and {last} combined" if first else f"dimension {last}"), dimensions
    return " and ".join([what for what, _ in names]) + " combined", dimensions


def _best_orders(shape: Shape) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The orders with the fewest elements in the buffer, and this number of elements."""
    array = geometry(shape)
    layout = _layout(shape)
    rank = len(array.dimensions)
    own = layout.minor_to_major
    reach = _reach(rank, layout.tiles)
    if perm(rank, reach) * rank > _MAX_ORDERS:
        return (), array.elements
    sizes = [array.dimensions[d] for d in own]
    least = array.elements
    # For the sizes of the dimensions that tiles reach: the elements, and the nearest order with these sizes.
    elements_by_sizes: dict[tuple[int, ...], int] = {tuple(sizes[:reach]): least}
    nearest: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {tuple(sizes[:reach]): (0, own)}
    for minor in permutations(own, reach):
        key = tuple([array.dimensions[d] for d in minor])
        # Dimensions that no tile reaches keep their order.
        order = (*minor, *[d for d in own if d not in minor])
        elements = elements_by_sizes.get(key)
        if elements is None:
            steps = tile_steps(tuple([array.dimensions[d] for d in reversed(order)]), layout.tiles)
            elements = elements_by_sizes[key] = round_up(
                product(steps[-1].result), layout.tail_padding_alignment_in_elements
            )
        if elements < least:
            least, nearest = elements, {}
        if elements == least:
            candidate = (sum([a != b for a, b in zip(order, own, strict=True)]), order)
            nearest[key] = min(candidate, nearest.get(key, candidate))
    return tuple([order for _, order in sorted(nearest.values())][:_NAMED_ORDERS]), least


def _reach(rank: int, tiles: tuple[Tile, ...]) -> int:
    """How many of the most minor dimensions the tiles apply to, directly or after earlier tiles have split them."""
    return rank - min([rank, *[len(step.kept) for step in tile_steps((1,) * rank, tiles)]])


def _layout(shape: Shape) -> Layout:
    return shape.layout or Layout.default(shape.rank)


def _growth(factor: float) -> str:
    return f"{factor_text(factor)} as much" if factor >= 2 else f"{100 * (factor - 1):.3g}% more"
