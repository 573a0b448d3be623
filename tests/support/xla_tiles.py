"""Reads and evaluates XLA's text of symbolic tiles, and enumerates the elements that a tile reads. It is slow and
plain: a reference for tests."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xlashape.symbolic import IndexingMap

Point = tuple[int, ...]
_FIELDS = ("offset_map", "size_map", "stride_map", "rt_vars", "constraints")


def normalised(text: str) -> str:
    """The text of a symbolic tile with each field on a line of its own and single spaces. XLA's text in the vectors has
    no line ends; this library's has."""
    text = re.sub(r"\s+", " ", text).strip()
    for field in _FIELDS:
        text = re.sub(rf"\s*{field}:", f"\n{field}:", text)
    return "\n".join([line.strip().rstrip(",") for line in text.split("\n")])


class XlaTile(NamedTuple):
    """XLA's symbolic tile as two functions of the tile's sizes and the values of runtime variables. `box` gives
    (offsets, sizes, strides), `holds` says whether the constraints are fulfilled.
    """

    box: Callable[[Sequence[int], Sequence[int]], tuple[Point, Point, Point]]
    holds: Callable[[Sequence[int], Sequence[int]], bool]


def read_tile(text: str, found: IndexingMap) -> XlaTile | None:
    """XLA's symbolic tile for the map `found`, read from its text; None where the constraints cannot be fulfilled."""
    fields = dict([line.split(": ", 1) for line in normalised(text).split("\n")[1:]])
    constraints = fields.get("constraints", "")
    if constraints == "unsatisfiable":
        return None
    symbols = _symbols(fields, found)

    def names(sizes: Sequence[int], runtime: Sequence[int]) -> dict[str, int]:
        return {f"d{i}": size for i, size in enumerate(sizes)} | {s: runtime[k] for s, k in symbols.items()}

    def box(sizes: Sequence[int], runtime: Sequence[int]) -> tuple[Point, Point, Point]:
        known = names(sizes, runtime)
        offsets, lengths, strides = [_values(fields[field], known) for field in _FIELDS[:3]]
        return offsets, lengths, strides

    def holds(sizes: Sequence[int], runtime: Sequence[int]) -> bool:
        known = names(sizes, runtime)
        ways = [way.split(" && ") for way in constraints.split(" || ")] if constraints else [[]]
        return any(all(_holds(condition, known) for condition in way) for way in ways)

    return XlaTile(box, holds)


def _symbols(fields: dict[str, str], found: IndexingMap) -> dict[str, int]:
    """Symbol s0, s1, … of XLA's text → the number of the runtime variable. XLA drops the variables that no offset uses,
    and keeps the order of the others."""
    bounds = re.findall(r"(s\d+) in \[(-?\d+), (-?\d+)\]", fields.get("rt_vars", ""))
    for chosen in itertools.combinations(range(len(found.runtime)), len(bounds)):
        fits = [
            found.runtime[k].bounds.lower <= int(low) and int(high) <= found.runtime[k].bounds.upper
            for k, (_, low, high) in zip(chosen, bounds, strict=True)
        ]
        if all(fits):
            return {symbol: k for k, (symbol, _, _) in zip(chosen, bounds, strict=True)}
    raise AssertionError(f"no runtime variables fit {fields['rt_vars']}")


def _values(map_text: str, known: dict[str, int]) -> Point:
    results = map_text.split("-> (", 1)[1].removesuffix(")")
    return tuple(_value(f"({results},)" if results else "()", known))


def _holds(condition: str, known: dict[str, int]) -> bool:
    text, _, interval = condition.rpartition(" in ")
    low, high = map(int, interval.strip("[]").split(", "))
    try:
        return low <= _value(text, known) <= high
    except ZeroDivisionError:
        return False


def _value(text: str, known: dict[str, int]):
    assert re.fullmatch(r"[\w\s+\-*/(),]*", text), text
    return eval(text.replace(" / ", " // ").replace(" mod ", " % "), {"min": min, "max": max}, dict(known))


def elements_read(
    found: IndexingMap, start: Sequence[int], sizes: Sequence[int], runtime: Sequence[int], most: int = 1 << 12
) -> set[Point] | None:
    """The elements that a tile reads, found by evaluating the map at each of its points; None for more than `most`
    points."""
    axes = [
        range(max(first, bounds.lower), min(first + size, bounds.upper + 1))
        for first, size, (bounds, _) in zip(start, sizes, found.dims, strict=True)
    ]
    axes += [range(bounds.lower, bounds.upper + 1) for bounds, _ in found.ranges] + [[value] for value in runtime]
    count = int(np.prod([len(axis) for axis in axes], dtype=object))
    if count > most:
        return None
    if count == 0:
        return set()
    points = np.array(list(itertools.product(*axes)), dtype=np.int64).reshape(count, len(axes))
    results, inside = found.evaluate_batch(points)
    return set(map(tuple, results[inside].tolist()))


def elements_of(box: tuple[Sequence[int], Sequence[int], Sequence[int]], most: int = 1 << 14) -> set[Point] | None:
    """The elements of a box of offsets, sizes and strides; None for more than `most`."""
    if int(np.prod(list(box[1]), dtype=object)) > most:
        return None
    return set(
        itertools.product(
            *[[offset + i * stride for i in range(size)] for offset, size, stride in zip(*box, strict=True)]
        )
    )
