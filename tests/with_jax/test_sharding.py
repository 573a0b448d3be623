"""Shardings of JAX: maps, parts and devices, compared with the shards of arrays, element by element."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="JAX is not installed")
PROGRAM = Path(__file__).parents[1] / "support/sharded_arrays.py"


def test_maps_lead_to_the_elements_of_the_shards():
    """The comparison runs in a process of its own, which has 8 devices."""
    run = subprocess.run(
        [sys.executable, str(PROGRAM), "500", "20261128"], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout.strip().endswith("500 shardings are equal"), run.stderr[-3000:]
