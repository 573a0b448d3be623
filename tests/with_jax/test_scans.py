"""Programs of this JAX whose scans take arrays apart and stack them again, and the same with the arrays in the carry:
what `memory` and `copies` promise is what the change gives, and they promise nothing where it would not be right."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs

jax = pytest.importorskip("jax", reason="JAX is not installed")
if tuple(int(part) for part in jax.__version_info__[:2]) < (0, 7):
    pytest.skip("the compilers of older versions copy whole arrays in such loops", allow_module_level=True)
PROGRAM = Path(__file__).parents[1] / "proof/scans.py"


@cache
def programs() -> list[dict[str, Any]]:
    run = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_the_peak_is_within_the_bounds():
    changed = [each for each in programs() if "after" in each]
    assert len(changed) == 16
    for each in changed:
        before = xs.memory(each["before"])
        (found,) = [one for one in before.suggest() if one.change == "carry"]
        # an estimate does not know what XLA keeps beside arrays
        beside = each["before_bytes"] - before.peak_bytes
        assert 0 <= beside < 1024, each["name"]
        assert found.lower_bytes <= each["after_bytes"], each["name"]
        assert each["after_bytes"] - beside <= found.upper_bytes < before.peak_bytes, each["name"]
        assert each["after_bytes"] < each["before_bytes"], each["name"]
        assert (found.parameters is None) == (each["is_donated"] or each["name"] == "generated"), each["name"]
        assert ("optimization_barrier" in found.text) == (each["name"] in ("linear", "momentum")), each["name"]
        limit = before.of_main_memory.peak_bytes - 1
        assert any(one.change == "carry" and one.fits for one in before.fit(limit)), each["name"]
        assert any("carry " in (row.fix or "") for row in xs.summary(each["before"]).rows), each["name"]


def test_copies_are_removed():
    for each in programs():
        if "after" not in each or not (each["is_donated"] or each["name"] == "generated"):
            continue
        before, after = xs.copies(each["before"]), xs.copies(each["after"])
        (found,) = [one for one in before.suggestions if "carry" in one.kinds]
        assert found.copies > 0 and not found.is_exact, each["name"]
        if each["name"] not in ("linear", "momentum"):  # behind the barrier a part is copied
            assert before.total_bytes - after.total_bytes >= 0.99 * found.saved_bytes, each["name"]


def test_nothing_is_promised_otherwise():
    others = [each for each in programs() if "after" not in each]
    assert len(others) == 6
    for each in others:
        assert all(one.change != "carry" for one in xs.memory(each["before"]).suggest()), each["name"]
        assert all("carry" not in one.kinds for one in xs.copies(each["before"]).suggestions), each["name"]
