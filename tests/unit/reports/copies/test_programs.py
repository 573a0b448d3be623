"""Fifty JAX programs as XLA's CPU compiler leaves them: the pass that inserted each copy, and what each suggestion
makes of it when it is applied and compiled again. `tests/support/collect_copies.py` made the vectors;
`tests/with_jax/test_copies.py` does the same with the JAX that is installed.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import command_line
import pytest

import xlashape as xs
from xlashape.reports.copies import Copies

VECTORS = Path(__file__).parents[3] / "vectors" / "copies.jsonl.gz"


@cache
def rows() -> dict[str, dict[str, Any]]:
    lines = gzip.decompress(VECTORS.read_bytes()).decode().splitlines()
    return {row["name"]: row for row in map(json.loads, lines)}


NAMES = sorted(rows())


def in_directory(row: dict[str, Any], directory: Path) -> Path:
    """The compiled module in a directory with the dumps after passes, as XLA writes them."""
    name, text = row["optimized"]
    path = directory / name
    path.write_text(text)
    for each, content in row["dumps"].items():
        (directory / each).write_text(content)
    return path


_LINE = re.compile(r"^\s*(?:ROOT )?%(\S+) = (\S+) (copy|transpose|slice|dynamic-slice|pad|concatenate)\(", re.MULTILINE)


def inserted_by(row: dict[str, Any], name: str, opcode: str, shape: str) -> str:
    """The pass that inserted an instruction, by counting: the last dump in which fewer instructions of this opcode and
    these sizes are than in the next, where the next has the name, or has what fusion then gives the name to.
    """
    sizes = shape.partition("{")[0]
    dumps = [(each, _LINE.findall(row["dumps"][each])) for each in sorted(row["dumps"])]
    first = next(number for number, (_, found) in enumerate(dumps) if any(each[0] == name for each in found))
    counts = [sum(each[1].partition("{")[0] == sizes and each[2] == opcode for each in found) for _, found in dumps]
    if first and counts[first - 1] >= counts[first]:  # it has a new name only
        first = min(number for number in range(first) if counts[number] >= counts[first])
    if first == 0:
        return "program"
    found = re.search(r"\.after_(.+?)(?:\.before_|\.txt)", dumps[first][0])
    assert found is not None
    return "copy-insertion" if ".copy-insertion.after_" in dumps[first][0] else found[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_pass_is_that_of_the_dumps(name: str, tmp_path: Path):
    row = rows()[name]
    exact = xs.copies(in_directory(row, tmp_path))
    inferred = xs.copies(row["optimized"][1])
    assert exact.has_pass_dumps and not inferred.has_pass_dumps
    for with_dumps, without in zip(exact, inferred, strict=True):
        shape = str(xs.HloModule.parse(row["optimized"][1]).instruction(with_dumps.mover).shape)
        opcode = str(xs.HloModule.parse(row["optimized"][1]).instruction(with_dumps.mover).opcode)
        truth = inserted_by(row, with_dumps.mover, opcode, shape)
        assert with_dumps.pass_name == truth, with_dumps
        assert not with_dumps.is_inferred and without.is_inferred and without.pass_name is None
        # Without dumps two passes are inferred, and these are right.
        assert without.inferred_pass == (truth if truth in ("layout-assignment", "copy-insertion") else None), without


def test_enough_programs_have_copies():
    kinds = {name: {row.cause_kind for row in xs.copies(rows()[name]["optimized"][1])} for name in NAMES}
    assert sum(map(bool, kinds.values())) >= 48
    assert {kind for each in kinds.values() for kind in each} >= {"relayout", "copy-insertion", "slice", "concatenate"}


@cache
def report(text: str) -> Copies:
    return xs.copies(text)


def test_suggestions_hold_when_they_are_applied():
    """What is exact is exact in every program; at least 36 programs have such a suggestion."""
    helped: set[str] = set()
    for name in NAMES:
        before = report(rows()[name]["optimized"][1])
        applied = {tuple(each["edits"]): each["text"] for each in rows()[name]["edited"]}
        assert set(applied) == {each.edits for each in before.suggestions}, f"{name}: make the vectors again"
        for suggestion in before.suggestions:
            after = report(applied[suggestion.edits])
            if suggestion.is_exact:
                promised = (before.copies - suggestion.copies, before.total_bytes - suggestion.saved_bytes)
                assert (after.copies, after.total_bytes) == promised, (name, suggestion)
                helped.add(name)
    assert len(helped) >= 36


def test_sums_are_those_of_the_rows():
    for name in NAMES:
        found = report(rows()[name]["optimized"][1])
        assert sum(each.copies for each in found.causes) == len(found) == found.copies
        assert (
            sum(each.total_bytes for each in found.causes) == found.total_bytes == sum(row.total_bytes for row in found)
        )
        assert all(row.bytes == row.bytes_read + row.bytes_written for row in found)
        assert all(row.total_bytes == row.bytes * row.times for row in found)


def test_who_forces_it():
    def forced(name: str) -> list[tuple[str, str | None]]:
        return [(row.cause_kind, row.forced_by) for row in report(rows()[name]["optimized"][1])]

    assert forced("dot_left") == [("relayout", "entry layout of parameter 0 (x)")]
    assert forced("dot_result") == [("relayout", "entry layout of the output")]
    assert forced("two_results") == [("relayout", "entry layout of output {0}")]
    assert forced("attention") == [("relayout", "dot (ynn_fusion)")] * 2
    assert forced("convolution_nhwc") == [("relayout", "convolution")]
    assert forced("svd") == [("relayout", "custom call lapack_sgesdd_ffi (svd.0)")] * 3
    assert forced("fft_columns")[0] == ("relayout", "fft.0")
    assert forced("scatter_add") == [("copy-insertion", "fusion (wrapped_scatter)")]
    assert ("copy-insertion", "while.5") in forced("loop")
    assert ("relayout", "entry layout of parameter 0 (state[0])") in forced("loop_layout")
    assert forced("result_twice") == [("copy-insertion", "output {1}")]
    assert forced("branch") == [("copy-insertion", "the result of a branch of conditional (cond.1.clone)")]


def test_which_uses_collide():
    def causes(name: str) -> list[str]:
        return [row.cause for row in report(rows()[name]["optimized"][1])]

    assert causes("update") == [
        "Parameter 0 (x) is copied: fusion (wrapped_dynamic-update-slice) would overwrite it, and it is not donated."
    ]
    assert causes("result_twice") == [
        "Fusion (wrapped_sine) is output {1} and also output {0}: each output has memory of its own."
    ]
    assert any("is still read by" in text for text in causes("scan"))
    assert causes("donated_update") == 2 * [
        "Parameter 0 (x) is donated, and fusion (wrapped_dynamic-update-slice) writes output {0} in its memory; dot "
        "(ynn_fusion) reads the old value, and nothing orders it before."
    ]


def test_loops_multiply_and_unknown_lengths_are_marked():
    swap = report(rows()["loop_swap"]["optimized"][1])
    assert {(row.times, row.times_bound) for row in swap} == {(5, "exact"), (1, "exact")}
    branch = report(rows()["branch"]["optimized"][1])
    assert [(row.times, row.times_bound) for row in branch] == [(1, "at most")]


def test_lines_of_the_program():
    found = report(rows()["dot_left"]["optimized"][1])
    assert [(row.source or "").partition(":")[0] for row in found] == ["moving_programs.py"]


def test_dumps_in_other_places_and_kinds(tmp_path: Path):
    row = rows()["qr"]
    path = in_directory(row, tmp_path)
    names = [each.pass_name for each in xs.copies(path)]
    assert sorted(names) == ["copy-insertion", "layout-assignment", "layout-assignment", "layout-assignment"]
    assert [each.pass_name for each in xs.copies(tmp_path)] == names  # the directory
    elsewhere = tmp_path / "module.hlo"
    elsewhere.write_text(row["optimized"][1])
    assert [each.pass_name for each in xs.copies(elsewhere)] == [None] * 4
    assert [each.pass_name for each in xs.copies(elsewhere, passes=tmp_path)] == names
    told = command_line.run("copies", elsewhere, "--passes", tmp_path, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["pass_name"] for line in told] == names
    # Dumps as protos, compressed.
    protos = tmp_path / "protos"
    protos.mkdir()
    for each in [*row["dumps"], row["optimized"][0]]:
        stem = each.removesuffix(".txt")
        xs.HloModule.load(tmp_path / each).save(protos / f"{stem}.hlo.pb.gz", lossy=True)
    assert [each.pass_name for each in xs.copies(protos)] == names
    (stages,) = {each.stage for each in xs.copies(protos) if each.pass_name == "copy-insertion"}
    assert stages == "copy-insertion: adding copies to resolve interference"


def test_dumps_of_some_passes(tmp_path: Path):
    """With an expression for some passes, the dumps before and after these say what is theirs, and nothing else is said
    to be exact."""
    row = rows()["qr"]
    name, text = row["optimized"]
    (tmp_path / name).write_text(text)
    kept = [each for each in sorted(row["dumps"]) if "layout-assignment" in each or "copy-insertion" in each]
    for each in kept:
        (tmp_path / each).write_text(row["dumps"][each])
    assert {each.pass_name for each in xs.copies(tmp_path / name)} == {None}
    module = name.partition(".cpu_after")[0]
    (tmp_path / f"{module}.debug_options").write_text('xla_dump_hlo_pass_re: "layout.*|copy.*"\n')
    assert {each.pass_name for each in xs.copies(tmp_path / name)} == {None}
    # XLA also dumps the module before each of the passes.
    numbers = [int(each.split(".")[2]) for each in kept]
    for number, what in (
        (numbers[0], "after_flatten-call-graph.before_layout-assignment"),
        (numbers[1], "after_cse.before_copy-insertion"),
    ):
        pipeline = (
            "HLO_passes_through_layout_assignment" if number == numbers[0] else "HLO_passes_after_layout_assignment"
        )
        before = next(each for each in row["dumps"] if f".{number - 1:04}." in each)
        (tmp_path / f"{module}.{number - 1:04}.{pipeline}.{what}.txt").write_text(row["dumps"][before])
    assert {each.pass_name for each in xs.copies(tmp_path / name)} == {"copy-insertion", "layout-assignment"}


def test_what_is_no_place_of_dumps(tmp_path: Path):
    text = rows()["dot_left"]["optimized"][1]
    with pytest.raises(xs.errors.NotFoundError, match="no optimized module"):
        xs.copies(tmp_path)
    with pytest.raises(xs.errors.NotFoundError, match="no dumps after passes of module|no optimized module"):
        xs.copies(text, passes=tmp_path)
    with pytest.raises(xs.errors.InvalidArgumentError, match="passes takes a directory or a file"):
        xs.copies(text, passes=3)  # pyright: ignore[reportArgumentType] - the mistake that is tested
    for name in ("dot_left", "dot_right"):
        in_directory(rows()[name], tmp_path)
    with pytest.raises(xs.errors.InvalidArgumentError, match="has 2 modules; pass one of the files"):
        xs.copies(tmp_path)


def test_broken_dumps_are_left_out(tmp_path: Path):
    row = rows()["dot_left"]
    path = in_directory(row, tmp_path)
    last = max(row["dumps"])
    (tmp_path / last).write_bytes(b"\xff\x00 not HLO")
    assert [each.pass_name for each in xs.copies(path)] in (["layout-assignment"], [None])
    for each in row["dumps"]:
        (tmp_path / each).write_bytes(b"")
    assert [each.pass_name for each in xs.copies(path)] == [None]
