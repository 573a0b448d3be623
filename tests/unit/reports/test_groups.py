"""Rows in groups of something in common, in every report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command_line
import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError
from xlashape.reports.groups import RowGroup, grouped
from xlashape.reports.layers import Layers
from xlashape.reports.report import REPORTS, Answer, report_of

VECTORS = Path(__file__).parents[2] / "vectors"
MODULE = VECTORS / "memory" / "mlp_loss_grad.hlo.pb"
OTHER = VECTORS / "memory" / "scan_rnn_grad.hlo.pb"
KEYS = ("source", "op_name", "layer", "each_layer")


def answer(name: str) -> Answer[Any]:
    """The answer of a report about a vector."""
    report = report_of(name)
    subjects: tuple[Any, ...] = (MODULE,)
    if report.inputs == ("profile",):
        subjects = (VECTORS / "profiles" / "scan_grad.xplane.pb",)
    if report.inputs == ("a", "b"):
        subjects = (MODULE, OTHER) if name == "diff" else (MODULE, MODULE)
    if name == "tile":
        return report.run("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }", "n", sizes=(4,))
    return report.run(*subjects)


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_every_report_has_groups(name: str) -> None:
    found: Any = answer(name)
    report = found.report
    section = next((each for each in report.sections if each.name == "by"), None)
    if section is None:
        key = next(each.name for each in report.columns if each.kind.name == "TEXT")
        assert sum(group.count for group in found.by(key)) == len(found.objects_of())
        keys = ()
    else:
        assert section.argument is not None
        keys = section.argument.choices
    for key in keys:
        groups = found.by(key)
        names = [group.group for group in groups]
        assert len(set(names)) == len(names)
        for column in section.columns[1:] if section is not None else ():
            assert all(hasattr(group, column.name) for group in groups)
    with pytest.raises(InvalidArgumentError, match="expected one of"):
        found.by("colour")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("name", "totals"),
    [
        ("copies", ("copies", "total_bytes", "saved_bytes")),
        ("reads", ("operands", "wasted_bytes", "again_bytes", "distinct_bytes")),
        ("size", ("count", "bytes", "padding_bytes", "element_bytes")),
        ("cost", ("flops", "bytes", "transcendentals")),
        ("diff", ("delta_bytes", "delta_copies", "delta_instructions")),
    ],
)
def test_the_sums_of_groups_are_the_totals(name: str, totals: tuple[str, ...], key: str) -> None:
    found: Any = answer(name)
    for total in totals:
        assert sum(getattr(group, total) for group in found.by(key)) == getattr(found, total)


def test_groups_of_memory_are_the_peak() -> None:
    found = xs.memory(MODULE)
    for key in KEYS:
        assert sum(group.bytes for group in found.by(key)) == found.peak_bytes
    assert any(group.group.startswith("arguments") for group in found.by("layer"))


class Row:
    def __init__(self, op_name: str, opcode: str = "add") -> None:
        self.op_name, self.opcode = op_name, opcode


def test_layers_that_differ_in_their_number_are_one() -> None:
    names = [f"jit(f)/jvp(net)/block_{n}/mlp/dot" for n in range(32)] + ["jit(f)/jvp(net)/head/dot"]
    names += [f"jit(f)/while/body/net/block_{n}/add" for n in range(32)]
    found = grouped([Row(name) for name in names], "layer", ("layer",))
    assert {name: len(rows) for name, rows in found.items()} == {"net/block_* × 32": 64, "net/head": 1}
    arguments = [Row(f"params['block_{n}']['kernel']", "parameter") for n in range(3)]
    assert list(grouped(arguments, "layer", ("layer",))) == ["arguments/params/block_* × 3"]
    assert list(grouped([Row("", "parameter"), Row("")], "layer", ("layer",))) == ["arguments", "(no layer known)"]


def test_the_command_folds_what_is_alike_unless_it_is_asked_not_to(tmp_path: Path) -> None:
    lines = [
        f'  x{n + 1} = f32[64]{{0}} negate(x{n}), metadata={{op_name="jit(f)/net/layer_{n}/neg"}}' for n in range(3)
    ]
    path = tmp_path / "m.hlo"
    path.write_text(
        "\n".join(["HloModule m, is_scheduled=true", "ENTRY e {", "  x0 = f32[64]{0} parameter(0)", *lines, "}"])
    )

    def shown(*arguments: str) -> str:
        return command_line.run(*arguments[:1], str(path), *arguments[1:]).stdout.decode()

    assert "net/layer_* × 3" in shown("cost", "--by", "layer")
    unfolded = shown("cost", "--by", "layer", "--unfold")
    assert unfolded == shown("cost", "--by", "each_layer")
    assert [f"net/layer_{n} " in unfolded for n in range(3)] == [True] * 3
    assert ["x2 " in shown("size"), "x2 " in shown("size", "--unfold")] == [False, True]


SHARED = """HloModule m
f {{
  p = f32[64]{{0}} parameter(0)
  ROOT max = f32[64]{{0}} negate(p), metadata={{op_name="max"}}
}}
ENTRY e {{
  x = f32[64]{{0}} parameter(0)
  a = f32[64]{{0}} call(x), to_apply=f, metadata={{op_name="jit(step)/net/{0}/jit(relu)"}}
  ROOT b = f32[64]{{0}} call(a), to_apply=f, metadata={{op_name="jit(step)/net/{1}/jit(relu)"}}
}}"""


@pytest.mark.parametrize(
    ("one", "other", "folded"),
    [
        ("layer_0", "layer_0", "net/layer_0"),
        ("layer_0", "layer_1", "net/layer_*"),
        ("conv1_block2_out", "conv3_block4_out", "net/conv*_block*_out"),
        ("router", "head", "f, in 2 layers"),
    ],
)
def test_a_function_belongs_to_the_layers_that_call_it(one: str, other: str, folded: str) -> None:
    module = SHARED.format(one, other)
    assert [group.group for group in xs.cost(module).by("layer")] == [folded]
    assert folded in {group.group for group in xs.memory(module).by("layer")}
    assert {group.group for group in xs.reads(module).by("layer")} == {folded}


def test_what_is_in_no_layer_is_told_by_its_line() -> None:
    module = """HloModule m, is_scheduled=true
    ENTRY e {
      x = f32[64]{0} parameter(0)
      a = f32[64]{0} negate(x), metadata={op_name="jit(f)/jvp(jit(relu))/neg" source_file="model.py" source_line=7}
      b = f32[64]{0} negate(a)
      i = f32[64]{0} iota(), iota_dimension=0
      ROOT t = (f32[64]{0}, f32[64]{0}) tuple(b, i)
    }"""
    assert {group.group: group.count for group in xs.cost(module).by("layer")} == {
        "model.py:7": 2,
        "(no layer known)": 1,
    }


PREFETCHES = """HloModule m, is_scheduled=true
body {{
  s = (f32[64]{{0}}, f32[64]{{0}}) parameter(0)
  w = f32[64]{{0}} get-tuple-element(s), index=0
  y = f32[64]{{0}} get-tuple-element(s), index=1
  z = f32[64]{{0}} add(w, y), metadata={{op_name="jit(f)/net/while/body/{in_loop}/add"}}
  ROOT r = (f32[64]{{0}}, f32[64]{{0}}) tuple(w, z)
}}
cond {{
  s = (f32[64]{{0}}, f32[64]{{0}}) parameter(0)
  ROOT c = pred[] constant(false)
}}
async {{
  p = f32[128]{{0}} parameter(0)
  ROOT part = f32[64]{{0}} slice(p), slice={{[0:64]}}
}}
ENTRY e {{
  x = f32[64]{{0}} parameter(0), metadata={{op_name="params['x']"}}
  k = f32[128]{{0}} parameter(1), metadata={{op_name="params['k']"}}
  half = bf16[64]{{0}} convert(x)
  full = f32[64]{{0}} convert(half)
  start = (f32[64]{{0:S(1)}}, f32[64]{{0}}, u32[]) copy-start(x)
  done = f32[64]{{0:S(1)}} copy-done(start)
  begun = ((f32[128]{{0}}), f32[64]{{0:S(1)}}, s32[]) async-start(k), calls=async
  cut = f32[64]{{0:S(1)}} async-done(begun), calls=async
  a = f32[64]{{0}} add(done, cut), metadata={{op_name="jit(f)/net/{one}/add"}}
  b = f32[64]{{0}} multiply(done, a), metadata={{op_name="jit(f)/net/{other}/mul"}}
  state = (f32[64]{{0}}, f32[64]{{0}}) tuple(full, b)
  loop = (f32[64]{{0}}, f32[64]{{0}}) while(state), condition=cond, body=body
  ROOT last = f32[64]{{0}} get-tuple-element(loop), index=1
}}"""


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("q", "q", "net/q"),  # all uses in one layer
        ("attention/q", "attention/k", "net/attention"),  # in two, of one
        ("q", "k", "net"),
    ],
)
def test_an_instruction_without_a_name_belongs_to_the_layer_that_its_result_is_for(
    one: str, other: str, shared: str
) -> None:
    module = xs.HloModule.parse(PREFETCHES.format(one=one, other=other, in_loop="mlp"))
    layers = Layers(module)
    found = {each: layers.of(module.instruction(each)) for each in ("start", "done", "begun", "part", "cut")}
    assert found == {"start": shared, "done": shared, **dict.fromkeys(["begun", "part", "cut"], f"net/{one}")}
    # a weight that is converted before the loop is for the layer in the loop, by way of the loop's state
    assert [layers.of(module.instruction(each)) for each in ("half", "full")] == ["net/mlp", "net/mlp"]
    assert [layers.of(module.instruction(each)) for each in ("a", "x")] == ["", ""]  # these name their own
    copied = {row.name: group.group for group in xs.copies(module).by("layer") for row in group.rows}
    assert copied["start"] == shared
    assert "(no layer known)" not in {group.group for group in xs.cost(module).by("layer")}


def test_what_only_leaves_the_program_is_in_the_layer_of_what_makes_it() -> None:
    module = """HloModule m, is_scheduled=true
    ENTRY e {
      x = f32[64]{0} parameter(0), metadata={op_name="params['x']"}
      a = f32[64]{0} negate(x), metadata={op_name="jit(f)/net/head/neg"}
      b = f32[64]{0} copy(a)
      c = bf16[64]{0} convert(x)
      ROOT t = (f32[64]{0}, bf16[64]{0}) tuple(b, c)
    }"""
    groups = {group.group: [row.name for row in group.rows] for group in xs.cost(module).by("layer")}
    assert groups == {"net/head": ["a", "b"], "arguments/params": ["c"]}


def test_many_groups_are_folded_in_every_number() -> None:
    names = [f"jit(f)/conv{n}_block{m}_bn/add" for n in range(5) for m in range(5)] + ["jit(f)/head/dot"]
    assert set(grouped([Row(name) for name in names], "layer", ("layer",))) == {"conv*_block*_bn × 25", "head"}
    assert len(grouped([Row(name) for name in names], "each_layer", ("each_layer",))) == 26


@pytest.mark.parametrize("name", ["cost", "memory", "reads", "copies"])
def test_groups_stand_below_the_headline_and_above_the_notes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m\nENTRY e { p = f32[8,128]{1,0} parameter(0) ROOT c = f32[8,128]{0,1} copy(p) }", "utf-8"
    )
    shown = command_line.run(name, str(path), "--by", "source").stdout.decode()
    found: Any = report_of(name).run(path)
    assert shown.startswith(found.headline().splitlines()[0])
    assert shown.count("The module has no schedule") == 1
    assert "The file has no metadata of its instructions: layers, lines and operations are not known." in shown


def test_a_group_says_what_it_has() -> None:
    group = RowGroup("x", (), {"bytes": 4})
    assert (group.bytes, repr(group)) == (4, "RowGroup(group='x', sums={'bytes': 4})")
    with pytest.raises(AttributeError, match="a group has no 'flops'; it has bytes"):
        print(group.flops)


def test_calls_many_levels_deep_have_the_layer_of_the_outermost() -> None:
    depth = 3_000
    body = "p = f32[8] parameter(0) ROOT r = f32[8]"
    text = [f"HloModule m\n\nco0 {{ {body} negate(p) }}"]
    text += [f"co{level} {{ {body} call(p), to_apply=co{level - 1} }}" for level in range(1, depth)]
    named = 'metadata={op_name="jit(f)/net/layer_0/relu"}'
    text.append(f"ENTRY e {{ {body} call(p), to_apply=co{depth - 1}, {named} }}")
    module = xs.HloModule.parse("\n".join(text))
    for report in (xs.cost, xs.reads):
        assert [row.group for row in report(module).by("layer")] == ["net/layer_0"]
