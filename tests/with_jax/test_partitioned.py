"""Programs that this JAX partitions for 8 devices: each is equal to its partitioned form, which has the values that
running it gives, and a wrong collective is found."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "shard_map") or not hasattr(jax, "set_mesh"):
    pytest.skip("older versions have shard_map elsewhere", allow_module_level=True)
TESTS = Path(__file__).parents[1]
PROGRAMS = ["batched_product", "embedding_gradient", "gathered_columns", "scattered_sums", "shifted_in_groups"]


def test_partitioned_programs_and_wrong_collectives(tmp_path):
    """The programs are compiled in a process of its own, which has 8 devices."""
    command = [sys.executable, str(TESTS / "proof/partitioned.py"), str(tmp_path), *PROGRAMS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    sys.path.append(str(TESTS / "support"))
    from collective_mutants import as_run, proven

    for name in PROGRAMS:
        before, after = ((tmp_path / f"{name}.{stage}.txt").read_text() for stage in ("before", "after"))
        with np.load(tmp_path / f"{name}.npz") as values:
            assert as_run(before, after, values)
        found = list(proven(before, after))
        assert len(found) > 2
        for kind, instruction, truth, verdict, _ in found:
            assert (truth == "differs") == (verdict == "differs"), (name, kind, instruction)
