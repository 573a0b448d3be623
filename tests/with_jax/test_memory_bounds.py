"""Programs that JAX lowers and compiles here: the bounds that `memory` gives before and after XLA's optimizations,
compared with what XLA needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("older versions keep no buffer assignment of an executable", allow_module_level=True)
sys.path.append(str(Path(__file__).parents[1] / "support"))

from layered_programs import PROGRAMS  # noqa: E402 - it imports JAX

SLOW = frozenset(
    ["flax_block_step", "flax_lstm_step", "flax_convolutions_step", "associative", "solve", "deep_scan_grad"]
)
"""Programs that take a second or more to compile. They are for a run by hand."""
UNKNOWN_OUTPUTS = frozenset(["sharded_sum", "sharded_reshaped"])
"""Programs in which the partitioner keeps an output whole that no sharding divides."""

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS.keys() - SLOW) >= 40


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - SLOW))
def test_bounds_hold_before_and_after_optimizations(name: str) -> None:
    lowered = PROGRAMS[name]()
    compiled = lowered.compile()
    stats: Any = compiled.memory_analysis()
    before, after = xs.memory(lowered), xs.memory(compiled)
    certain = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    assert after.lower_bytes <= after.peak_bytes <= after.upper_bytes
    assert stats.peak_memory_in_bytes <= after.upper_bytes
    assert before.upper_bytes is None
    assert before.lower_bytes <= after.peak_bytes
    if name not in UNKNOWN_OUTPUTS:
        assert before.lower_bytes == certain
    assert before.lower_bytes == before.argument_bytes + before.output_bytes - before.alias_bytes
    assert "no upper bound" in before.headline()
    # Without its assignment, what XLA compiled needs what the assignment says.
    estimate = xs.memory(xs.HloModule.from_proto(xs.HloModule.of(compiled).proto))
    assert estimate.lower_bytes <= after.peak_bytes <= estimate.upper_bytes
    assert estimate.peak_bytes == after.peak_bytes
