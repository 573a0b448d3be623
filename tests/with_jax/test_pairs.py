"""How arrays are divided before and after the collectives by which this JAX brings them from one random sharding to
another."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "shard_map"):
    pytest.skip("protos of older versions do not name the mesh of parameters", allow_module_level=True)
PROGRAM = Path(__file__).parents[1] / "support/resharded_arrays.py"


def text(dims):
    return "[" + ", ".join(["{" + ", ".join(map(repr, dim)) + "}" for dim in dims]) + "]"


def test_pairs_of_shardings():
    """The programs are compiled in a process of its own, which has 8 devices."""
    run = subprocess.run(
        [sys.executable, str(PROGRAM), "100", "20261128"], capture_output=True, text=True, timeout=300, check=False
    )
    programs = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(programs) == 100, run.stderr[-3000:]
    exact = judged = 0
    for each in programs:
        rows = xs.collectives(base64.b64decode(each["proto"])).rows
        if len(rows) != 1 or rows[0].before is None:
            continue
        (row,) = rows
        judged += 1
        # A part that a device takes of its own data is no collective: what it divides is not known before the exchange,
        # or divides the array after it. Some exchanges are of an array of another rank.
        if "?" not in row.before and row.before.count("{") == len(each["before"]):
            assert row.before == text(each["before"])
        exact += (row.before, row.after) == (text(each["before"]), text(each["after"]))
    assert judged >= 25
    assert exact >= 0.6 * judged
