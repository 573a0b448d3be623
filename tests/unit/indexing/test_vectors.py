"""Maps of XLA (jaxlib 0.12.0.1) of 840 random one-operation and fused modules.

Ours are equal as functions everywhere, the simplified ones as texts almost everywhere.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from map_enumeration import difference

from xlashape import indexing
from xlashape.hlo import HloModule
from xlashape.symbolic import IndexingMap

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


@lru_cache(maxsize=1)
def rows() -> list[dict[str, Any]]:
    return [json.loads(text) for text in (VECTORS / "indexing.jsonl").read_text().splitlines()]


FAMILIES = sorted({row["family"] for row in rows()})


def answers(row: dict[str, Any]) -> Iterator[tuple[str, indexing.OperandIndexingSet, list[str]]]:
    """(raw or simplified, ours, XLA's)."""
    root = HloModule.parse(row["hlo"]).instruction("root")
    ours = indexing.output_to_input(root)
    yield from zip(["raw"] * len(ours), ours, row["output_to_input"], strict=True)
    yield from zip(
        ["simplified"] * len(ours),
        [one.simplify() for one in ours],
        row["output_to_input_simplified"],
        strict=True,
    )
    for operand, (raw, simplified) in enumerate(
        zip(row.get("input_to_output", []), row.get("input_to_output_simplified", []), strict=True)
    ):
        ours = indexing.input_to_output(root, operand)
        yield from zip(["raw"] * len(ours), ours, raw, strict=True)
        yield from zip(["simplified"] * len(ours), [one.simplify() for one in ours], simplified, strict=True)


def map_of(text: str) -> IndexingMap:
    return IndexingMap.parse(text.split("\nruntime variables")[0].split("\nreplica")[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_as_functions(family: str) -> None:
    for row in rows():
        if row["family"] != family:
            continue
        for _, ours, texts in answers(row):
            if any("UNDEFINED" in text for text in texts):
                # Where XLA does not know, ours does: judged by execution elsewhere.
                assert not any(one.map.is_undefined for one in ours), row["hlo"]
                continue
            left = {one.to_text(): one.map for one in ours}
            right = {text.strip(): map_of(text) for text in texts}
            for text in left.keys() & right.keys():
                del left[text], right[text]
            assert len(left) == len(right), (row["hlo"], left, right)
            for text, found in left.items():
                same = [other for other, theirs in right.items() if difference(found, theirs) is None]
                assert same, (row["hlo"], text, list(right), [difference(found, theirs) for theirs in right.values()])
                del right[same[0]]


def test_texts(capsys: pytest.CaptureFixture[str]) -> None:
    same: dict[str, Counter[str]] = defaultdict(Counter)
    longer: list[tuple[str, str]] = []
    for row in rows():
        for form, ours, texts in answers(row):
            if any("UNDEFINED" in text for text in texts):
                continue
            expected = sorted(text.strip() for text in texts)
            found = sorted(one.to_text() for one in ours)
            same[row["family"]][form] += 1
            same[row["family"]][form + " same"] += found == expected
            if form == "simplified" and len("".join(found)) > len("".join(expected)):
                longer.append(("\n".join(found), "\n".join(expected)))
    total = sum(counts["simplified"] for counts in same.values())
    equal = sum(counts["simplified same"] for counts in same.values())
    with capsys.disabled():
        print(f"\nXLA's text in {equal} of {total} simplified maps; longer than XLA's: {len(longer)}")
        for family in FAMILIES:
            counts = same[family]
            print(
                f"  {family:22} simplified {counts['simplified same']:4} of {counts['simplified']:4}, "
                f"as the operation defines it {counts['raw same']:4} of {counts['raw']:4}"
            )
    assert not longer
    assert equal >= 0.99 * total
