"""What stands out: each finding says what another report says, those that a change mends first, and repeated layers are
one."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import command_line
import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError

VECTORS = Path(__file__).parents[3] / "vectors"
PROFILE = VECTORS / "profiles" / "scan_grad.xplane.pb"
STAGE = "jit__lambda(4)"
DUMPS = sorted((VECTORS / "memory").glob("*.hlo.pb"))
OF_MANY_VERSIONS = sorted((VECTORS / "versions").glob("*post*"))
_OF_TIME = ("measured time", "least time", "FLOPs", "collectives")


def layers(count: int, *, is_scheduled: bool = True) -> str:
    """A program with `count` layers, each a product."""
    lines = ["  x0 = f32[64,64]{1,0} parameter(0)"]
    for n in range(count):
        name = f'op_name="jit(step)/jvp(net)/layer_{n}/dot_general" source_file="net.py" source_line={n + 1}'
        lines.append(
            f"  {'ROOT ' * (n == count - 1)}x{n + 1} = f32[64,64]{{1,0}} dot(x{n}, x{n}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{0}}, metadata={{{name}}}"
        )
    head = "HloModule jit_step, is_scheduled=true" if is_scheduled else "HloModule jit_step"
    return "\n".join([head, "", "ENTRY main {", *lines, "}"])


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_findings_are_what_the_reports_say(path: Path) -> None:
    found = xs.summary(path)
    memory, cost, copies = xs.memory(path), xs.cost(path), xs.copies(path)
    assert (found.peak_bytes, found.bytes, found.flops) == (memory.peak_bytes, cost.padded_bytes, cost.flops)
    assert 0 < len(found.rows) <= 7
    changes = {each.text: each for each in memory.suggest()}
    for row in found.rows:
        assert 0.01 <= row.share
        assert row.share <= 1.0 or row.kind == "reads"
        assert row.fix is not None or row.share >= 0.05
        if row.measure == "peak":
            assert row.bytes is not None and row.share == pytest.approx(row.bytes / memory.peak_bytes)
        if row.kind == "reads":
            assert row.bytes is not None and row.share == pytest.approx(row.bytes / cost.padded_bytes)
            assert row.fix is None or row.fix.startswith("try ")
        elif row.measure == "traffic":
            assert row.bytes is not None and row.share == pytest.approx(row.bytes / cost.bytes, rel=0.05)
        if row.kind == "memory" and row.fix in changes and changes[row.fix].change not in ("donate", "carry"):
            assert row.bytes == memory.peak_bytes - (changes[row.fix].upper_bytes or 0)
        elif row.kind == "memory" and row.fix is not None:
            assert "donate_arg" in row.fix or row.fix.startswith("carry ")
            assert row.bytes is not None and row.bytes <= memory.argument_bytes
        if row.kind == "copies":
            assert row.bytes is not None and row.bytes <= copies.total_bytes
    kinds = {row.kind for row in found.rows} | {each.kind for each in found.fine}
    assert kinds >= {"memory", "copies", "reads", "collectives"}


@pytest.mark.parametrize("path", OF_MANY_VERSIONS, ids=lambda path: path.name)
def test_no_share_is_more_than_the_whole(path: Path) -> None:
    assert all(0.0 < row.share <= 1.0 for row in xs.summary(path).rows)


def test_a_module_with_fusions_is_optimized() -> None:
    fused = layers(2, is_scheduled=False).replace(
        "ENTRY", "f {\n  p = f32[64,64]{1,0} parameter(0)\n  ROOT n = f32[64,64]{1,0} negate(p)\n}\n\nENTRY"
    )
    fused = fused.replace("ROOT x2", "y = f32[64,64]{1,0} fusion(x0), kind=kLoop, calls=f\n  ROOT x2")
    found = xs.summary(fused)
    assert found.peak_bytes is not None
    assert not [note for note in found.notes if "before XLA's optimizations" in note]


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
@pytest.mark.parametrize("target", [None, "tpu-v5e"])
def test_changes_that_save_much_come_first(path: Path, target: str | None) -> None:
    rows = xs.summary(path, target=target).rows
    mends = [row.fix is not None and row.share >= 0.05 for row in rows]
    assert mends == sorted(mends, reverse=True)
    for part in (True, False):
        times = [
            row.share
            for row, is_mended in zip(rows, mends, strict=True)
            if is_mended is part and row.measure in _OF_TIME
        ]
        sizes = [
            row.bytes or 0
            for row, is_mended in zip(rows, mends, strict=True)
            if is_mended is part and row.measure not in _OF_TIME
        ]
        assert times == sorted(times, reverse=True)
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_repeated_layers_are_one_finding(count: int) -> None:
    found = xs.summary(layers(count))
    name = f"net/layer_* × {count}" if count > 1 else "net/layer_0"
    (row,) = [row for row in found.rows if row.kind == "cost"]
    assert (row.where, row.times, row.share) == (name, count, 1.0)
    assert f"in {count} instruction{'s' * (count > 1)} of {name}" in row.text
    groups = xs.cost(layers(count)).by("layer")
    assert [(group.group, group.instructions) for group in groups] == [(name, count)]
    assert len(xs.cost(layers(count)).by("each_layer")) == count


def test_before_optimizations_only_what_they_keep_is_told() -> None:
    found = xs.summary(layers(3, is_scheduled=False))
    assert (found.peak_bytes, found.bytes, found.least_time) == (None, None, None)
    assert {row.measure for row in found.rows} == {"FLOPs"}
    assert "before XLA's optimizations" in found.notes[0]
    assert "peak" not in found.headline()


def test_a_profile_says_what_took_the_time() -> None:
    found = xs.summary(f"{PROFILE}#{STAGE}", profile=PROFILE)
    rows = [row for row in xs.profile(PROFILE).rows if row.module == found.module]
    assert {row.source for row in rows} == {"jax_programs.py:46", ""}
    timed = [row for row in found.rows if row.measure == "measured time"]
    assert found.rows[[row.fix is None for row in found.rows].index(True)] is timed[0]
    assert timed[0].share == pytest.approx(1.0)  # copies without a line are for this one
    assert f"in {len(rows)} instructions of jax_programs.py:46" in timed[0].text
    assert len(timed) + sum(each.kind == "profile" for each in found.fine) == 3


def test_the_notes_of_a_profile_are_told() -> None:
    path = VECTORS / "profiles" / "same_names.xplane.pb"
    program = max({row.program_id for row in xs.profile(path).rows if row.module == "jit__lambda"})
    found = xs.summary(f"{path}#jit__lambda({program})", profile=path)
    assert "Several programs are called jit__lambda; their ids keep them apart." in found.notes


def test_the_command_is_the_answer_of_a_file_without_one(tmp_path: Path) -> None:
    path = tmp_path / "net.hlo"
    path.write_text(layers(4))
    asked = command_line.run("summary", str(path), "--target", "h100", "--json")
    assert json.loads(asked.stdout)["totals"] == json.loads(json.dumps(xs.summary(path, target="h100").totals))
    assert command_line.run(str(path)).stdout == command_line.run("summary", str(path)).stdout
    assert command_line.run(str(path), "--limit", "1").stdout.startswith(b"jit_step: ")
    assert command_line.run("-", data=layers(4).encode()).stdout == command_line.run(str(path)).stdout
    assert b"there is no file 'nothing.hlo'" in command_line.run("nothing.hlo").stderr
    timed = command_line.run("summary", f"{PROFILE}#{STAGE}", "--profile", str(PROFILE))
    assert b"of the measured time" in timed.stdout


def test_all_donations_are_one_change() -> None:
    text = """HloModule jit_step, is_scheduled=true

ENTRY e {
  p = f32[64]{0} parameter(0), metadata={op_name="p['w']"}
  q = f32[64]{0} parameter(1), metadata={op_name="p['v']"}
  s = f32[32]{0} parameter(2), metadata={op_name="s"}
  a = f32[64]{0} negate(p)
  b = f32[64]{0} negate(q)
  c = f32[32]{0} negate(s)
  ROOT r = (f32[64]{0}, f32[64]{0}, f32[32]{0}) tuple(a, b, c)
}"""
    (row,) = [row for row in xs.summary(text).rows if row.fix is not None]
    assert row.fix == (
        "jax.jit(f, donate_argnames=('p', 's')): outputs take the memory of 3 arrays, 640 B; if f takes one of these by "
        "position only: donate_argnums=(0, 1), not counting static or unused arguments"
    )
    donated = text.replace(
        "is_scheduled=true", "is_scheduled=true, input_output_alias={ {0}: (0, {}), {1}: (1, {}), {2}: (2, {}) }"
    )
    assert row.bytes == xs.memory(text).peak_bytes - xs.memory(donated).peak_bytes
    assert not [each for each in xs.summary(donated).rows if each.fix is not None]


def test_another_target_is_a_mistake() -> None:
    with pytest.raises(InvalidArgumentError, match="'h900'"):
        xs.summary(layers(1), target="h900")


def test_nothing_is_said_to_be_fine_where_a_part_of_the_text_is_missing() -> None:
    text = layers(4)
    assert xs.summary(text).fine
    cut = xs.summary(text[: text.rindex("ROOT")])
    assert not cut.fine and "Fine" not in str(cut)
    assert any("the rest is missing, and sums and shares are those of this part" in note for note in cut.notes)


def test_a_bound_of_what_an_edit_saves_is_told_as_one() -> None:
    text = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[1024,128]{0,1:T(8,128)})->f32[1024,128]{1,0:T(8,128)}}

ENTRY main {
  p = f32[1024,128]{0,1:T(8,128)} parameter(0), metadata={op_name="x"}
  c = f32[1024,128]{1,0:T(8,128)} copy(p)
  ROOT n = f32[1024,128]{1,0:T(8,128)} negate(c)
}
"""
    (told,) = [each for each in xs.copies(text).suggestions if "c" in each.removes]
    assert not told.is_exact
    (row,) = [row for row in xs.summary(text).rows if row.kind == "copies"]
    assert row.fix == f"{told.text}, which saves at most 1.00 MiB"
    assert told.saved_bytes == 1 << 20


@pytest.mark.parametrize("path", OF_MANY_VERSIONS, ids=lambda path: path.name)
def test_collectives_without_what_they_save_count_by_what_they_send(path: Path) -> None:
    asked = xs.collectives(path)
    sent = {row.name: (row.sent_bytes or 0) * row.times for row in asked.rows}
    for each in asked.findings:
        told = [row for row in xs.summary(path).rows if row.text == each.text]
        for row in told:
            by_bytes = each.saved_bytes or sum(sent[name] for name in each.names)
            assert row.measure == "collectives" or row.share == pytest.approx(by_bytes / (asked.sent_bytes or 1))


def test_small_blocks_of_a_kernel_are_told_with_what_larger_ones_save() -> None:
    """A product of matrices of 8 MiB in blocks of 512: each is moved four times."""
    kernels = lzma.decompress((VECTORS / "pallas_kernels.jsonl.xz").read_bytes()).splitlines()
    names = ("matmul", "matmul_whole_k")
    texts = {each["name"]: each["text"] for each in map(json.loads, kernels) if each["name"] in names}
    # What XLA adds when it has compiled a program.
    head = "HloModule jit__lambda"
    text, whole = (texts[name].replace(head, f"{head}, is_scheduled=true") for name in names)
    row = xs.summary(text).rows[0]
    assert (row.measure, row.kind, row.bytes, row.share) == ("traffic", "reads", 32 << 20, pytest.approx(32 / 72))
    assert row.text == "32.0 MiB of the 48.0 MiB that the kernel pallas_call.1 moves again need not be moved"
    assert row.fix is not None
    assert row.fix.count("2 instead of 4 steps along dimension") == 2
    told = [row for row in xs.summary(whole).rows if "larger blocks" in row.text]
    assert [row.fix for row in told] == [None], "twice 10 MiB are more than XLA gives a kernel"
    assert "larger blocks, which take 10.0 MiB of VMEM now, and may need more than the 16.0 MiB" in told[0].text
    # It calculates for longer than it moves on a v5e.
    assert not any("larger blocks" in row.text for row in xs.summary(whole, target="tpu-v5e").rows)
    text = str(xs.summary(text))
    assert text.index("\n1. 44.4% of the traffic") < text.index("\nWhere most of it goes") < text.index("\n-  ")


def test_a_program_without_a_change_says_so() -> None:
    lines = str(xs.summary(layers(3))).splitlines()
    assert "No change is known that is sure to help. Where most of it goes:" in lines
    assert not any(line.startswith("1. ") for line in lines)


def test_another_layout_that_lowers_what_is_fetched_again_is_to_be_tried() -> None:
    """A fusion reads an argument along columns; XLA takes arguments in whatever layout the caller asks for."""
    text = """HloModule m, is_scheduled=true
    f { a = f32[2048,4096] parameter(0) t = f32[4096,2048] transpose(a), dimensions={1,0} b = f32[4096,2048] parameter(1)
      ROOT s = f32[4096,2048] add(t, b) }
    ENTRY e { x = f32[2048,4096] parameter(0), metadata={op_name="x"} y = f32[4096,2048] parameter(1)
      ROOT r = f32[4096,2048] fusion(x, y), kind=kLoop, calls=f, backend_config={"outer_dimension_partitions":["2"]} }"""
    (read,) = [row for row in xs.reads(text, target="cpu") if row.mend]
    (row,) = [row for row in xs.summary(text, target="cpu").rows if row.kind == "reads"]
    assert (row.bytes, row.instruction) == (read.again_bytes, "r")
    assert row.fix is None, "XLA may fuse otherwise"
    assert row.text.endswith(f"to try: {read.mend}, with which XLA may fuse otherwise")
    assert "in_shardings of x: Format(Layout((1, 0)), sharding)" in row.text


def test_a_module_of_another_device_is_said_to_be_one() -> None:
    text = layers(2).replace("f32[64,64]{1,0}", "f32[64,64]{1,0:T(8,128)}")
    said = "The module is compiled for a TPU; for h100 XLA makes another program of it."
    assert said in xs.summary(text, target="h100").notes
    assert said not in xs.summary(text, target="tpu-v5e").notes
    assert xs.summary(text).notes == ()


def test_flops_of_a_text_without_metadata_are_no_ones_arguments() -> None:
    text = """HloModule m ENTRY e { a = f32[64,64] parameter(0) b = f32[64,64] parameter(1)
      ROOT d = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    (row,) = [row for row in xs.summary(text).rows if row.measure == "FLOPs"]
    assert (row.instruction, row.text.endswith("in d")) == ("d", True)


def test_a_change_that_mends_two_findings_is_told_once() -> None:
    found = xs.summary(VECTORS / "memory" / "mlp_loss_grad.hlo.pb")
    row = found.rows[0]._replace(fix="carry x")
    found.rows = [row._replace(fix="carry x, which saves at most 1.00 GiB"), row, row._replace(fix="carry y")]
    told = [line for line in found.to_text().splitlines() if line.startswith("   → ")]
    assert told == ["   → carry x, which saves at most 1.00 GiB", "   → the same change as 1.", "   → carry y"]
