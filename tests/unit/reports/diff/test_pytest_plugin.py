"""The plugin of pytest: it stores summaries, compares with them, and says what became worse."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points

import pytest

from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule
from xlashape.reports.diff import diff, summary

pytest_plugins = ["pytester"]

ONE = "HloModule m ENTRY e { p = f32[256] parameter(0) ROOT n = f32[256] negate(p) }"
COPY = "HloModule m ENTRY e { p = f32[256] parameter(0) c = f32[256] copy(p) ROOT n = f32[256] negate(c) }"
TEST = """
import os

def test_step(hlo):
    module = hlo.check(os.environ["HLO"], {limits})
    assert module.name == "m"
    hlo.check(os.environ["HLO"], {limits})

def test_named(hlo):
    hlo.check(os.environ["HLO"], name="the step", new_copies=5)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs the tests of a project of its own with the module of a text."""
    if not any(each.name == "xlashape" for each in entry_points(group="pytest11")):
        pytester.makeconftest('pytest_plugins = ["xlashape.pytest_plugin"]')

    def run(text: str, *arguments: str, limits: str = "new_copies=0, peak='+2%'") -> tuple[int, str]:
        (pytester.path / "test_train.py").write_text(TEST.format(limits=limits))
        monkeypatch.setenv("HLO", text)
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *arguments)
        return int(done.ret), str(done.stdout) + str(done.stderr)

    return run


def test_a_project_with_its_summaries(project, pytester):
    code, told = project(ONE)
    assert code == 1
    assert "test_train.hlo.json has no summary 'test_step': run pytest --hlo-update, and commit the file" in told

    assert project(ONE, "--hlo-update")[0] == 0
    stored = json.loads((pytester.path / "test_train.hlo.json").read_text())
    assert list(stored) == ["test_step", "test_step 2", "the step"]
    assert stored["test_step"]["measures"]["copies"] == 0
    assert stored["test_step"]["opcodes"] == {"negate": 1, "parameter": 1}
    assert project(ONE)[0] == 0

    code, told = project(COPY)
    assert code == 1
    assert "the program 'test_step' is worse than its summary in test_train.hlo.json:" in told
    assert "new_copies=0: copies 0 → 1 (+1)" in told
    assert "test_named" not in told.partition("short test summary")[2]  # which allows five
    for limits in ("", "same=True", "same=True, new_copies=5"):
        code, told = project(COPY, limits=limits)
        assert "the program 'test_step' differs from its summary in test_train.hlo.json:" in told, limits
        assert "same: copy 0 → 1, instructions 2 → 3" in told and "worse" not in told, limits
    assert "is worse than" in project(COPY, limits="same=True, new_copies=0")[1]

    before = (pytester.path / "test_train.hlo.json").read_bytes()
    assert project(ONE, "--hlo-update")[0] == 0
    assert (pytester.path / "test_train.hlo.json").read_bytes() == before
    assert sorted(path.name for path in pytester.path.glob("*.json*")) == ["test_train.hlo.json"]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"new_copy": 0}, "there is no limit 'new_copy'"),
        ({"peak": "two"}, "expected a number such as 128, 10MiB or 50%, found 'two'"),
        ({"peak": None}, "peak is a number, or text such as '+2%' or '+1MiB', not None"),
    ],
)
def test_mistakes_in_limits_are_named(limits, message):
    one = summary.ModuleSummary.of(HloModule.parse(ONE))
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        one.broken(one, limits)


def test_a_broken_file_of_summaries_is_named(tmp_path):
    path = tmp_path / "test_train.hlo.json"
    for text, message in (
        ('{"test_step": 3}', "has no summary with fingerprint, measures and opcodes"),
        ("{", "is not JSON"),
        ("[]", "is no object of summaries"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=message):
            summary.read_summaries(path)


def test_summaries_of_several_tests_are_sorted(tmp_path):
    path = tmp_path / "x.hlo.json"
    one, two = (summary.ModuleSummary.of(HloModule.parse(text)) for text in (ONE, COPY))
    summary.write_summaries(path, {"b": two, "a": one})
    assert list(summary.read_summaries(path)) == ["a", "b"]
    assert one.broken(two, {"copy_bytes": "+2KiB", "buffer_bytes": 1024, "new_copies": 1}) == []
    assert one.broken(two, {"bytes_read": "+50%", "copy_bytes": 1000, "same": True}) == [
        "bytes_read='+50%': bytes_read 1.00 KiB → 2.00 KiB (+1.00 KiB, +100.0%)",
        "copy_bytes=1000: copies.bytes 0 B → 2.00 KiB (+2.00 KiB)",
        "same: copy 0 → 1, instructions 2 → 3, copies 0 → 1, copies.bytes 0 → 2,048, buffer_bytes 2,048 → 3,072,"
        " bytes_read 1,024 → 2,048, bytes_written 1,024 → 2,048",
    ]


def fused(body: str, shape: str = "f32[256,256]") -> str:
    return (
        f"HloModule m\nf {{\n  q = {shape} parameter(0)\n  {body}\n}}\nENTRY e {{\n  p = {shape} parameter(0)\n"
        f"  ROOT fusion = {shape} fusion(p), kind=kLoop, calls=f\n}}\n"
    )


NEGATED = "ROOT n = f32[256,256] negate(t)"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (fused(f"t = f32[256,256] transpose(q), dimensions={{1,0}}\n  {NEGATED}"), 1),
        (fused(f"t = f32[256,256] reverse(q), dimensions={{1}}\n  {NEGATED}"), 1),
        # Rows that change places are read as they lie.
        (fused("t = f32[4,4,64,64] transpose(q), dimensions={1,0,2,3}\n  ROOT n = f32[4,4,64,64] negate(t)", "f32[4,4,64,64]"), 0),
        (fused("t = f32[100,100] transpose(q), dimensions={1,0}\n  ROOT n = f32[100,100] negate(t)", "f32[100,100]"), 0),  # below 64 KiB
        (fused("ROOT t = f32[256,256] transpose(q), dimensions={1,0}"), 0),  # computes nothing: `copies` counts it
        (fused("ROOT n = f32[256,256] negate(q)"), 0),
    ],
)  # fmt: skip
def test_a_copy_inside_a_fusion_that_computes_is_counted(text, count):
    before = summary.ModuleSummary.of(HloModule.parse(fused("ROOT n = f32[256,256] negate(q)")))
    now = summary.ModuleSummary.of(HloModule.parse(text))
    assert (now.measures["fused_copies"], now.measures["fused_copies.bytes"]) == (count, count * 256 * 256 * 4)
    told = [f"new_fused_copies=0: fused_copies 0 → {count} (+{count})"] if count else []
    assert before.broken(now, {"new_fused_copies": 0}) == told
    assert diff(fused("ROOT n = f32[256,256] negate(q)"), text).measure("fused_copies").b == count


def test_a_summary_without_a_measure_says_so():
    now = summary.ModuleSummary.of(HloModule.parse(ONE))
    before = now._replace(measures={name: each for name, each in now.measures.items() if name != "fused_copies"})
    assert before.broken(now, {"new_fused_copies": 0}) == ["new_fused_copies=0: fused_copies is not known"]
