"""The JSON of every command, checked with its schema; errors as JSON; the protobuf schema; completion; verify."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import click
import command_line
import jsonschema
import pytest

from xlashape.cli import completing, main
from xlashape.hlo import HloModule
from xlashape_server.app import Server
from xlashape_server.config import Config

MODULE = str(resources.files("xlashape.data").joinpath("attention.hlo.pb"))
TILED = "bf16[20,300]{1,0:T(8,128)(2,1)}"
REPORTS = sorted(Path(__file__).parents[2].glob("**/memory/**/*.txt"))
UNKNOWN = "HloModule m ENTRY e { p = f32[?] parameter(0) ROOT n = f32[?] negate(p) }"
BROKEN = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT n = f32[5] negate(p)
}
"""


def schema(name):
    found = json.loads(command_line.run("schemas", name).stdout)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def checked(*arguments, code=0, data=b""):
    result = command_line.run(*arguments, data=data)
    assert result.returncode == code, result.stderr
    told = json.loads(result.stderr if code and not result.stdout else result.stdout)
    jsonschema.validate(told, schema(told["schema"]))
    return told


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["shape", TILED], "shape.v1"),
        (["shape", "(f32[2], token[])"], "shape.v1"),
        (["shape", "f32[<=3,?]"], "shape.v1"),
        (["index", TILED, "1,2", "3,4"], "index.v1"),
        (["index", TILED, "8191", "--inverse"], "index.v1"),
        (["size", TILED], "size.v1"),
        (["size", "(f32[], s32[4])", "--target", "tpu"], "size.v1"),
        (["size", MODULE], "size.v1"),
        (["reads", MODULE], "reads.v1"),
        (["map", MODULE], "map.v1"),
        (["map", MODULE, "--direction", "input_to_output", "--raw"], "map.v1"),
        (["tile", MODULE, "transpose_copy_fusion.1", "1,8,32,64"], "tile.v1"),
        (["tile", MODULE, "bitcast.8"], "tile.v1"),
        (["why", TILED], "why.v1"),
        (["why", "s4[7]{0:T(128)E(4)}", "--target", "tpu"], "why.v1"),
        (["why", "(f32[], f32[3,5])", "--target", "tpu"], "why.v1"),
        (["why", MODULE, "--target", "tpu"], "why.v1"),
        (["why", MODULE, "ynn_fusion.3"], "why.v1"),
        (["why", "an f32[3,5] and an s8[7]"], "why.v1"),
        (["verify", MODULE], "verify.v1"),
    ],
)
def test_answers_follow_their_schema(arguments, name):
    assert checked(*arguments, "--json")["schema"] == f"xlashape.{name}"


def test_a_report_about_memory_follows_its_schema():
    report = """Largest program allocations in hbm:

  1. Size: 32.00G
     Operator: op_name="jit(f)/add"
     Shape: s32[8388608,8,4]{2,1,0:T(8,128)}
     Unpadded size: 1.00G
     Extra memory due to padding: 31.00G (32.0x expansion)
     XLA label: copy.1
     Allocation type: HLO temp
     ==========================
"""
    told = checked("why", "-", "--json", data=report.encode())
    assert (told["totals"]["kind"], told["totals"]["agrees"]) == ("report", True)


@pytest.mark.parametrize("command", ["size", "reads", "map", "why"])
def test_what_is_not_known_is_a_row_that_says_why(command, tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(UNKNOWN)
    checked(command, str(path), "--json")
    assert command_line.run(command, str(path)).returncode == 0
    if command != "map":
        rows = [
            json.loads(line) for line in command_line.run(command, str(path), "--format", "jsonl").stdout.splitlines()
        ]
        assert rows
        assert command == "reads" or all("unbounded" in row["error"] or "bound" in row["error"] for row in rows)


def test_every_schema_is_valid_and_used():
    names = command_line.run("schemas").stdout.decode().split()
    for name in names:
        assert schema(name)["title"] == f"xlashape.{name}"
    assert "did you mean 'reads.v1'" in command_line.run("schemas", "read.v1").stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "error", "exit_code"),
    [
        (["shape", "f32[3"], "parse", 1),
        (["map", MODULE, "nothing.7"], "not_found", 1),
        (["reads", "nowhere.hlo"], "not_found", 1),
        (["index", "f32[3]", "7"], "invalid_index", 1),
        (["size", "f32[3]", "--nope"], "usage", 2),
        (["nope"], "usage", 2),
        (["shape", "f32[]", "--server", "127.0.0.1:1", "--timeout", "2"], "unavailable", 1),
    ],
)
def test_errors_are_json_too(arguments, error, exit_code):
    result = command_line.run(*arguments, "--json")
    assert (result.returncode, result.stdout) == (exit_code, b"")
    told = json.loads(result.stderr)
    jsonschema.validate(told, schema("error.v1"))
    assert (told["error"]["code"], told["exit_code"]) == (error, exit_code)


def test_verify(tmp_path):
    path = tmp_path / "broken.hlo"
    path.write_text(BROKEN)
    result = command_line.run("verify", path)
    assert (result.returncode, result.stderr) == (1, b"")
    (line,) = result.stdout.decode().splitlines()
    assert line.startswith("computation 'e': instruction 'n': ")
    told = json.loads(command_line.run("verify", "-", "--json", data=BROKEN.encode()).stdout)
    assert told["totals"]["problem_count"] == 1
    assert told["problems"][0]["instruction"] == "n"
    assert b"instructions keep the rules" in command_line.run("verify", MODULE).stdout


def test_verify_allows_mixed_precision_where_asked(tmp_path):
    path, tiled = tmp_path / "mixed.hlo", tmp_path / "tiled.hlo"
    text = "HloModule m ENTRY e { p = f32[4] parameter(0) q = bf16[4] parameter(1) ROOT r = f32[4] add(p, q) }"
    path.write_text(text)
    tiled.write_text(text.replace("[4] ", "[4]{0:T(128)} "))
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        for of_server in ([], ["--server", server.address]):
            codes = [
                command_line.run("verify", file, *options, *of_server).returncode
                for file in (path, tiled)
                for options in ([], ["--allow-mixed-precision"], ["--no-allow-mixed-precision"])
            ]
            assert codes == [1, 0, 1, 0, 0, 1]


def test_verify_for_numbers_of_devices(tmp_path):
    path = tmp_path / "gather.hlo"
    path.write_text(
        "HloModule m, replica_count=2\nENTRY e { p = f32[?,4] parameter(0) q = f32[4,4] parameter(1)"
        " ROOT r = f32[8,4] all-gather(q), dimensions={0} }\n"
    )
    assert b"bounded dimensions" in command_line.run("verify", path).stdout
    assert command_line.run("verify", path, "--allow-unbounded").returncode == 0
    result = command_line.run("verify", path, "--allow-unbounded", "--replica-count", "4")
    assert (result.returncode, b"the 4 devices of a group" in result.stdout) == (1, True)
    assert command_line.run("verify", path, "--replica-count", "0").returncode == 2


def test_the_protobuf_schema_compiles(tmp_path):
    result = command_line.run("protos", tmp_path)
    files = result.stdout.decode().split()
    assert str(tmp_path / "xla" / "service" / "hlo.proto") in files
    assert str(tmp_path / "xlashape" / "v1" / "types.proto") in files
    from grpc_tools import protoc

    names = [str(Path(file).relative_to(tmp_path)) for file in files]
    known = resources.files("grpc_tools").joinpath("_proto")
    out = tmp_path / "out.binpb"
    assert protoc.main(["protoc", f"-I{tmp_path}", f"-I{known}", f"--descriptor_set_out={out}", *names]) == 0
    assert out.stat().st_size > 10_000


def completed(words):
    """What bash would complete after these words."""
    environment = {
        **os.environ,
        "_XLASHAPE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    command = [sys.executable, "-c", "from xlashape.cli import main; main(prog_name='xlashape')"]
    result = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    return [line.split(",", 1)[1] for line in result.stdout.decode().splitlines() if "," in line]


def test_completion(tmp_path):
    assert "_XLASHAPE_COMPLETE" in command_line.run("completion", "bash").stdout.decode()
    assert "compdef" in command_line.run("completion", "zsh").stdout.decode()
    assert "complete --no-files --command xlashape" in command_line.run("completion", "fish").stdout.decode()
    module = HloModule.load(MODULE)
    text = tmp_path / "m.hlo"
    module.save(text)
    wanted = {each.name for each in module.instructions() if each.name.startswith("transpose")}
    for file in (MODULE, str(text)):
        assert set(completed(["xlashape", "map", file, "transpose"])) == wanted
        assert set(completed(["xlashape", "why", file, "transpose"])) == wanted
        computations = {each.name for each in module.computations}
        assert set(completed(["xlashape", "reads", file, "--computation", ""])) == computations
    assert completed(["xlashape", "map", "nowhere.hlo", "a"]) == ["a"]  # files that begin so
    assert "reads" in completed(["xlashape", "re"])
    assert "--segment-bytes" in completed(["xlashape", "reads", "--seg"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_completion_reads_the_beginning_of_a_large_file(tmp_path, monkeypatch, pack):
    module = HloModule.load(MODULE)
    text, proto = tmp_path / "m.hlo", tmp_path / "m.pb"
    module.save(text)
    text.write_bytes(pack(text.read_bytes()))
    proto.write_bytes(pack(Path(MODULE).read_bytes()))

    def found(path):
        context = click.Context(main)
        context.params["file"] = str(path)
        return completing.instruction_names(context, main.params[0], "")

    everything = {each.name for each in module.instructions()}
    assert set(found(text)) == set(found(proto)) == everything
    monkeypatch.setattr(completing, "_MOST_BYTES", 6_000)
    monkeypatch.setattr(HloModule, "load", lambda path: pytest.fail(f"{path} was loaded"))
    assert found(proto) == []
    assert set(found(text)) < everything and len(found(text)) > 5


def test_the_help_without_a_command():
    result = command_line.run()
    text = result.stdout.decode()
    assert (result.returncode, result.stderr) == (0, b"")
    assert len(text.splitlines()) > 30
    assert "Exit codes: 0 success; 1 an error" in text
    assert text == command_line.run("--help").stdout.decode()
    for line in (
        "Usage: xlashape [OPTIONS] [COMMAND] [ARGS]...",
        "Memory:",
        "  why     Why a buffer is as large as it is",
    ):
        assert line in text


def test_a_command_that_was_perhaps_meant():
    assert "there is no command 'raeds': did you mean 'reads'?" in command_line.run("raeds").stderr.decode()
    assert "--segment-bytes" in command_line.run("reads", MODULE, "--segment-byte").stderr.decode()
    said = command_line.run("map", MODULE, "transpose_cpy_fusion").stderr.decode()
    assert "did you mean 'transpose_copy_fusion'?" in said
    said = command_line.run("map", MODULE, "--computation", "mian.3").stderr.decode()
    assert "did you mean 'main.3'?" in said
