"""Programs that XLA compiled for 8 devices, each with a collective that was asked for: every field of the report is
what a simulation of single elements counts (tests/support/simulated_collectives.py)."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from checked_exchanges import check

import xlashape as xs

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


TPU: list[dict[str, Any]] = [
    json.loads(line) for line in lzma.decompress(VECTORS.with_name("exchanges_tpu.jsonl.xz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("number", range(len(TPU)))
def test_programs_for_16_and_256_tpus(number: int):
    """Of some small gathers and scattered sums the compiler makes an all-reduce. The program need not change."""
    program = TPU[number]
    report = xs.collectives(base64.b64decode(program["proto"]))
    if program["kind"] in ("all-gather", "reduce-scatter") and [row.kind for row in report] == ["all-reduce"]:
        assert report.findings == ()
    else:
        check(program, "proto")
        check(program, "text")


def test_most_programs_for_tpus_have_what_they_ask_for():
    kinds = [[row.kind for row in xs.collectives(program["text"])] == [program["kind"]] for program in TPU]
    assert len(kinds) == 52
    assert sum(kinds) == 41
