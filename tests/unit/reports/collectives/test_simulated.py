"""Programs that XLA compiled for 8 devices, each with a collective that was asked for: every field of the report is
what a simulation of single elements counts (tests/support/simulated_collectives.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from checked_exchanges import check

VECTORS = Path(__file__).resolve().parents[3] / "vectors/collectives/exchanges.jsonl.gz"
PROGRAMS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]


def test_there_are_enough_of_each_kind():
    kinds = [program["kind"] for program in PROGRAMS]
    assert len(kinds) >= 100
    assert all(kinds.count(kind) >= 10 for kind in set(kinds))
    assert len(set(kinds)) == 5


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
@pytest.mark.parametrize("form", ["text", "proto"])
def test_what_is_sent(number: int, form: str):
    check(PROGRAMS[number], form)
