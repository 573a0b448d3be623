"""Starts of collectives with contexts, as compilers for TPUs write them."""

from __future__ import annotations

import numpy as np
import pytest

import xlashape as xs
from xlashape.reports.equivalent import equivalent

GATHER = "channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true"
PERMUTE = "channel_id=1, source_target_pairs={{0,1},{1,0}}"


@pytest.mark.parametrize("contexts", ["", ", u32[]", ", u32[], u32[]"])
@pytest.mark.parametrize(
    ("opcode", "rows", "attributes"), [("all-gather", 16, GATHER), ("collective-permute", 8, PERMUTE)]
)
def test_a_start_has_the_value_of_its_collective(opcode: str, rows: int, attributes: str, contexts: str) -> None:
    head = "HloModule m, num_partitions=2 ENTRY e { p = s32[8,4] parameter(0)"
    plain = f"{head} ROOT r = s32[{rows},4] {opcode}(p), {attributes} }}"
    started = f"""{head} s = (s32[8,4], s32[{rows},4]{contexts}) {opcode}-start(p), {attributes}
      ROOT d = s32[{rows},4] {opcode}-done(s) }}"""
    found = [np.asarray(xs.evaluate(text, seed=1)) for text in (plain, started)]
    assert np.array_equal(*found)
    assert equivalent(plain, started).verdict == "equal"
