"""Answers of XLA (jaxlib 0.12.0.1): 1,500 maps that it simplified or composed. The report lists how often the text is
the same.

Each row must be equal to its source as a function and the text must be XLA's, except for the rows of KNOWN_GAPS: a row
that is listed there and agrees fails the run, as does a new one.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from xlashape.symbolic import IndexingMap

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "maps.jsonl").read_text().splitlines()]

KNOWN_GAPS: dict[str, tuple[int, ...]] = {
    "as long: XLA takes a digit that counts from 8 for one that counts from 0, which happens to be right": (889,),
    "shorter: the intervals that constraints give for sums are used further": (404, 445, 1332),
    "shorter: like terms are added later": (722, 1387),
}
LONGER: tuple[int, ...] = ()
"""Of these, the rows where XLA's text is shorter."""

_REASON = {row: reason for reason, rows in KNOWN_GAPS.items() for row in rows}


def source_and_answer(row: dict[str, str]) -> tuple[IndexingMap, IndexingMap, str]:
    if row["call"] == "simplify":
        source = IndexingMap.parse(row["map"])
        return source, source.simplify(), row["simplified"].strip()
    first, second = IndexingMap.parse(row["first"]), IndexingMap.parse(row["second"])
    return first.compose_unsimplified(second), first.compose(second), row["composed"].strip()


@lru_cache(maxsize=1)
def answers() -> list[tuple[IndexingMap, IndexingMap, str]]:
    return [source_and_answer(row) for row in ROWS]


def test_texts_are_those_of_xla():
    unexpected, agreeing, same = [], [], Counter()
    for i, (_, ours, theirs) in enumerate(answers()):
        agrees = str(ours) == theirs
        same[ROWS[i]["call"], agrees] += 1
        if agrees and i in _REASON:
            agreeing.append(i)
        elif not agrees and i not in _REASON:
            unexpected.append((i, str(ours), theirs))
    for call in ("simplify", "compose"):
        agreed, all_of_it = same[call, True], same[call, True] + same[call, False]
        print(f"{call}: {agreed} of {all_of_it} texts are XLA's ({agreed / all_of_it:.1%})")
    assert not unexpected
    assert not agreeing, "listed as a known gap, but the same now"
    assert same["simplify", True] + same["compose", True] >= 0.99 * len(ROWS)


def test_nowhere_longer_than_xla():
    longer = tuple(i for i, (_, ours, theirs) in enumerate(answers()) if len(str(ours)) > len(theirs))
    assert longer == LONGER


def test_simplified_once_is_simplified_for_good():
    """Except for what a congruence has left: the bounds that it narrows shorten constraints when the map is simplified
    again, as in XLA.
    """
    shortened = 0
    for _, ours, _ in answers():
        again = IndexingMap.parse(str(ours)).simplify() if not ours.is_known_empty else ours
        if str(again) != str(ours):
            shortened += 1
            assert any(" mod " in str(expr) for expr, _ in ours.constraints)
            assert len(str(again)) < len(str(ours))
            assert str(IndexingMap.parse(str(again)).simplify()) == str(again)
    assert shortened == 9


def test_simplified_maps_are_the_same_functions():
    """At up to 300 points of each source's box, corners included."""
    draw = random.Random(0)
    for i, (source, ours, _) in enumerate(answers()):
        if source.is_known_empty:
            assert ours.is_known_empty
            continue
        bounds = [var.bounds for var in source.variables]
        points = [[draw.choice((draw.randint(*b), b.lower, b.upper)) for b in bounds] for _ in range(300)]
        expected, inside = source.evaluate_batch(points)
        if ours.is_known_empty:
            assert not inside.any(), i
            continue
        results, kept = ours.evaluate_batch(points)
        assert np.array_equal(inside, kept), i
        assert np.array_equal(expected, results), i


@pytest.mark.parametrize("style", ["xla", "affine"])
def test_text_round_trips(style):
    for source, ours, _ in answers():
        for m in (source, ours):
            if m.is_known_empty:
                continue
            assert str(IndexingMap.parse(m.to_text(style=style))) == str(m)
