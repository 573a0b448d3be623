"""--target of commands about one shape, and the positions of elements of an instruction's result."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import command_line
import pytest
from click.testing import CliRunner

import xlashape as xs
from xlashape.cli import main
from xlashape.shape import tpu_layout

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))


def said(*arguments: str, code: int = 0) -> str:
    result = command_line.run(*arguments)
    assert result.returncode == code, result.stderr
    return (result.stdout if code == 0 else result.stderr).decode().strip()


@pytest.mark.parametrize("target", [None, "gpu", "cpu", "tpu", "tpu-v3"])
def test_the_address_of_an_element_of_a_parameter_is_one_command(target: str | None) -> None:
    shape = xs.HloModule.load(MODULE).instruction("x.1").shape
    placed = tpu_layout.default_shape(shape, target) if target is not None and target.startswith("tpu") else shape
    asked = ["index", MODULE, "x.1", "0,3,5", "2,60,255", *(["--target", target] if target else [])]
    expected = [xs.tiling.linear_index(placed, (0, 3, 5)), xs.tiling.linear_index(placed, (2, 60, 255))]
    assert said(*asked).splitlines() == list(map(str, expected))
    told = json.loads(said(*asked, "--json", "--unit", "byte"))
    assert (told["shape"], [row["position"] for row in told["rows"]]) == (str(placed), [2 * each for each in expected])


def test_the_element_at_a_position_of_a_result() -> None:
    assert said("index", MODULE, "x.1", "--inverse", "267", "--target", "tpu") == "0,3,5"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x.1"], "Missing argument 'INDEX...'"),
        (["nobody", "1,2"], "has no instruction 'nobody'"),
        (["tuple.9", "0"], "has no instruction 'tuple.9'"),
        (["x.1", "1,2"], "index"),
    ],
)
def test_mistakes(arguments: list[str], expected: str) -> None:
    result = command_line.run("index", MODULE, *arguments)
    assert result.returncode in (1, 2) and expected in result.stderr.decode()


def test_a_tuple_has_no_positions(tmp_path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT t = (f32[4], f32[4]) tuple(p, p) }")
    assert "t makes a tuple" in said("index", str(path), "t", "0", code=1)
    assert said("index", str(path), "p", "3") == "3"


def test_shapes_and_pictures_on_a_target() -> None:
    assert said("shape", "bf16[20,300]", "--target", "tpu") == said("shape", "bf16[20,300]{1,0:T(8,128)(2,1)}")
    assert (
        said("shape", "(bf16[20,300], token[])", "--target", "tpu")
        .splitlines()[0]
        .endswith("(bf16[20,300]{1,0:T(8,128)(2,1)}, token[])")
    )
    assert said("shape", "f32[3,5]", "--target", "gpu") == said("shape", "f32[3,5]{1,0}")
    assert said("index", "f32[20,300]", "9,200", "--target", "tpu") == said(
        "index", "f32[20,300]{1,0:T(8,128)}", "9,200"
    )
    assert said("draw", "bf16[20,300]", "--target", "tpu") == said("draw", "bf16[20,300]{1,0:T(8,128)(2,1)}")
    fusion = said("draw", MODULE, "transpose_copy_fusion.1", "--target", "tpu")
    assert "output f32[4,8,32,64]{3,2,1,0:T(8,128)}" in fusion and "T(" not in said(
        "draw", MODULE, "transpose_copy_fusion.1"
    )
    assert "T(8,128)(2,1)" in said("draw", MODULE, "x.1", "--target", "tpu")


@pytest.mark.parametrize(("size", "name"), [(3, "random.bin"), (10, "m"), (100, "wire"), (5000, "random.bin")])
def test_bytes_that_are_no_module_have_one_message(size: int, name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(name)  # also one that the reason has in it
    path.write_bytes(bytes([(7 * number * number + 129) % 256 | 128 for number in range(size)]))
    messages = {said(command, str(path), code=1) for command in ("size", "reads", "map", "why", "memory", "verify")}
    assert messages == {
        f"xlashape: {path} holds no HLO module: the wire format is broken: it is cut off, or not a module"
    }
    several = command_line.run("size", path, path)
    assert set(several.stderr.decode().splitlines()) == messages


def test_stablehlo_is_said_by_parse_too() -> None:
    text = "module @jit_f {\n  func.func public @main() { return }\n}"
    with pytest.raises(xs.errors.DecodeError, match="this is StableHLO or other MLIR, not HLO: HloModule.of makes HLO"):
        xs.HloModule.parse(text)
    with pytest.raises(xs.errors.ParseError):
        xs.HloModule.parse("HloModule m ENTRY e {")


def test_a_file_that_is_refused_among_others_is_named_once(tmp_path) -> None:
    good, text, data = (tmp_path / name for name in ("a.hlo", "b.hlo", "c.pb"))
    good.write_text("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }")
    text.write_text("HloModule m\nENTRY { p")
    data.write_bytes(bytes(range(128, 200)) * 3)
    done = CliRunner().invoke(main, ["map", str(tmp_path)])
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert [line.count(str(tmp_path)) for line in lines] == [1, 1]
    assert lines[0].startswith(f"xlashape: {text}:2:7: expected ")
    assert lines[1].startswith(f"xlashape: {data}")


def test_maps_of_an_operand_that_no_instruction_has(tmp_path) -> None:
    path = tmp_path / "a.hlo"
    path.write_text("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }")
    done = CliRunner().invoke(main, ["map", str(path), "--operand", "5"])
    assert done.stdout == "There are no such maps of 2 instructions.\n"
