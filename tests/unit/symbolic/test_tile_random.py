"""Symbolic tiles of random maps, against enumeration: digits of numbers, sums of them, windows, reshapes that collapse
and split elsewhere.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from xla_tiles import elements_of, elements_read

from xlashape.symbolic import IndexingMap, symbolic_tile


def digits(rng: random.Random) -> str:
    """The digits of one dimension to some radices: not all of them, not in order, and the dimension may go beyond
    them.
    """
    radices = [rng.choice([1, 2, 3, 4, 5, 6, 8, 16]) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
    results: list[str] = []
    divisor = 1
    for i, radix in enumerate(radices):
        last = i == len(radices) - 1 and rng.random() < 0.7
        results.append(f"d0 / {divisor}" if last else f"(d0 / {divisor}) mod {radix}")
        divisor *= radix
    if rng.random() < 0.3:
        rng.shuffle(results)
    if rng.random() < 0.3:
        results[0] = f"({results[0]}) * {rng.choice([-2, -1, 3])}"
    high = max(0, divisor * rng.choice([1, 1, 2, 3]) - 1 - rng.choice([0, 0, 0, 1, 2]))
    return f"(d0) -> ({', '.join(results)}), domain: d0 in [{rng.choice([0, 0, 0, 0, min(1, high)])}, {high}]"


def sums(rng: random.Random) -> str:
    """Dimensions and range variables side by side, with gaps, with overlaps, in either direction, moved at run time,
    cut off.
    """
    terms: list[str] = []
    domain: list[str] = []
    factor, counts = rng.choice([1, 1, 2, 3]), Counter[str]()
    for _ in range(rng.choice([1, 2, 2, 3, 4])):
        kind, size = rng.choice("dds"), rng.choice([1, 2, 3, 4, 5, 8])
        name = f"{kind}{counts[kind]}"
        counts[kind] += 1
        terms.append(f"{name} * {factor if rng.random() < 0.85 else -factor}")
        domain.append(f"{name} in [0, {size - 1}]")
        factor = max(1, factor * size + rng.choice([0, 0, 0, 0, -1, 1, -size]))
    rng.shuffle(terms)
    expr = " + ".join(terms) + f" + {rng.randrange(9)}"
    runtime = rng.random() < 0.3
    domain.sort()
    if runtime:
        expr += " + rt0 * 2"
        domain.append("rt0 in [0, 5]")
    results = [expr, *(["d0"] if counts["d"] and rng.random() < 0.2 else [])]
    if rng.random() < 0.3:
        domain.append(f"{expr} in [{rng.randrange(9)}, {rng.randrange(9, 40)}]")
    head = [", ".join([f"{kind}{i}" for i in range(counts[kind])]) for kind in "ds"]
    ranges = f"[{head[1]}]" if head[1] else ""
    return f"({head[0]}){ranges}{'{rt0}' if runtime else ''} -> ({', '.join(results)}), domain: {', '.join(domain)}"


def windows(rng: random.Random) -> str:
    """A window with stride, dilations of itself and of its base, and padding."""
    stride, dilation, base = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([1, 1, 2, 3])
    window, padding, outputs = rng.choice([1, 2, 3, 4]), rng.choice([0, 1, 2]), rng.choice([5, 8, 13])
    at = f"d0 * {stride} + s0 * {dilation} - {padding}"
    high = max(0, (outputs - 1) * stride + (window - 1) * dilation - 2 * padding)
    domain = f"d0 in [0, {outputs - 1}], d1 in [0, 2], s0 in [0, {window - 1}], {at} in [0, {high}]"
    dilated = f", ({at}) mod {base} in [0, 0]" if base > 1 else ""
    return f"(d0, d1)[s0] -> (({at}) / {base}, d1), domain: {domain}{dilated}"


def reshapes(rng: random.Random) -> str:
    """Dimensions collapsed to one number, and that split again."""
    sizes = [rng.choice([2, 3, 4, 5, 6, 8]) for _ in range(rng.choice([2, 2, 3]))]
    factors = [1]
    for size in reversed(sizes[1:]):
        factors.insert(0, factors[0] * size)
    number = " + ".join([f"d{i} * {factor}" for i, factor in enumerate(factors)])
    minor, middle = rng.choice([2, 3, 4, 5, 6, 8, 12, 16]), rng.choice([2, 3, 4])
    results = [f"({number}) / {minor * middle}", f"(({number}) / {minor}) mod {middle}", f"({number}) mod {minor}"]
    names = [f"d{i}" for i in range(len(sizes))]
    domain = ", ".join([f"{name} in [0, {size - 1}]" for name, size in zip(names, sizes, strict=True)])
    return f"({', '.join(names)}) -> ({', '.join(results)}), domain: {domain}"


@pytest.mark.parametrize("maps", [digits, sums, windows, reshapes])
def test_what_tiles_read(maps: Callable[[random.Random], str]) -> None:
    """Tiles of any size at any index: exactly what is read, or nothing is said."""
    rng = random.Random(maps.__name__)
    said: Counter[str] = Counter()
    for _ in range(80):
        text = maps(rng)
        found = IndexingMap.parse(text)
        tile = symbolic_tile(found)
        said["tile" if tile is not None else "no tile"] += 1
        if tile is None:
            continue
        for _ in range(8):
            sizes = [rng.randint(1, bounds.upper + 1) for bounds, _ in found.dims]
            anywhere = [rng.randint(bounds.lower, bounds.upper) for bounds, _ in found.dims]
            in_a_row = [
                size * rng.randint(0, bounds.upper // size) for size, (bounds, _) in zip(sizes, found.dims, strict=True)
            ]
            start = rng.choice([None, anywhere, in_a_row])
            runtime = [rng.randint(*var.bounds) for var in tile.runtime]
            read = elements_read(found, start or [0] * len(sizes), sizes, runtime)
            box = tile.evaluate(sizes, runtime, start)
            if read is not None and box is not None:
                assert elements_of(box) == read, (text, sizes, start, runtime, box)
            said["box" if box is not None else "no box"] += 1
    print(f"{maps.__name__}: {dict(said)}")
    assert said["tile"] > 40
    assert said["box"] > 100
