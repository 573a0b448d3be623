"""Profiles of the JAX that is installed: times against those of `jax.profiler.ProfileData`, every event joined with its
instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax.profiler, "ProfileData") or not hasattr(jax.profiler, "ProfileOptions"):
    pytest.skip(f"JAX {jax.__version__} cannot read profiles", allow_module_level=True)

import collect_profiles  # noqa: E402 - it imports JAX
import jax_programs  # noqa: E402 - as above

PROGRAMS = (
    *("matmul", "attention_grad", "mlp_grad", "layer_norm_grad", "cross_entropy", "conv", "conv_grad", "max_pool_grad", "variance", "cumsum"),
    *("special", "gather_rows", "scatter_add", "sort", "scan_grad", "lstm", "while_loop", "switch", "fft", "normal"),
)  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path):
    function, arrays = jax_programs.example(name)
    jitted = jax.jit(function)
    (planes,) = collect_profiles.profiled([(jitted, arrays)], str(tmp_path)).glob("*.xplane.pb")
    expected = collect_profiles.sums(planes)
    found: Any = xs.profile(planes)
    assert {f"{row.name}|{row.module}|{row.program_id}": row.count for row in found} == {
        key: count for key, (count, _) in expected.items()
    }
    for row in found:
        assert row.time * 1e9 == pytest.approx(expected[f"{row.name}|{row.module}|{row.program_id}"][1])
    assert found.without_module == () and found.without_instruction == 0 and found.lost_kernels == 0
    static = {row.name: row.bytes for row in xs.cost(jitted.lower(*arrays).compile())}
    same = [row for row in found if row.name in static]
    assert [row.bytes for row in same] == [static[row.name] for row in same]
