"""Programs of this JAX, and the same with the change that the report `collectives` proposes: what it promises to save
is what the change saves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "shard_map"):
    pytest.skip("older versions have shard_map elsewhere", allow_module_level=True)
PROGRAM = Path(__file__).parents[1] / "proof/proposals.py"


def test_changes_save_what_was_promised():
    """The programs are compiled in a process of its own, which has 8 devices."""
    run = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300, check=False)
    proposals = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(proposals) == 59, run.stderr[-3000:]
    saving = 0
    for each in proposals:
        before, after = xs.collectives(each["before"]), xs.collectives(each["after"])
        saved = before.sent_bytes - after.sent_bytes
        promised = [(finding.kind, finding.saved_bytes) for finding in before.findings]
        assert promised == ([(each["kind"], saved)] if saved else []), each["name"]
        assert after.findings == (), each["name"]
        saving += saved > 0
    # With two devices on an axis, a permute to the next one sends as much as a gather.
    assert saving == 55
