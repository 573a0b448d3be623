"""The command line: text, JSON, one line for a mistake, exit codes; in this process and with a server."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from importlib import resources
from pathlib import Path

import command_line
import pytest
from optional import needed_in_ci

import xlashape as xs
from xlashape.hlo import HloModule
from xlashape.shape import Shape, tiling
from xlashape_server import Config, Server

TILED = "f32[3,5]{1,0:T(2,2)}"
MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
PROFILE = str(Path(__file__).resolve().parents[2] / "vectors" / "profiles" / "scan_grad.xplane.pb")


def run(*arguments, text=""):
    result = command_line.run(*arguments, data=text.encode())
    return subprocess.CompletedProcess(arguments, result.returncode, result.stdout.decode(), result.stderr.decode())


def answer(*arguments, text=""):
    result = run(*arguments, text=text)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(scope="module")
def server():
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as running:
        yield running.address


@pytest.fixture(params=["in this process", "over a server"])
def where(request):
    return [] if request.param == "in this process" else ["--server", request.getfixturevalue("server")]


def test_index_is_the_position(where):
    assert answer("index", TILED, "2,3", "(0, 0)", "[1, 1]", *where) == "17\n0\n3\n"
    assert answer("index", TILED, "17", "3", "23", "--inverse", *where) == "2,3\n1,1\npadding\n"


def test_index_of_a_scalar_and_of_rank_one():
    assert answer("index", "f32[]", "()") == "0\n"
    assert answer("index", "f32[7]", "(3,)", "5") == "3\n5\n"
    assert answer("index", "f32[]", "0", "--inverse") == "()\n"


def test_index_in_bytes():
    assert answer("index", TILED, "2,3", "--unit", "byte") == "68\n"
    assert answer("index", TILED, "68", "--unit", "byte", "--inverse") == "2,3\n"
    assert "byte 67 is not where an element begins" in run("index", TILED, "67", "--unit", "byte", "--inverse").stderr
    assert "4 bits" in run("index", "s4[8]{0:E(4)}", "3", "--unit", "byte").stderr
    assert answer("index", "s4[8]{0:E(4)}", "3", "--unit", "bit") == "12\n"
    assert answer("index", "s4[8]{0:E(4)}", "12", "--unit", "bit", "--inverse") == "3\n"
    (row,) = json.loads(answer("index", "s4[8]{0:E(4)}", "3", "--json"))["rows"]
    assert row == {"index": [3], "position": 3, "element": 3, "byte": None, "bit": 12}
    (row,) = json.loads(answer("index", TILED, "2,3", "--json", "--unit", "byte"))["rows"]
    assert row == {"index": [2, 3], "position": 68, "element": 17, "byte": 68, "bit": 544}


def test_index_from_standard_input_as_json():
    positions = "\n".join(map(str, range(24)))
    rows = json.loads(answer("index", TILED, "-", "--inverse", "--json", text=positions))["rows"]
    shape = Shape.parse(TILED)
    assert [row["position"] for row in rows] == list(range(24))
    for row in rows:
        index = tiling.multi_index(shape, row["position"])
        assert row["index"] == (None if index is None else list(index))


def test_shape_as_json_and_as_text(where):
    known = json.loads(answer("shape", TILED, "--json", *where))
    assert known["shape"] == TILED
    assert (known["dimensions"], known["minor_to_major"], known["tiles"]) == ([3, 5], [1, 0], [[2, 2]])
    assert (known["size"]["logical_bytes"], known["size"]["physical_bytes"], known["size"]["padding_bytes"]) == (
        60,
        96,
        36,
    )
    text = answer("shape", TILED, *where)
    assert "96 bytes, 1.6 times the elements: 37.5% is padding" in text
    assert "tile (2,2) pads dimension 1 from 5 to 6" in text
    assert [cause["dimensions"] for cause in known["padding"]["causes"]] == [[0], [1]]
    assert "tiles (2,2)" in text


@pytest.mark.parametrize(
    "text",
    ["f32[]", "token[]", "opaque[]", "()", "(f32[2]{0}, (s32[], token[]))", "b(f32[4])", "f32[<=8,?]", "f32[0,3]"],
)
def test_every_kind_of_shape_has_an_answer(text):
    assert json.loads(answer("shape", text, "--json"))["shape"] == str(Shape.parse(text))
    assert answer("shape", text).startswith("shape")


def test_size_of_a_shape(where):
    assert answer("size", TILED, *where).startswith("96 bytes: 60 bytes of elements, 36 bytes (37.5%) of padding")
    assert json.loads(answer("size", "f32[1024]", "--json", *where))["totals"]["bytes"] == 4096


def test_size_of_a_shape_on_a_target() -> None:
    assert answer("size", "s64[<=4,1]", "--target", "cpu").startswith("40 bytes: 32 bytes of elements, 8 bytes")
    told = json.loads(answer("size", "(f32[], s32[4])", "--target", "tpu", "--json"))
    assert told["totals"]["bytes"] == 5120
    assert [(buffer["index"], buffer["bytes"]) for buffer in told["buffers"]] == [
        (None, 512),
        ("{0}", 4096),
        ("{1}", 512),
    ]


def test_size_of_a_module(where):
    told = json.loads(answer("size", MODULE, "--json", *where))
    module = HloModule.load(MODULE)
    # Nothing of fusions and reducers is there, and no bitcast of the entry computation.
    assert {row["name"]: row["shape"] for row in told["buffers"]} == {
        one.name: str(one.shape) for one in module.entry.instructions if str(one.opcode) != "bitcast"
    }
    totals = told["totals"]
    assert totals["count"] + totals["shared_count"] + totals["fused_count"] == len(list(module.instructions()))
    shown = answer("size", MODULE, "--limit", "3", "--order", "bytes", *where)
    largest = max(told["buffers"], key=lambda row: row["bytes"])
    assert f"{largest['bytes'] / 1024:.1f} KiB" in shown.split("───\n")[1].splitlines()[0]


def test_a_module_from_standard_input():
    content = Path(MODULE).read_bytes()
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", "size", "-", "--json"],
        input=content,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert json.loads(result.stdout)["totals"]["count"] > 0


def test_maps_of_one_instruction(where):
    text = answer("map", MODULE, "transpose_copy_fusion", *where)
    assert "(d0, d1, d2, d3) -> (d0 * 64 + d2, d1 * 32 + d3 + 512)" in text
    told = json.loads(answer("map", MODULE, "transpose_copy_fusion", "--json", *where))["maps"]
    assert told[0]["operand_name"] == "wrapped_convert.1"
    assert told[0]["map"] in text


def test_maps_of_one_operand_in_the_affine_style_and_the_other_way():
    told = json.loads(answer("map", MODULE, "convert_convert_fusion", "--operand", "1", "--json"))["maps"]
    assert [row["operand"] for row in told] == [1]
    assert "floordiv" in answer("map", MODULE, "bitcast.8", "--style", "affine")
    forward = json.loads(
        answer("map", MODULE, "dot_general.0", "--direction", "input_to_output", "--operand", "0", "--json")
    )["maps"]
    assert forward[0]["direction"] == "input_to_output"
    assert [row["operand"] for row in forward] == [0]


def test_tiles(where):
    text = answer("tile", MODULE, "bitcast.8", *where)
    assert "size_map: (d0, d1) -> ((d0 + 63) / 64, d0 - ((d0 - 1) / 64) * 64, (d1 + 31) / 32, d1" in text
    assert "constraints: 32 mod d1 in [0, 0] && 64 mod d0 in [0, 0] || " in text
    told = json.loads(answer("tile", MODULE, "bitcast.8", "--json", "--style", "affine", *where))
    symbolic = told["tiles"][0]
    assert symbolic["offset_map"].startswith("(d0, d1) -> (0, 0, 0, 0), domain: ")
    assert symbolic["size_map"].startswith("(d0, d1) -> ((d0 + 63) floordiv 64, ")
    assert symbolic["constraints"].endswith(" || d0 mod 64 in [0, 0] && d1 mod 32 in [0, 0]")


def test_maps_of_a_whole_module(where):
    told = json.loads(answer("map", MODULE, "--json", *where))
    instructions = list(HloModule.load(MODULE).instructions())
    assert told["totals"]["instruction_count"] == len(instructions)
    named = list(dict.fromkeys(row["instruction"] for row in told["maps"]))
    assert named == [one.name for one in instructions if one.operands and one.name in named]
    assert {"transpose_copy_fusion", "dot.2"} <= set(named)


def test_draw(tmp_path):
    target = tmp_path / "layout.svg"
    assert answer("draw", TILED, "-o", str(target)) == ""
    assert target.read_text(encoding="utf-8") == answer("draw", TILED, "-o", "-")
    printed = answer("draw", TILED)
    assert printed == answer("draw", TILED, "-o", "-", "--format", "txt")
    assert "\x1b" not in printed
    assert "  0   0  1│ 4  5│ 8 ░░" in printed


def test_draw_a_window_around_an_element():
    shown = answer("draw", "f32[4096,4096]{1,0:T(8,128)}", "--at", "9,130", "--rows", "8:10", "--columns", "128:132")
    assert "  9  33920 33921 33922 33923" in shown
    assert "⋯" in shown  # the tiles that are left out


def test_draw_before_and_after():
    shown = answer("draw", "f32[2,3]", "--after", "f32[2,3]{0,1}", "--label", "index", "--color", "row")
    assert "f32[2,3]{1,0} → f32[2,3]{0,1}" in shown
    assert "byte 16 │0,2│1,2│" in shown


@pytest.mark.parametrize(("command", "file", "shown"), [("memory", MODULE, "memory"), ("profile", PROFILE, "time")])
def test_a_report_is_drawn_into_a_file(tmp_path, command, file, shown):
    for suffix, start in (("svg", "<svg "), ("html", "<!DOCTYPE html>"), ("txt", f"the {shown} of ")):
        target = tmp_path / f"picture.{suffix}"
        found = run(command, file, "--picture", str(target))
        assert (found.returncode, found.stdout) == (0, ""), found
        assert target.read_text(encoding="utf-8").startswith(start)


def test_draw_what_an_instruction_reads(tmp_path):
    target = tmp_path / "reads.html"
    assert answer("draw", MODULE, "transpose_copy_fusion.1", "--warp", "32", "-o", str(target)) == ""
    assert "in 32 segments of 128 bytes" in target.read_text(encoding="utf-8")
    told = answer("draw", "(d0) -> (d0 * 2), domain: d0 in [0, 9]", "--tile", "3", "--operand", "f32[20]{0}")
    assert "3 outputs read 3 elements of operand" in told


def test_numbers_of_banks_and_segments_are_those_of_the_options():
    def numbers(*options):
        lines = answer("draw", "f32[64]{0}", "-o", "-", "--format", "txt", *options).splitlines()[6:10]
        return [int(number) for line in lines for number in line.split()[1:]]

    # A place of 4 bytes is in bank (bytes / width) mod banks, and in segment bytes / size.
    assert numbers("--label", "bank") == [place % 32 for place in range(64)]
    assert numbers("--label", "bank", "--banks", "8") == [place % 8 for place in range(64)]
    assert numbers("--label", "bank", "--bank-bytes", "16") == [place // 4 % 32 for place in range(64)]
    assert numbers("--label", "segment") == [place // 32 for place in range(64)]
    assert numbers("--label", "segment", "--segment-bytes", "64") == [place // 16 for place in range(64)]


def test_the_looks_of_a_picture(tmp_path):
    for scale in (1, 3):
        answer("draw", "f32[4,6]", "-o", tmp_path / f"{scale}.png", "--scale", scale)
    # Width and height stand at the beginning of a PNG file.
    width, height, wide, high = [
        number for scale in (1, 3) for number in struct.unpack(">II", (tmp_path / f"{scale}.png").read_bytes()[16:24])
    ]
    assert wide in range(3 * width - 2, 3 * width + 1) and high in range(3 * height - 2, 3 * height + 1)
    dark, light, either = [
        answer("draw", "f32[4,6]", "-o", "-", "--theme", theme) for theme in ("dark", "light", "auto")
    ]
    assert "prefers-color-scheme" in either and "prefers-color-scheme" not in dark + light and dark != light
    plain = answer("draw", "f32[4,6]", "-o", "-", "--no-path")
    assert "the order of memory" in answer("draw", "f32[4,6]", "-o", "-", "--path")
    assert "the order of memory" not in plain


def test_draw_one_output_of_an_instruction_and_the_shape_of_a_maps_output(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m f { p = f32[8,4] parameter(0) t = f32[4,8] transpose(p), dimensions={1,0} n = f32[8,4] negate(p)"
        " ROOT r = (f32[4,8], f32[8,4]) tuple(t, n) }"
        " ENTRY e { p = f32[8,4] parameter(0) ROOT b = (f32[4,8], f32[8,4]) fusion(p), kind=kLoop, calls=f }"
    )
    for output, shape in enumerate(("f32[4,8]", "f32[8,4]")):
        assert f"output {shape}" in answer("draw", path, "b", "--output", output, "-o", "-", "--format", "txt")
    told = answer(
        "draw", "(d0) -> (d0), domain: d0 in [0, 7]", "--output", "f32[8]{0:T(4)}", "-o", "-", "--format", "txt"
    )
    assert "output f32[8]{0:T(4)}" in told


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["shape", "f32[3"], "line 1, column 6: expected ',' or ']'"),
        (["shape", "("], "line 1, column 2"),
        (["shape", "(" * 20_000], "tuples are nested more than 80 deep"),
        (["shape", "f32[9223372036854775807,2]"], "int64"),
        (["index", TILED, "2,9"], "index 9 is outside dimension 1"),
        (["index", TILED, "-1,3"], "index -1 is outside dimension 0"),
        (["index", TILED, "2"], "expected 2 numbers in an index of f32[3,5]{1,0:T(2,2)}, found 1"),
        (["index", TILED, "2,3", "2"], "expected 2 numbers in each index, found 1 in 2"),
        (["index", TILED, "2", "3"], "expected an index such as 2,3, found 2 of one number each"),
        (["index", TILED, "two"], "expected an index such as 2,3, found 'two'"),
        (["index", TILED, "1,,2"], "expected an index such as 2,3"),
        (["index", TILED, "99", "--inverse"], "99"),
        (["index", TILED, ","], "expected an index such as 2,3, found ','"),
        (["index", TILED, ""], "expected an index such as 2,3, found ''"),
        (["index", "f32[3]", "9" * 20], "does not fit int64"),
        (["index", "f32[3]", "9" * 20, "--inverse"], "does not fit int64"),
        (["memory", MODULE, "--fit", "0"], "limit takes a number of bytes, 1 or more, not 0"),
        (["size", ""], "expected a shape"),
        (["size", "nowhere.hlo"], "there is no file 'nowhere.hlo'"),
        (["map", "nowhere.hlo"], "there is no file 'nowhere.hlo'"),
        (["map", MODULE, "nothing.7"], "nothing.7"),
        (["map", __file__], ""),
        (["size", "modules/" + "0" * 64], "--server"),
        (["shape", "f32[]", "--server", "127.0.0.1:1", "--timeout", "2"], "127.0.0.1:1"),
        (
            ["draw", "f32[1024,?]", "-o", "-"],
            "dimension 1 of f32[1024,?]{1,0} is unbounded: its elements have no place in a buffer",
        ),
        (["draw", "f32[2]", "-o", "x.pdf"], "expected the extension .svg, .html, .png or .txt, found '.pdf'"),
        (
            ["draw", "f32[2]", "-o", "/nonexistent/folder/x.svg"],
            "cannot write '/nonexistent/folder/x.svg': No such file or directory",
        ),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(arguments, says):
    if "--server" in arguments:
        needed_in_ci("grpc")
    result = run(*arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith("xlashape: ")
    assert says in result.stderr
    first, *shown = result.stderr.splitlines()
    # A mistake in text shows its line, and a caret below the mistake.
    has_line = ("line 1, column" in first or ".py:1:1:" in first) and bool(arguments[-1])
    assert len(shown) == (2 if has_line else 0)
    assert not shown or shown[1].strip() == "^"


def test_a_mistake_in_a_file_names_the_file():
    first, line, caret = run("map", __file__).stderr.splitlines()
    assert first.startswith(f"xlashape: {__file__}:1:1: expected ")
    assert (line[:5], caret) == ('  """', "  ^")


def test_the_same_mistake_over_a_server_is_the_same_line(server):
    for arguments in (
        ["shape", "f32[3"],
        ["index", TILED, "2,9"],
        ["map", MODULE, "nothing.7"],
        ["memory", TILED],
        ["memory", f"{MODULE}z"],
    ):
        assert run(*arguments).stderr == run(*arguments, "--server", server).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["index"],
        ["convert", "a.hlo"],
        ["shape", "f32[]", "--nope"],
        ["nope"],
        ["size", "f32[]", "--order", "zz"],
        ["shape", "-x"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(arguments):
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("xlashape: ")
    assert result.stderr.endswith("--help says more)\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["map", MODULE, "transpose_copy_fusion", "--operand", "99"],
            "transpose_copy_fusion has no operand 99: it has 1",
        ),
        (["map", MODULE, "transpose_copy_fusion", "--output", "1"], "has no output 1: it has 1"),
        (["map", MODULE, "dot.2", "--direction", "input_to_output", "--operand", "2"], "has no operand 2: it has 2"),
        (["cost", MODULE, "--peak", "1e400", "--bandwidth", "1e12"], "peak takes a positive finite number, not inf"),
        (["reads", MODULE, "--output", "7"], "no instruction that reads something has an output 7"),
        (["reads", MODULE, "--output", "9" * 20], "output does not fit int64"),
        (["verify", MODULE, "--replica-count", "9" * 20], "replica_count does not fit int64"),
        (["shape", "f32[]", "--server", ""], "--server: expected HOST:PORT"),
        (["draw", "f32[2]", "--format", "png"], "--format is for `-o -` and --json; the extension of a file decides"),
        (
            ["draw", "f32[2]", "--color", "rwo"],
            "color: expected memory, tile, row, bank or segment, found 'rwo': did you mean 'row'?",
        ),
        (
            ["memory", MODULE, "--fit", "16"],
            "--fit: expected bytes with their unit, such as 16GiB or 512B, or 80%, found '16'",
        ),
        (["memory", MODULE, "--fit", "much%"], "--fit: expected a number such as 128, 10MiB or 50%, found 'much%'"),
        (["scan", MODULE, "-o", "x", "--memory", "2"], "--memory: expected bytes with their unit"),
        (["memory", MODULE, "--at", "nothing.7"], "no instruction 'nothing.7' takes memory"),
        (["memory", MODULE, "--space", "9"], "nothing of the program is in memory space 9; there is 0 (main memory)"),
        (["memory", MODULE, "--sort", "nothing"], "--sort: there is no column 'nothing'; there are name, "),
        (["memory", MODULE, "--filter", "nothing=1"], "--filter: there is no column 'nothing'; there are name, "),
        (["reads", MODULE, "--computation", "nothing"], "has no computation 'nothing'"),
        (["diff", MODULE, MODULE, "--fail-if", "nothing > 1"], "there is no measure 'nothing'; there are "),
        (["diff", MODULE, MODULE, "--fail-if", "copies > much"], "--fail-if: expected a number such as"),
        (["diff", MODULE, MODULE, "--ignore", "nothing"], "there is nothing called 'nothing'"),
    ],
)
def test_a_wrong_value_of_an_option_is_one_line_and_exit_code_2(arguments, says, where):
    """Here and over a server; so that a mistake is told from --fail-if, whose exit code is 1."""
    where = where if arguments[0] not in ("draw", "scan", "serve") and "--server" not in arguments else []
    result = run(*arguments, *where)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("xlashape: ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_closed_pipe_causes_no_traceback():
    script = f"{sys.executable} -m xlashape map {MODULE} | head -n 1"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (result.stdout.count("\n"), result.stderr) == (1, "")


def test_an_interruption_while_commands_load_causes_no_traceback():
    script = (
        "import sys; from xlashape.__main__ import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'xlashape.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted()); main()"
    )
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_exit_codes_reach_the_shell():
    for arguments, code in ((["index", "f32[3]", "1"], 0), (["index", "f32[3]", "3"], 1), (["index"], 2)):
        result = subprocess.run(
            [sys.executable, "-m", "xlashape", *arguments], capture_output=True, timeout=120, check=False
        )
        assert result.returncode == code


def test_serve_prints_its_address_and_stops_on_a_signal():
    needed_in_ci("grpc")
    process = subprocess.Popen(
        [sys.executable, "-m", "xlashape", "serve", "--address", "127.0.0.1:0", "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        told = json.loads(process.stdout.readline())
        address = told["address"]
        assert answer("index", TILED, "2,3", "--server", address) == "17\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_what_keeps_a_server_from_starting_is_a_line_of_its_log():
    needed_in_ci("grpc")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--address", f"127.0.0.1:{taken.getsockname()[1]}", "--workers", "1")
    assert (result.returncode, result.stdout) == (1, "")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert lines[-1]["level"] == "error"
    assert lines[-1]["code"] == "unavailable"
    assert lines[-1]["message"].startswith("cannot start: cannot listen on 127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "field", "says"),
    [
        (["--address", "nowhere"], "address", "address: expected HOST:PORT or unix:PATH, found 'nowhere'"),
        (
            ["--store-bytes", "0"],
            "store_bytes",
            "store_bytes: expected a number from 1 on, found 0",
        ),
        (["--workers", "many"], "workers", "'many'"),
        (["--config", "no such file"], "config", "no such file: cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_setting_is_a_line_of_the_log(arguments, field, says):
    needed_in_ci("grpc")
    result = run("serve", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    # A server of another test in this process may still tell of a call that was cut off.
    (line,) = [each for each in lines if each["level"] == "error"]
    assert line["field"] == field
    assert line["message"].startswith("cannot start: ")
    assert says in line["message"]


def test_demo_starts_a_server_asks_it_and_stops_it():
    needed_in_ci("grpc")
    text = answer("demo")
    for part in (
        "A server answers at 127.0.0.1:",
        "element 8535 of its buffer",
        "34.9% padding",
        "d1 * 32 + d3 + 512",
        "The server has stopped.",
    ):
        assert part in text


def without_grpc(*command):
    """What a command does where the extras `server` and `client` are not installed."""
    script = f"""
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith("grpc") or name.startswith("google.rpc"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
from xlashape.cli import main
main({list(command)!r})
"""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_demo_without_grpc_answers_the_same_in_this_process():
    needed_in_ci("grpc")
    done = without_grpc("demo")
    assert (done.returncode, done.stderr) == (0, "")
    first, answers = done.stdout.split("\n\n", 1)
    assert first == (
        "The server's packages are not installed, so this process answers itself; pip install 'xlashape[server]' "
        "installs them."
    )
    served = answer("demo").split("\n\n", 1)[1]
    assert served == answers + "\nThe server has stopped.\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("serve", "--address", "127.0.0.1:0"),
            "a server needs gRPC, and the module grpc is not installed: pip install 'xlashape[server]'",
        ),
        (
            ("shape", "f32[3]", "--server", "127.0.0.1:1"),
            "the client of a server needs gRPC, and the module grpc is not installed: pip install 'xlashape[client]'",
        ),
    ],
)
def test_without_grpc_a_server_is_refused_with_the_extra_that_it_needs(command, said):
    done = without_grpc(*command)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"xlashape: {said}\n")


def test_without_grpc_this_process_answers():
    assert without_grpc("index", "f32[3,5]{1,0:T(2,2)}", "2,3").stdout == "17\n"


def test_a_light_command_does_not_load_grpc():
    script = (
        "import sys; from xlashape.cli import main; main(['index', 'f32[3]', '1'], standalone_mode=False); "
        "assert not [m for m in sys.modules if m.split('.')[0] == 'grpc']"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True)


def test_a_shape_of_an_unknown_element_type(where):
    text = answer("shape", "unknown_77[3,5]{1,0:T(2,2)}", *where)
    assert "element type  unknown_77, of unknown width" in text
    assert "size          unknown: the width of an element type is not known" in text
    assert json.loads(answer("shape", "unknown_77[3,5]", "--json", *where))["size"] is None
    assert "a dynamic dimension has no bound" in answer("shape", "f32[?]", *where)


@pytest.mark.parametrize(
    "options",
    [
        ["--fit", "2700KiB"],
        ["--fit", "16GiB"],
        ["--fit", "80%"],
        ["--by", "opcode"],
        ["--at", "ynn_fusion.4"],
        ["--space", "0"],
        ["--frames", "all"],
    ],
)
def test_the_memory_of_a_program_is_the_same_over_a_server(server, options):
    here = answer("memory", MODULE, *options)
    assert here
    assert answer("memory", MODULE, *options, "--server", server) == here


def test_a_target_that_does_not_count_is_said_below_groups_too():
    dump = str(Path(__file__).parents[2] / "vectors" / "memory" / "hessian.hlo.pb")
    for options in ((), ("--by", "source"), ("--fit", "1KiB")):
        assert "assignment, not of tpu-v5e:" not in answer("memory", dump, *options)
        assert "assignment, not of tpu-v5e:" in answer("memory", dump, *options, "--target", "tpu-v5e")


def test_least_times_of_groups_say_that_they_assume_no_overlap(tmp_path):
    path = tmp_path / "m.hlo"
    said = "computing and communication added, as if they did not overlap"
    for opcode, is_said in (
        ("all-gather(x), dimensions={0}, replica_groups={{0,1}}", True),
        ("concatenate(x, x), dimensions={0}", False),
    ):
        path.write_text(
            f"HloModule m, replica_count=2\nENTRY e {{ x = f32[64] parameter(0) ROOT r = f32[128] {opcode} }}"
        )
        assert (said in answer("cost", str(path), "--target", "tpu-v5e", "--by", "opcode")) == is_said
        assert said not in answer("cost", str(path), "--by", "opcode")


def test_what_fits_is_said_first():
    assert answer("memory", MODULE, "--fit", "16GiB").startswith(
        "It fits: the peak of 2.75 MiB is within the limit of 16.0 GiB"
    )
    told = answer("memory", MODULE, "--fit", "2700KiB")
    assert told.startswith(
        "By the estimate it does not fit: the peak of 2.75 MiB is 116.0 KiB more than the limit of 2.64 MiB; the peak may "
        "be as low as 1.88 MiB. It fits for certain with donation of what the caller no longer needs: the peak is then at "
        "most 2.62 MiB."
    )
    assert answer("memory", MODULE, "--fit", "1KiB").startswith(
        "It does not fit: the peak of 2.75 MiB is 2.75 MiB more"
    )
    assert "None of these changes is enough alone." in answer("memory", MODULE, "--fit", "1KiB")
    part = answer("memory", MODULE, "--fit", "80%")
    assert "more than the limit of 2.20 MiB (80% of the peak)" in part
    assert re.search(
        r"With bf16 instead of f32 it fits by the estimate: the peak is then about 1\.75 MiB, and at most [\d.]+ MiB\. It "
        "fits for certain with donation of what the caller no longer needs and a smaller dimension of the data: the peak "
        "is then at most ",
        part,
    )
    assert xs.memory(MODULE).fit("80%") == xs.memory(MODULE).suggest(round(0.8 * xs.memory(MODULE).peak_bytes))


def test_several_tables_of_a_report_are_shown_one_below_the_other(server):
    both = answer("memory", MODULE, "--by", "opcode", "--fit", "80%")
    by, fit = answer("memory", MODULE, "--by", "opcode"), answer("memory", MODULE, "--fit", "80%")
    groups, changes = ([line for line in text.splitlines() if line] for text in (by, fit))
    lines = [line for line in both.splitlines() if line]
    assert lines[: len(groups)] == groups
    assert lines[len(groups) :] == [line for line in changes if line not in groups]  # notes are said once
    assert answer("memory", MODULE, "--by", "opcode", "--fit", "80%", "--server", server) == both
    document = json.loads(answer("memory", MODULE, "--by", "layer", "--unfold", "--fit", "80%", "--json"))
    whole = xs.memory(MODULE)
    assert [row["group"] for row in document["by"]] == [group.group for group in whole.by("each_layer")]
    assert [row["text"] for row in document["fit"]] == [change.text for change in whole.fit("80%")]
    assert document["totals"]["peak_bytes"] == whole.peak_bytes


@pytest.mark.parametrize("more", [("--format", "csv"), (MODULE,), ("--at", "x", "--format", "jsonl")])
def test_where_one_table_is_written_two_are_refused(more):
    refused = command_line.run("memory", MODULE, *more, "--by", "opcode", "--fit", "80%")
    assert refused.returncode == 2
    assert b" are two tables: " in refused.stderr


def test_frames_of_libraries_are_shown_where_they_are_asked_for(server):
    text = """HloModule m

FileNames
1 "train.py"
2 "/venv/lib/python3.12/site-packages/flax/linen.py"

FunctionNames
1 "step"
2 "apply"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=99 end_line=99 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY e {
  p = f32[64] parameter(0)
  ROOT n = f32[64] reverse(p), dimensions={0}, metadata={op_name="jit(step)/rev" stack_frame_id=2}
}
"""
    for command in ("memory", "why", "size", "reads", "cost"):
        asked = (command, "-", "--format", "jsonl")
        assert '"source": "train.py:7"' in answer(*asked, text=text)
        here = answer(*asked, "--frames", "all", text=text)
        assert '"source": "linen.py:99 < train.py:7"' in here
        assert here == answer(*asked, "--frames", "all", "--server", server, text=text)
        assert '"source": "train.py:7"' in answer(*asked, "--frames", "own", "--server", server, text=text)


def test_errors_on_a_terminal_have_no_control_characters(tmp_path):
    proto = HloModule.parse("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }").to_proto()
    proto.computations[0].instructions[1].name = "n\x1b[2J\u202e"
    path = tmp_path / "hostile.hlo.pb"
    path.write_bytes(proto.SerializeToString())
    for command in ("map", "reads"):
        found = run(command, path, "n\x1b[2J\u202e", "--output", "7")
        assert "n\ufffd[2J\ufffd has no output 7" in found.stderr, found
        assert all(each.isprintable() or each == "\n" for each in found.stderr)
