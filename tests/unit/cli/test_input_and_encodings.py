"""Files in every form, empty input, and terminals whose encoding lacks characters."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import command_line
import pytest

from xlashape_client import Client
from xlashape_server import Config, Server

MODULE = Path(str(resources.files("xlashape.data").joinpath("attention.hlo.pb")))
TILED = "f32[3,5]{1,0:T(2,2)}"


def answer(*arguments, data=b""):
    result = command_line.run(*arguments, data=data)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


@pytest.mark.parametrize("suffix", ["hlo", "hlo.gz", "pb.gz", "json", "json.gz", "pbtxt"])
def test_a_module_in_every_form_is_asked(suffix, tmp_path):
    path = tmp_path / f"m.{suffix}"
    answer("convert", MODULE, path)
    asked = ("reads", path, "transpose_copy_fusion.1")
    assert answer(*asked) == answer("reads", MODULE, "transpose_copy_fusion.1")
    assert answer("reads", "-", "transpose_copy_fusion.1", data=path.read_bytes()) == answer(*asked)


def test_a_compressed_file_is_uploaded_as_what_is_in_it(tmp_path):
    path = tmp_path / "m.pb.gz"
    path.write_bytes(gzip.compress(MODULE.read_bytes()))
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as running:
        with Client(running.address) as client:
            assert client.upload_module(path).name == client.upload_module(MODULE).name
        here = answer("map", path, "transpose_copy_fusion")
        assert answer("map", path, "transpose_copy_fusion", "--server", running.address) == here


@pytest.mark.parametrize("command", ["size", "reads", "map", "why", "verify", "tile", "draw"])
def test_input_without_a_module(command, tmp_path):
    rest = ["n"] if command in ("tile", "draw") else []
    (tmp_path / "empty.hlo").touch()
    (tmp_path / "broken.hlo.gz").write_bytes(gzip.compress(MODULE.read_bytes())[:300])
    (tmp_path / "folder").mkdir()
    for name, says in (
        ("empty.hlo", "is empty"),
        ("broken.hlo.gz", "not gzip data: Compressed file ended"),
        ("folder", "it is a directory without modules"),
    ):
        result = command_line.run(command, tmp_path / name, *rest)
        assert (result.returncode, result.stdout) == (1, b"")
        assert says in result.stderr.decode()
    result = command_line.run(command, "-", *rest)
    assert (result.returncode, b"is empty" in result.stderr) == (1, True)


def test_no_indices_on_standard_input_are_no_answers():
    assert answer("index", TILED, "-") == ""
    assert json.loads(answer("index", TILED, "-", "--json"))["rows"] == []
    assert command_line.run("index", "f32[", "-").returncode == 1


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "latin-1", "ascii"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("draw", TILED),
        ("size", str(MODULE), "--limit", "1"),
        ("shape", "\u00e9"),
        ("draw", TILED, "--json", "--format", "txt"),
    ],
)
def test_an_encoding_that_lacks_characters(encoding, arguments):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", *arguments], capture_output=True, env=environment, timeout=120, check=False
    )
    assert b"Traceback" not in result.stderr
    assert result.returncode == (1 if arguments[0] == "shape" else 0)
    # click writes UTF-8 where the encoding is ASCII.
    text = result.stdout.decode("utf-8" if encoding == "ascii" else encoding)
    if "--json" in arguments:
        assert json.loads(text)["picture"] == answer("draw", TILED, "-o", "-", "--format", "txt")
    elif arguments[0] == "draw" and encoding == "cp1252":
        assert "d0v   0  1  2  3  4" in text
        assert "byte 0 |0,0|0,1|1,0|1,1|" in text
