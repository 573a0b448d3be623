"""`diff` and `fingerprint`: files and directories, gates, formats, errors."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import jsonschema
import pytest

from xlashape.reports.diff import diff
from xlashape.reports.diff.markdown import MAX_CHARACTERS, markdown

ONE = "HloModule jit_f ENTRY e { p = f32[256] parameter(0) ROOT n = f32[256] negate(p) }"
TWO = "HloModule jit_f ENTRY e { p = f32[256] parameter(0) c = f32[256] copy(p) ROOT n = f32[256] negate(c) }"
SAME = "HloModule jit_f ENTRY %main { %x = f32[256]{0} parameter(0) ROOT %y = f32[256]{0} negate(%x) }"


@pytest.fixture
def files(tmp_path):
    made = []
    for name, text in (("one", ONE), ("two", TWO), ("same", SAME)):
        path = tmp_path / f"{name}.hlo"
        path.write_text(text)
        made.append(str(path))
    return made


def run(*arguments, code=0, data=b""):
    done = command_line.run(*arguments, data=data)
    assert done.returncode == code, done.stderr
    return done.stdout.decode()


def test_two_files(files):
    one, two, same = files
    lines = run("diff", one, two).splitlines()
    assert lines[:2] == ["1 change, copied +2.00 KiB, buffers +1.00 KiB", f"{one} → {two}"]
    assert lines[-2:] == [" +1.00 KiB  added copy c", "            copied +2.00 KiB"]
    assert "The same program: 1:" in run("diff", one, same)
    assert "The same program: 1:" in run("diff", one, "-", data=SAME.encode())
    assert run("diff", one, two, "--show", "text").strip() == "+ %c = f32[256]{0} copy(%p)"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("copies.bytes > 1000", "copies.bytes > 1000: copies.bytes 0 B → 2.00 KiB (+2.00 KiB)"),
        ("bytes_read > 2%", "bytes_read > 2%: bytes_read 1.00 KiB → 2.00 KiB (+1.00 KiB, +100.0%)"),
        ("changes>0", "changes>0: 1 change"),
        ("copies.bytes > 1MiB", ""),
        ("fusions > 0%", ""),
    ],
)
def test_a_gate_fails_with_the_reason_first(files, condition, reason):
    text = run("diff", *files[:2], "--fail-if", condition, code=int(bool(reason)))
    assert text.startswith(f"FAILED {reason}\n") if reason else not text.startswith("FAILED")
    assert run("diff", files[0], files[2], "--fail-if", condition).startswith("The same program: 1:")


def test_a_gate_that_cannot_fail_says_so(files, tmp_path):
    """A measure that is not known, and directories that have no module in common."""
    unknown = tmp_path / "unknown.hlo"
    unknown.write_text(TWO.replace("copy(p)", 'custom-call(p), custom_call_target="k"'))
    done = command_line.run("diff", files[0], str(unknown), "--fail-if", "flops > 0")
    assert done.returncode == 0
    assert "flops is not known, so that 'flops > 0' cannot fail" in done.stderr.decode()
    for folder in ("c", "d"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"module_0001.jit_{folder}.cpu_after_optimizations.txt").write_text(
            ONE if folder == "c" else TWO
        )
    done = command_line.run("diff", str(tmp_path / "c"), str(tmp_path / "d"), "--fail-if", "copies > 0")
    assert done.returncode == 1 and "nothing can be compared" in done.stderr.decode()


def test_what_is_ignored_does_not_fail(files):
    text = run("diff", *files[:2], "--fail-if", "changes > 0", "--ignore", "copy")
    assert "No changes but 1 that are ignored" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail-if", "copy.bytes > 1"], "did you mean 'copies.bytes'?"),
        (["--fail-if", "copies"], "expected a condition such as 'copies.bytes > 1MiB', found 'copies'"),
        (["--fail-if", "copies > many"], "expected a number such as 128, 10MiB or 50%, found 'many'"),
        (["--ignore", "layuot"], "did you mean 'layout'?"),
    ],
)
def test_mistakes_are_named(files, arguments, message):
    done = command_line.run("diff", *files[:2], *arguments)
    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_json_follows_its_schema(files):
    told = json.loads(run("diff", *files[:2], "--json"))
    jsonschema.validate(told, json.loads(run("schemas", "diff.v1")))
    assert told["totals"]["delta_copy_bytes"] == told["changes"][0]["delta_copy_bytes"] == 2048
    measures = {each["name"]: each["delta"] for each in told["measures"]}
    assert (measures["copies.bytes"], measures["instructions"]) == (2048, 1)
    assert {each["name"]: each["note"] for each in told["measures"]}["peak_bytes"] == "estimated"
    told = json.loads(run("fingerprint", *files, "--json"))
    jsonschema.validate(told, json.loads(run("schemas", "fingerprint.v1")))


def test_rows_in_lines(files):
    assert json.loads(run("diff", *files[:2], "--format", "jsonl"))["b"] == "c"
    assert run("diff", *files[:2], "--format", "csv", "--filter", "kind=removed").count("\n") == 1


def test_fingerprints(files):
    lines = [line.split() for line in run("fingerprint", *files).splitlines()]
    assert [name for _, name in lines] == files
    assert lines[0][0] == lines[2][0] != lines[1][0]
    assert run("fingerprint", *files, "--jobs", "2") == run("fingerprint", *files)
    below = run("fingerprint", f"file://{Path(files[0]).parent}/").splitlines()
    assert sorted(line.split()[0] for line in below) == sorted(line[0] for line in lines)


def test_what_fingerprints_count(tmp_path):
    text = (
        "HloModule m, is_scheduled=true ENTRY e { p = f32[4,4]{1,0} parameter(0), sharding={replicated}"
        " c = f32[16] constant({%s}) a = f32[4,4]{1,0} negate(p) b = f32[4,4]{1,0} abs(p) ROOT t = (f32[16], f32[4,4]{1,0},"
        " f32[4,4]{1,0}) tuple(c, a, b) }"
    )
    ones = text % ", ".join("1" * 16)
    negate, absolute = "a = f32[4,4]{1,0} negate(p)", "b = f32[4,4]{1,0} abs(p)"
    others = {
        "--no-layouts": ones.replace("{1,0}", "{0,1}"),
        "--no-sharding": ones.replace("replicated", "maximal device=0"),
        "--no-constants": text % ", ".join("2" * 16),
        "--no-schedule": ones.replace(f"{negate} {absolute}", f"{absolute} {negate}"),
    }
    first, other = tmp_path / "first.hlo", tmp_path / "other.hlo"
    first.write_text(ones)

    def are_equal(*options):
        lines = [run("fingerprint", path, *options).split()[0] for path in (first, other)]
        return lines[0] == lines[1]

    for option, changed in others.items():
        other.write_text(changed)
        assert [name for name in others if are_equal("--schedule", name)] == [option]
    # Without the option, the order of the schedule alone does not count.
    assert are_equal() and not are_equal("--schedule")


def test_a_schedule_is_a_change_where_that_is_asked_for(tmp_path):
    lines = ("n = f32[4] negate(p)", "a = f32[4] abs(p)")
    paths = [tmp_path / "one.hlo", tmp_path / "two.hlo"]
    for path, (first, second) in zip(paths, (lines, lines[::-1]), strict=True):
        path.write_text(
            f"HloModule m, is_scheduled=true ENTRY e {{ p = f32[4] parameter(0) {first} {second} ROOT r = f32[4] add(n, a) }}"
        )
    assert "The same program" in run("diff", *paths)
    assert "schedule" in run("diff", *paths, "--schedule")


def test_a_stage_of_dumps(tmp_path):
    for folder, before, after in (("a", ONE, ONE), ("b", TWO, ONE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module_0001.jit_f.before_optimizations.txt").write_text(before)
        (tmp_path / folder / "module_0001.jit_f.cpu_after_optimizations.txt").write_text(after)
    both = (tmp_path / "a", tmp_path / "b")
    assert "0 of them changed" in run("diff", *both)
    assert "1 of them changed" in run("diff", *both, "--stage", "before")
    assert "0 of them changed" in run("diff", *both, "--stage", "after")
    last, first, every = [
        [line.split()[0] for line in run("fingerprint", tmp_path / "b", *more).splitlines()]
        for more in ((), ("--stage", "before"), ("--stage", "all"))
    ]
    assert len(last) == len(first) == 1 and last != first and sorted(every) == sorted(last + first)


def test_a_broken_file_is_a_line(files, tmp_path):
    (tmp_path / "broken.hlo").write_text("HloModule m ENTRY")
    text = run("fingerprint", str(tmp_path), code=1)
    assert len(text.splitlines()) == 4
    assert "broken.hlo" in next(line for line in text.splitlines() if line.startswith("---"))


def test_directories_of_dumps(tmp_path):
    for folder, number, text in (("a", 3, ONE), ("b", 7, TWO)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"module_000{number}.jit_f.cpu_after_optimizations.txt").write_text(text)
        (tmp_path / folder / f"module_000{number}.jit_g.cpu_after_optimizations.txt").write_text(
            ONE.replace("jit_f", "jit_g")
        )
        (tmp_path / folder / f"module_000{number}.jit_f.before_optimizations.txt").write_text(ONE)
        beside = tmp_path / folder / f"module_000{number}.jit_f"  # jaxlib 0.12 writes what the module was compiled with
        beside.mkdir()
        for name in ("compile_options.pb", "topology.pb", "module.mlir"):
            (beside / name).write_bytes(b"\x1a\x02\x28\x01")
    (tmp_path / "b" / "module_0009.jit_new.before_optimizations.txt").write_text(ONE)
    done = command_line.run("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--fail-if", "copies > 0")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert text.startswith("FAILED jit_f: copies > 0: copies 0 → 1 (+1)\njit_f: 1 change, copied +2.00 KiB")
    assert text.endswith("2 modules are in both, 1 of them changed\n")
    assert "jit_new is in" in done.stderr.decode()
    both = (str(tmp_path / "a"), str(tmp_path / "b"))
    assert run("diff", both[0], f"{both[0]}/", "--format", "markdown") == "\n2 modules are in both, 0 of them changed\n"
    lines = run("diff", *both, "--format", "csv").splitlines()
    assert [line.partition(",")[0] for line in lines] == ["module", "jit_f"]
    told = json.loads(run("diff", *both, "--json"))
    jsonschema.validate(told, json.loads(run("schemas", "diff.v1")))
    assert told["files"] == ["jit_f", "jit_g"] == [each["module"] for each in told["totals_of_files"]]
    assert [(each["module"], each["b"]) for each in told["changes"]] == [("jit_f", "c")]


def test_modules_of_directories_with_other_names_are_matched_by_fingerprint(tmp_path):
    for folder, name, text in (("a", "jit_old", ONE), ("b", "jit_new", SAME), ("b", "jit_more", TWO)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"module_0001.{name}.cpu_after_optimizations.txt").write_text(text)
    done = command_line.run("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json")
    assert json.loads(done.stdout)["files"] == ["jit_old → jit_new"]
    assert done.stderr.decode().strip() == f"jit_more is in {tmp_path / 'b'} alone"


def test_one_instruction_beside_the_other(files):
    text = run("diff", *files[:2], "--beside", "n")
    assert text.splitlines()[0].split() == ["A", "B"]
    assert "ROOT %n = f32[256]{0} negate(%p)" in text and " | ROOT %n = f32[256]{0} negate(%c)" in text
    assert "> %c = f32[256]{0} copy(%p)" in run("diff", *files[:2], "--beside", "e")
    done = command_line.run("diff", *files[:2], "--beside", "nn")
    assert done.returncode == 2 and "neither module has an instruction or a computation 'nn'" in done.stderr.decode()


# -- Markdown -----------------------------------------------------------------------------


def test_markdown_has_the_summary_first_and_folds_the_rest(files):
    text = run("diff", *files[:2], "--format", "markdown", "--fail-if", "copies > 0", code=1)
    assert "❌ copies &#62; 0: copies 0 → 1 (+1)\n" in text
    assert text.index("❌ copies") < text.index("1 change, copied +2.00 KiB") < text.index("| added | copy | copy |")


@pytest.mark.parametrize(("form", "row"), [("markdown", "| added | copy | copy |"), ("html", "added copy c")])
def test_documents_have_the_changes_that_are_chosen(files, form, row):
    told = {
        text: run("diff", *files[:2], "--format", form, "--filter", text) for text in ("kind=added", "kind=removed")
    }
    assert row in told["kind=added"] and row not in told["kind=removed"]
    assert all("1 change, copied +2.00 KiB" in text for text in told.values())


def test_markdown_fits_into_a_comment():
    """Thousands of rows with long names that are markup."""
    lines = [f"v{i} = f32[{i + 1}] parameter({i})" for i in range(3000)]
    before = f"HloModule m ENTRY e {{ {' '.join(lines)} ROOT t = () tuple() }}"
    more = [
        f'{"n" * 200}{i} = f32[{i + 1}] negate(v{i}), metadata={{source_file="<img onerror=x>|`{i}.py" source_line=3}}'
        for i in range(3000)
    ]
    after = f"HloModule m ENTRY e {{ {' '.join([*lines, *more])} ROOT t = () tuple() }}"
    text = markdown(diff(before, after), "a → b")
    assert 40_000 < len(text) <= MAX_CHARACTERS
    assert text.rstrip().endswith("</details>")
    assert "further rows are left out" in text
    assert "<img" not in text


def test_one_html_file(files):
    text = run("diff", *files[:2], "--format", "html")
    assert text.startswith("<!doctype html>") and "<code>added copy c</code>" in text and "<script" not in text
