"""Programs that this JAX compiles for 8 devices, each with a collective that was asked for: the report says what a
simulation of single elements counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "shard_map"):
    pytest.skip("older versions have shard_map elsewhere", allow_module_level=True)
TESTS = Path(__file__).parents[1]


def test_what_is_sent():
    """The programs are compiled in a process of its own, which has 8 devices."""
    program = TESTS / "support/exchanging_programs.py"
    run = subprocess.run(
        [sys.executable, str(program), "25", "20261128"], capture_output=True, text=True, timeout=300, check=False
    )
    lines = run.stdout.splitlines()
    assert len(lines) == 25, run.stderr[-3000:]
    sys.path.append(str(TESTS / "support"))
    from checked_exchanges import check

    for line in lines:
        for form in ("text", "proto"):
            check(json.loads(line), form)
