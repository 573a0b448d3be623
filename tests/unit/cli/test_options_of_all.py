"""What all commands have in common: --server and --json, a target for shapes and modules, the end of a pipe."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import resources
from pathlib import Path

import click
import command_line
import jsonschema
import pytest

from xlashape.cli import main
from xlashape.hlo import HloModule
from xlashape.hlo.flow import module_buffers
from xlashape.reports import REPORTS
from xlashape.reports.why import why
from xlashape_client import Client
from xlashape_server import Config, Server

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
FUSION = "transpose_copy_fusion.1"
QUERIES = [
    name
    for name in main.list_commands(click.Context(main))
    if name != "scan" and any("--json" in each.opts for each in main.get_command(click.Context(main), name).params)
]
"""The commands that answer with a document. `scan` writes files."""


@pytest.fixture(scope="module")
def stored():
    """The address of a server, and the name of the module that it keeps."""
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as running:
        with Client(running.address) as client:
            name = client.upload_module(MODULE).name
        yield running.address, name


def answer(*arguments):
    result = command_line.run(*arguments)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_takes_a_server_and_json(name):
    command = main.get_command(click.Context(main), name)
    options = {option for each in command.params for option in each.opts}
    assert {"--server", "--timeout", "--json"} <= options


def test_the_queries_are_known():
    assert {"shape", "index", "size", "why", "map", "reads", "tile", "verify", "draw", "diff", "memory"} <= set(QUERIES)


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_every_option_says_what_it_does(name):
    for each in main.get_command(click.Context(main), name).params:
        assert not isinstance(each, click.Option) or each.help, f"{name} {each.opts[0]} has no help"


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "M"),
        ("size", "M", "--target", "tpu"),
        ("why", "M"),
        ("why", "M", "ynn_fusion.3"),
        ("map", "M", FUSION),
        ("reads", "M", FUSION),
        ("tile", "M", FUSION, "1,8,32,64"),
        ("verify", "M"),
        ("convert", "M", "-"),
        ("draw", "M", FUSION, "--warp", "32"),
    ],
)
def test_a_stored_module_is_asked_like_its_file(stored, arguments):
    address, name = stored
    here = answer(*[MODULE if each == "M" else each for each in arguments])
    there = answer(*[name if each == "M" else each for each in arguments], "--server", address)
    assert there.replace(name, MODULE) == here


@pytest.mark.parametrize("arguments", [("why", "f32[3]"), ("draw", "f32[3]"), ("size", "f32[3]", "--target", "cpu")])
def test_what_needs_no_module_is_answered_without_asking_the_server(arguments):
    assert answer(*arguments, "--server", "127.0.0.1:1") == answer(*arguments)


@pytest.mark.parametrize("command", ["why", "draw", "verify", "convert"])
def test_a_stored_module_needs_a_server(command):
    rest = {"draw": [FUSION], "convert": ["-"]}.get(command, [])
    result = command_line.run(command, "modules/" + "0" * 64, *rest, "--json" if command != "convert" else "--lossy")
    assert result.returncode == 1
    assert "is kept by a server: say which with --server" in result.stderr.decode()


def checked(*arguments):
    told = json.loads(answer(*arguments, "--json"))
    jsonschema.validate(told, json.loads(answer("schemas", told["schema"])))
    return told


def test_a_picture_in_a_document(tmp_path):
    told = checked("draw", "f32[3,5]{1,0:T(2,2)}")
    assert (told["title"], told["format"], told["file"]) == ("f32[3,5]{1,0:T(2,2)}", "svg", None)
    assert told["picture"] == answer("draw", "f32[3,5]{1,0:T(2,2)}", "-o", "-")
    assert "37.5 % is padding" in " ".join(told["facts"])
    file = tmp_path / "x.html"
    told = checked("draw", MODULE, FUSION, "-o", file)
    assert (told["file"], told["picture"], told["instruction"]) == (str(file), None, FUSION)
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert answer("draw", "{1,0:T(8,128)}").startswith("f32[20,320]{1,0:T(8,128)}")


def test_the_help_begins_with_examples_that_run():
    text = answer("--help")
    examples = [line.split("   ")[0].strip() for line in text.splitlines() if line.startswith("  xlashape ")]
    for example in examples:
        arguments = shlex.split(example)[1:]
        given = [MODULE if each.endswith((".pb", ".hlo")) else each for each in arguments]
        assert given[0] in main.commands or given[0] in REPORTS or given[0] == MODULE
        assert answer(*given)
    assert examples


def test_the_help_names_every_command_once():
    lines = [line.split() for line in answer("--help").split("\n\n", 2)[2].splitlines() if line.startswith("  ")]
    named = [line[0] for line in lines if line]
    assert all(named.count(name) == 1 for name in main.list_commands(click.Context(main)))


def test_a_module_is_drawn_by_its_instructions():
    result = command_line.run("draw", MODULE)
    assert (result.returncode, result.stdout) == (1, b"")
    assert "name one of its instructions too, such as convert_bitcast_fusion.1, " in result.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("draw", "f32[3]", "--json", "-o", "-"), "write the picture to a file"),
        (("draw", "f32[3]", "--json", "--format", "png"), "write the picture to a file"),
        (("convert", MODULE, "-", "--json"), "--json writes to standard output, and so does OUT"),
        (("size", MODULE, "--target", "tpuv9"), "'tpuv9' is not one of 'cpu', 'gpu', 'tpu'"),
    ],
)
def test_mistakes(arguments, says):
    result = command_line.run(*arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    assert says in result.stderr.decode()


def test_a_conversion_says_what_it_wrote(tmp_path):
    told = checked("convert", MODULE, tmp_path / "m.hlo.gz")
    assert (told["format"], told["lost"]) == ("hlo.gz", [])
    text = tmp_path / "m.hlo"
    text.write_text("HloModule m, num_partitions=2\nENTRY e { ROOT p = f32[4] parameter(0) }\n")
    told = checked("convert", text, tmp_path / "m.pb", "--lossy")
    assert told["format"] == "pb"
    assert [sentence for sentence in told["lost"] if "num_partitions is lost" in sentence]


def test_a_module_on_a_target(tmp_path):
    told = checked("size", MODULE, "--target", "tpu-v5e")
    memory = why(HloModule.load(MODULE), target="tpu-v5e")
    totals = told["totals"]
    assert totals["target"] == "tpu-v5e"
    assert totals["bytes"] == memory.buffer_bytes == sum(row["bytes"] for row in told["buffers"])
    assert totals["element_bytes"] == memory.element_bytes
    sizes = {buffer.name: (str(buffer.shape), buffer.buffer_bytes) for buffer in memory.buffers}
    assert {row["name"]: (row["shape"], row["bytes"]) for row in told["buffers"]} == sizes
    paddings = [row["padding_bytes"] for row in told["buffers"]]
    assert paddings == sorted(paddings, reverse=True)
    ordered = checked("size", MODULE, "--target", "tpu", "--order", "module")["buffers"]
    assert [row["name"] for row in ordered] == [
        str(buffer) for buffer in module_buffers(HloModule.load(MODULE)).buffers
    ]
    fused = checked("size", MODULE, "--target", "tpu", "--computation", "fused_computation")
    assert fused["totals"]["count"] == len(HloModule.load(MODULE).computation("fused_computation").instructions)
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m ENTRY e { p = (f32[3,5], f32[?], s4[7]) parameter(0) ROOT q = (f32[3,5], s4[7]) custom-call(p),"
        ' custom_call_target="f" }'
    )
    rows = {(row["name"], row["index"]): row for row in checked("size", path, "--target", "tpu")["buffers"]}
    assert "unbounded" in rows["p", "{1}"]["error"]
    assert rows["q", "{0}"]["shape"] == str(why("f32[3,5]", target="tpu").shape)
    assert rows["q", "{1}"]["shape"] == str(why("s4[7]", target="tpu").shape)


@pytest.mark.parametrize(
    "arguments",
    [("map", MODULE, "--format", "csv"), ("reads", MODULE, "--limit", "0"), ("reads", MODULE, "--format", "csv")],
)
def test_the_end_of_a_pipe_is_no_error(arguments, tmp_path):
    """The module has many instructions, so that the output does not fit into the pipe."""
    path = tmp_path / "long.hlo"
    lines = "".join([f"  n{i} = f32[8,8] negate(n{i - 1})\n" for i in range(1, 3_000)])
    path.write_text(
        f"HloModule m\nENTRY e {{\n  n0 = f32[8,8] parameter(0)\n{lines}  ROOT r = f32[8,8] negate(n2999)\n}}\n"
    )
    command = [sys.executable, "-m", "xlashape", arguments[0], str(path), *arguments[2:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(40)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 141


def test_the_documents_of_all_queries_have_schemas():
    folder = Path(str(resources.files("xlashape.cli").joinpath("schemas")))
    names = {path.name.split(".")[0] for path in folder.glob("*.json")} | set(REPORTS)
    missing = [
        f"{name} --json has no schema xlashape/cli/schemas/{name}.v1.json" for name in QUERIES if name not in names
    ]
    assert missing == []
    printed = re.compile(r'print_json\(\s*"(\w+)\.v1"')
    for path in folder.parent.glob("*.py"):
        for name in printed.findall(path.read_text(encoding="utf-8")):
            assert name in names, f"{path.name} prints {name}.v1, which has no schema in xlashape/cli/schemas"
