"""Whole programs: what leads, what is taken together, the peak; and the table of sizes."""

from __future__ import annotations

import json
import pickle
from importlib import resources
from pathlib import Path

import command_line
import pytest

import xlashape as xs
from xlashape.hlo import HloModule
from xlashape.hlo.flow import module_buffers
from xlashape.reports import REPORTS
from xlashape.reports.report import Entry
from xlashape.reports.size import size
from xlashape.reports.why import programs, why
from xlashape.shape import shape_util, tiling

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "hlo"
SAME = """HloModule layers
ENTRY e {
  p = f32[64,100]{1,0:T(8,128)} parameter(0), metadata={op_name="x"}
  s = f32[]{:T(128)} parameter(1)
  a = f32[64,100]{1,0:T(8,128)} negate(p), metadata={op_name="jit(f)/layer_0/neg" source_file="/home/u/train.py" source_line=7}
  b = f32[64,100]{1,0:T(8,128)} negate(a), metadata={op_name="jit(f)/layer_1/neg" source_file="/home/u/train.py" source_line=7}
  c = f32[64,100]{1,0:T(8,128)} negate(b)
  d = f32[4096]{0:T(1024)} constant({...})
  ROOT t = (f32[64,100]{1,0:T(8,128)}, f32[4096]{0:T(1024)}, f32[]{:T(128)}) tuple(c, d, s)
}
"""
PLAIN = """HloModule plain
ENTRY e { s = f32[] parameter(0) p = f32[10] parameter(1) q = f32[1000] parameter(2) n = f32[1000] negate(q) m = f32[1000] negate(n) ROOT r = f32[10] negate(p) }
"""


def run(*arguments: str) -> str:
    done = command_line.run(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def rows(text: str) -> list[list[str]]:
    """The cells of the table in a text."""
    return [line.split() for line in text.split("─\n")[-1].split("\n\n")[0].splitlines()]


def test_equal_blocks_are_one() -> None:
    memory = why(SAME)
    told = str(memory)
    assert told.count("tile (8,128) pads dimension 1 from 100 to 128") == 2  # of the parameter, and of all that compute
    assert "a (negate, in e, train.py:7), 3 times:" in told
    assert [(one.name, one.times) for one in memory.buffers] == [
        ("p", 1), ("a", 1), ("b", 1), ("c", 1), ("d", 1), ("s", 1),
    ]  # fmt: skip


def test_scalars_never_lead() -> None:
    """A scalar of a TPU is 128 times its element, and yet the last of the list."""
    memory = why(SAME)
    assert max(memory.buffers, key=lambda one: one.factor or 0).name == memory.buffers[-1].name == "s"
    for path in sorted(VECTORS.glob("*.hlo"))[:20]:
        buffers = [one for one in why(path, target="tpu").buffers if one.error is None]
        kinds = [one.is_scalar for one in buffers]
        assert kinds == sorted(kinds)


def test_without_padding_the_largest_are_listed() -> None:
    memory = why(PLAIN)
    assert [one.name for one in memory.buffers] == ["q", "n", "m", "p", "r", "s"]
    assert [(row[0], row[2]) for row in rows(str(memory))] == [
        ("q", "f32[1000]{0}"), ("n", "f32[1000]{0}"), ("p", "f32[10]{0}"), ("r", "f32[10]{0}"), ("s", "f32[]"),
    ]  # fmt: skip
    assert rows(str(memory))[1][-1] == "2"  # times
    assert rows(memory.to_text(1))[0][0] == "q"
    assert "and 5 more buffers" in memory.to_text(1)


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.hlo"))[:25], ids=lambda path: path.name)
def test_the_order_is_padding_then_bytes(path) -> None:
    for target in (None, "tpu"):
        known = [one for one in why(path, target=target).buffers if one.error is None]
        keys = [(one.is_scalar, -one.padding_bytes, -one.bytes) for one in known]
        assert keys == sorted(keys)


def test_the_lines_of_a_program_are_columns() -> None:
    row = next(each for each in why(SAME).table() if each["name"] == "a")
    assert (row["source"], row["op_name"], row["opcode"]) == ("train.py:7", "jit(f)/layer_0/neg", "negate")
    told = str(why(HloModule.parse(SAME).instruction("a")))
    assert told.splitlines()[:2] == ["a (negate, in e)", "  from train.py:7, jit(f)/layer_0/neg"]
    assert why(HloModule.parse(SAME).instruction("c")).table()["source"] == [None]


class _Peak:
    peak_bytes = 1 << 20
    is_estimate = False


def test_the_headline_is_the_peak(monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(
        programs, "report_of", lambda name: type("R", (), {"run": lambda _, x: asked.append((name, x)) or _Peak})()
    )
    monkeypatch.setitem(REPORTS, "memory", Entry("xlashape.reports.memory", ""))
    memory = why(SAME)
    assert (len(memory.buffers), asked) == (6, [])
    assert str(memory).splitlines()[1] == "  peak      1,048,576 bytes (1.00 MiB), by XLA's buffer assignment"
    assert (memory.peak_bytes, memory.peak_is_estimate, len(asked)) == (1 << 20, False, 1)
    assert pickle.loads(pickle.dumps(memory)).peak_bytes == 1 << 20
    answer = size(SAME)
    assert answer.headline().splitlines()[1].startswith("  peak      1,048,576 bytes")
    assert why(SAME, target="tpu").peak_bytes is None  # of other layouts than those of the file


def test_a_peak_that_is_refused_leaves_the_sums(monkeypatch) -> None:
    def refuse(_, x):
        raise xs.errors.UnsupportedError("no schedule")

    monkeypatch.setattr(programs, "report_of", lambda name: type("R", (), {"run": refuse})())
    monkeypatch.setitem(REPORTS, "memory", Entry("xlashape.reports.memory", ""))
    memory = why(SAME)
    assert memory.peak == (None, None, "no schedule")
    assert "peak  " not in str(memory)
    assert f"  sum       {memory.bytes:,} bytes" in str(memory)
    monkeypatch.delitem(REPORTS, "memory")
    assert why(SAME).peak_bytes is None


def test_the_peak_of_a_dump_is_that_of_its_assignment() -> None:
    dumps = sorted((Path(__file__).resolve().parents[2] / "vectors" / "memory").glob("*.hlo.pb*"))[:4]
    assert len(dumps) == 4
    for path in dumps:
        memory = why(path)
        assert (memory.peak_bytes, memory.peak_is_estimate) == (xs.memory(path).peak_bytes, False)


@pytest.mark.parametrize("path", [MODULE, *sorted(VECTORS.glob("*.hlo"))[:15]], ids=lambda path: Path(path).name)
@pytest.mark.parametrize("target", [None, "tpu", "gpu"])
def test_sizes_are_those_of_the_buffers(path, target) -> None:
    module = HloModule.load(path)
    answer = size(module, target=target, order="module")
    found = module_buffers(module).buffers
    assert [(one.name, one.shape_index) for one in answer] == [(b.instruction.name, b.shape_index) for b in found]
    for one in answer:
        if one.error is None:
            of = (
                tiling.physical_bytes(one.shape)
                if target is None
                else shape_util.byte_size_of(one.shape, target=target)
            )
            assert one.bytes == of
    assert answer.bytes == sum(one.bytes or 0 for one in answer)
    assert answer.padding_bytes == sum(one.padding_bytes or 0 for one in answer)
    assert answer.count + answer.shared_count + answer.fused_count >= len(list(module.instructions()))
    assert sorted(one.bytes or 0 for one in size(module, target=target)) == sorted(one.bytes or 0 for one in answer)
    by_bytes = [one.bytes for one in size(module, target=target, order="bytes") if one.error is None]
    assert by_bytes == sorted(by_bytes, reverse=True)


def test_a_part_is_summed_and_says_of_how_many() -> None:
    whole = size(MODULE)
    told = json.loads(run("size", MODULE, "--filter", "opcode=parameter", "--json"))
    kept = [one for one in whole if one.opcode == "parameter"]
    assert told["totals"]["bytes"] == sum(one.bytes for one in kept) < whole.bytes
    assert (told["totals"]["count"], told["totals"]["of_count"]) == (len(kept), len(whole))
    first, _, total = run("size", MODULE, "--filter", "opcode=parameter").splitlines()[:3]
    assert first == f"jit_attention: {len(kept)} of {len(whole)} buffers"
    assert total.startswith(f"  sum       {sum(one.bytes for one in kept):,} bytes")
    none = run("size", MODULE, "--filter", "bytes>=10MiB")
    assert none.startswith(f"jit_attention: 0 of {len(whole)} buffers")
    explained = run("why", MODULE, "--target", "tpu", "--filter", "name~^ynn_fusion", "--limit", "1")
    assert explained.startswith("jit_attention: 5 of 19 buffers on tpu")


@pytest.mark.parametrize("command", ["size", "why"])
def test_columns_have_the_same_names(command) -> None:
    for option in ("bytes>=300KiB", "padding_bytes=0", "factor=1", "times=1", "source~programs", "instruction~fusion"):
        lines = run(command, MODULE, "--filter", option, "--format", "jsonl").splitlines()
        assert lines
        assert list(json.loads(lines[0]))[:2] == ["name", "computation"]


def test_the_size_of_shapes() -> None:
    assert str(size("f32[3]")) == "12 bytes"
    assert str(size("bf16[20,300]{1,0:T(8,128)(2,1)}")) == (
        "18,432 bytes (18.00 KiB): 12,000 bytes (11.72 KiB) of elements, 6,432 bytes (6.28 KiB) (34.9%) of padding"
    )
    assert [(str(one.index), one.bytes) for one in size("(f32[], (s32[4], token[]))")] == [
        ("{0}", 4), ("{1,0}", 16), ("{1,1}", 0),
    ]  # fmt: skip
    assert [one.bytes for one in size("(f32[], s32[4])", target="tpu")] == [512, 4096, 512]
    with pytest.raises(xs.errors.InvalidArgumentError, match="order is one of padding, bytes, module, not 'name'"):
        size("f32[3]", order="name")
    with pytest.raises(xs.errors.NotFoundError, match="nope"):
        size(MODULE, computation="nope")


def test_a_computation_that_is_fused_counts_as_if_it_had_memory() -> None:
    module = HloModule.load(MODULE)
    inside = module.computation("fused_computation")
    answer = size(module, computation=inside.name)
    assert [one.name for one in size(module, computation=inside.name, order="module")] == [
        i.name for i in inside.instructions
    ]
    assert answer.bytes == sum(tiling.physical_bytes(i.shape) for i in inside.instructions)
    assert "3 buffers in fused_computation" in str(answer)


@pytest.mark.parametrize("command", ["size", "why", "reads", "map", "verify"])
@pytest.mark.parametrize("from_file", [True, False])
def test_bytes_of_nothing_are_told_in_one_way(command, from_file, tmp_path) -> None:
    path = tmp_path / "random.bin"
    path.write_bytes(bytes((7 * i * i + 13) % 256 for i in range(300)))
    done = command_line.run(command, path) if from_file else command_line.run(command, "-", data=path.read_bytes())
    name = str(path) if from_file else "<stdin>"
    assert (done.returncode, done.stdout) == (1, b"")
    broken = "the wire format is broken: it is cut off, or not a module"
    assert done.stderr.decode() == f"xlashape: {name} holds no HLO module: {broken}\n"


@pytest.mark.parametrize("command", ["size", "why"])
@pytest.mark.parametrize("x", ["f32[3]", "(f32[3], s8[2])", MODULE])
def test_a_column_that_is_not_there_is_told_of_shapes_too(command, x) -> None:
    for option in (("--sort", "x"), ("--filter", "x=1")):
        done = command_line.run(command, x, *option)
        assert done.returncode == 2
        assert f"{option[0]}: there is no column 'x'; there are name, " in done.stderr.decode()


def test_a_directory_of_many_modules_is_a_short_line(tmp_path) -> None:
    for number in range(40):
        (tmp_path / f"module_{number:04}.jit_a_function_with_a_long_name.txt").write_text(PLAIN)
    done = command_line.run("draw", tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.decode().splitlines()) == 1
    assert done.stderr.decode().rstrip().endswith("and 35 more")
