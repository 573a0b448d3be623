"""Reshapes that keep the order of all elements in memory: other dimensions of the same array, at no cost if tiles are ignored.

A reshape keeps the row-major number of each element. Dimensions that are adjacent both in the shape and in memory form a *run*:
within it row-major order is the order of memory, so that merging its dimensions, or splitting it at other places, keeps the linear order of all
elements. Dimensions of size 1 have no order, and can be dropped. These are the reshapes for which
`shape_util.reshape_is_bitcast` is true of the arrays without their tiles. If the tiles differ, the device copies the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from xlashape.math import product, round_up
from xlashape.shape import Layout, Shape

__all__ = ["Reshaped", "free_reshapes"]

_SPLITS = 8
"""The maximum of ways to split a run; those with the least padding come first."""

_LARGEST_PRIME = 1 << 10
"""Larger prime factors of a size are not searched."""

_MOST_DIVISORS = 1_024


class Reshaped(NamedTuple):
    """An array with other dimensions. `kind` is "merge", "split" or "reshape"; `dimensions` are those of the old shape that change."""

    kind: str
    shape: Shape
    dimensions: tuple[int, ...]


def free_reshapes(shape: Shape, rows: int, lanes: int) -> Iterator[Reshaped]:
    """Reshapes of an array that may need less memory, with the layout's order but without tiles.

    `rows` and `lanes` are the sizes of the tile over the second most minor and the most minor dimension: runs are split so
    that tiles have the least padding.

    >>> [f"{one.kind} {one.shape}" for one in free_reshapes(Shape.parse("f32[6,4]"), 1, 8)][:3]
    ['merge f32[24]{0}', 'reshape f32[3,8]{1,0}', 'reshape f32[1,24]{1,0}']
    """
    layout = shape.layout or Layout.default(shape.rank)
    kept = [d for d in range(shape.rank) if shape.dimensions[d] != 1 or shape.dynamic_dimensions[d]]
    ones = tuple([d for d in range(shape.rank) if d not in kept])
    if ones:
        yield Reshaped("merge", _with_groups(shape, layout, [(d,) for d in kept], {}), ones)
    if 0 in shape.dimensions:
        return
    for first, last in _runs(shape, layout, kept):
        run = tuple(kept[first : last + 1])
        others = [(d,) for d in kept]
        merged = [*others[:first], run, *others[last + 1 :]]
        changed = tuple(sorted(run + ones))
        kind = "split" if len(changed) == 1 else "reshape"
        if len(run) > 1:
            yield Reshaped("merge", _with_groups(shape, layout, merged, {}), changed)
        for major, minor in _splits(product([shape.dimensions[d] for d in run]), rows, lanes):
            sizes = (major, minor)
            if sizes != tuple([shape.dimensions[d] for d in run]):
                yield Reshaped(kind, _with_groups(shape, layout, merged, {run: sizes}), changed)


def _runs(shape: Shape, layout: Layout, kept: list[int]) -> list[tuple[int, int]]:
    """The first and the last of each list of neighbours in `kept` that can be merged; longer lists first."""
    place = {d: at for at, d in enumerate([d for d in layout.major_to_minor if d in set(kept)])}
    found: list[tuple[int, int]] = []
    for first in range(len(kept)):
        last = first
        if shape.dynamic_dimensions[kept[first]]:
            continue
        found.append((first, first))
        while (
            last + 1 < len(kept)
            and place[kept[last + 1]] == place[kept[last]] + 1
            and not shape.dynamic_dimensions[kept[last + 1]]
        ):
            last += 1
            found.append((first, last))
    return sorted(found, key=lambda run: run[0] - run[1])


def _with_groups(
    shape: Shape, layout: Layout, groups: list[tuple[int, ...]], splits: dict[tuple[int, ...], tuple[int, int]]
) -> Shape:
    """The array whose dimensions are groups of old ones, some of which are split in two. The old order in memory is kept."""
    number_of: dict[int, list[int]] = {}
    sizes: list[int] = []
    dynamic: list[bool] = []
    for group in groups:
        new = splits.get(group) or (product([shape.dimensions[d] for d in group]),)
        number_of[group[0]] = list(range(len(sizes), len(sizes) + len(new)))
        sizes += new
        dynamic += [len(group) == 1 and shape.dynamic_dimensions[group[0]]] * len(new)
    order: list[int] = []
    for d in layout.major_to_minor:
        order += number_of.get(d, [])
    plain = Layout(order[::-1], element_size_in_bits=layout.element_size_in_bits, memory_space=layout.memory_space)
    plain = plain.replace(
        tail_padding_alignment_in_elements=layout.tail_padding_alignment_in_elements,
        dynamic_shape_metadata_prefix_bytes=layout.dynamic_shape_metadata_prefix_bytes,
    )
    return Shape.array(shape.element_type, sizes, plain, dynamic)


def _splits(size: int, rows: int, lanes: int) -> list[tuple[int, int]]:
    """Pairs (major, minor) with this product, those with the least padding under a tile of rows × lanes first."""

    def padding(minor: int) -> tuple[int, int]:
        major = size // minor
        return round_up(minor, lanes) * round_up(major, rows), abs(minor - lanes)

    minors = [divisor for divisor in _divisors(size) if divisor > 1]
    return [(size // minor, minor) for minor in islice(sorted(minors, key=padding), _SPLITS)]


def _divisors(size: int) -> list[int]:
    """Divisors of a size, at least those made of small primes."""
    divisors = [1]
    rest, prime = size, 2
    while rest > 1 and len(divisors) <= _MOST_DIVISORS:
        if prime > _LARGEST_PRIME or prime * prime > rest:
            prime = rest
        power = 1
        found = list(divisors)
        while rest % prime == 0:
            rest //= prime
            power *= prime
            divisors += [divisor * power for divisor in found]
        prime += 1
    return divisors
