"""The picture of a program's layers: its rows against the program's names and FLOPs, and what files hold."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

import xlashape as xs
from xlashape.drawing.layers import MOST_ROWS, LayersPicture, layer_rows


def _model(layers: int, *, last: str = "add", body: str = "") -> xs.HloModule:
    """A model of alike layers, each a product of 2 · 8 · 8 · 8 FLOPs and an addition, and one of another kind."""
    lines = ["  p = f32[8,8] parameter(0)"]
    name = "p"
    for number in range(layers):
        opcode = last if number == layers - 1 else "add"
        scope = f'metadata={{op_name="jit(f)/jvp(M/x)/layers_{number}'
        line = f'source_file="/m/model.py" source_line={7 + number % 2}}}'
        lines.append(
            f"  d{number} = f32[8,8] dot({name}, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, "
            f'{scope}/dense/dot_general" {line}'
        )
        lines.append(f'  a{number} = f32[8,8] {opcode}(d{number}, p), {scope}/{opcode}" {line}')
        name = f"a{number}"
    root = f'  ROOT r = f32[8,8] negate({name}), metadata={{op_name="jit(f)/head/neg"}}'
    return xs.HloModule.parse("\n".join(["HloModule m", body, "ENTRY e {", *lines, root, "}"]))


def test_alike_layers_share_a_row_and_flops_add_up():
    module = _model(4)
    rows = layer_rows(module)
    found = [(row.depth, row.name, row.times, row.instructions, row.flops) for row in rows]
    assert found == [
        (0, "jit(f)", 1, 9, 4 * (1024 + 64) + 64),
        (1, "jvp(M/x)", 1, 8, 4 * (1024 + 64)),
        (2, "layers_0 … layers_3", 4, 2, 4 * (1024 + 64)),
        (3, "dense", 1, 1, 1024),
        (1, "head", 1, 1, 64),
    ]
    assert sum(row.flops for row in rows if not row.depth) == xs.cost(module).flops
    assert rows[2].source == "model.py:7"


def test_a_layer_that_differs_in_an_operation_has_a_row_of_its_own():
    names = [(row.name, row.times) for row in layer_rows(_model(4, last="multiply")) if row.depth == 2]
    assert names == [("layers_0 … layers_2", 3), ("layers_3", 1)]


def test_what_loops_and_fusions_hold_is_in_its_layer_and_unknown_flops_are_marked():
    text = """HloModule m
    fused { a = f32[4] parameter(0)  ROOT t = f32[4] negate(a), metadata={op_name="jit(f)/loop/inner/neg"} }
    body { s = f32[4] parameter(0)  ROOT u = f32[4] fusion(s), kind=kLoop, calls=fused }
    cond { s = f32[4] parameter(0)  ROOT c = pred[] custom-call(s), custom_call_target="x" }
    ENTRY e { p = f32[4] parameter(0)  ROOT w = f32[4] while(p), body=body, condition=cond,
      metadata={op_name="jit(f)/loop/while"} }
    """
    rows = {row.name: row for row in layer_rows(xs.HloModule.parse(text))}
    assert not rows["jit(f)/loop"].is_complete
    assert rows["jit(f)/loop"].flops_text.startswith("≥")
    assert rows["inner"].operations == "1 negate"
    assert {"(without scope)", "fusion", "custom-call"} <= rows.keys()


def test_a_program_of_many_layers_is_shown_to_a_depth_that_fits():
    lines = [
        f'  n{number} = f32[] negate(p), metadata={{op_name="a/{"x" * (1 + number)}/y/z"}}' for number in range(100)
    ]
    module = xs.HloModule.parse("\n".join(["ENTRY e {", "  p = f32[] parameter(0)", *lines, "}"]))
    rows = layer_rows(module)
    assert len(rows) <= MOST_ROWS
    assert [(row.depth, row.name, row.instructions) for row in rows] == [(0, "a", 100)]


@pytest.mark.parametrize("name", ["a" * 100_000, "(" * 100_000, "/" * 100_000, "a/" * 50_000, '<&>\x1b[2J/x"'])
def test_any_name_gives_a_picture(name):
    module = _model(2)
    proto = module.proto
    proto.computations[-1].instructions[2].metadata.op_name = name
    picture = LayersPicture(xs.HloModule(proto))
    ET.fromstring(picture.svg())
    assert "\x1b" not in picture.text() + picture.html()


def test_files_hold_the_rows(tmp_path):
    picture = LayersPicture(_model(3))
    texts = [each.text for each in ET.fromstring(picture.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert "layers_0 … layers_2 ×3" in texts
    assert "the layers of m" in texts
    for suffix in ("svg", "html", "png"):
        picture.save(tmp_path / f"x.{suffix}")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert "×3" in picture.text(width=60)
    assert max(map(len, picture.text(width=60).splitlines()[3:])) <= 60
