"""Training steps of this JAX whose activations are divided as the weights are, and the same with the change that the
report `collectives` proposes: it saves at least what was promised, and nothing is promised where it changes nothing."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

import xlashape as xs
from xlashape.reports.collectives import Collectives

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "shard_map"):
    pytest.skip("older versions name no mesh in their modules", allow_module_level=True)
PROGRAM = Path(__file__).parents[1] / "proof/batches.py"


def promised(answer: Collectives) -> int:
    return sum(finding.saved_bytes for finding in answer.findings if finding.kind == "undivided")


def test_a_divided_batch_saves_what_was_promised():
    """The programs are compiled in a process of its own, which has 8 devices."""
    run = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300, check=False)
    programs = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(programs) == 36, run.stderr[-3000:]
    told: set[str] = set()
    for each in programs:
        before, after = [xs.collectives(base64.b64decode(each[name])) for name in ("before", "after")]
        saved = before.sent_bytes - after.sent_bytes
        assert promised(before) <= saved and promised(after) == 0, each["name"]
        assert promised(xs.collectives(each["text"])) in (0, promised(before)), each["name"]
        told |= {each["name"]} if promised(before) else set()
    assert {each["name"] for each in programs if each["name"].endswith("features")} <= told
    assert not any(name.endswith("first") for name in told)
