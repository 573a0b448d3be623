"""The conformance suite of the clients: its cases are what the generator writes, the Python clients pass them, and the
runner notices what is wrong.

The clients of other languages are run by tests/conformance/run.py, which .ci/run calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xlashape.base.extras import require
from xlashape.proto import services

require("server", "the suite of the clients")

FOLDER = Path(__file__).resolve().parent
CASES = sorted((FOLDER / "cases").glob("*.jsonl"))


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, str(FOLDER / "run.py"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("language", ["python", "python-asyncio"])
def test_the_python_clients_pass(language: str) -> None:
    code, told = run(language)
    [row] = told["rows"]
    assert (code, row["failed"], row["surprises"]) == (0, {}, [])
    assert row["passed"] + row["known"] == told["cases"] == sum(len(path.read_text().splitlines()) for path in CASES)


@pytest.mark.parametrize("name", [path.stem for path in CASES])
def test_the_cases_are_those_of_the_generator(name: str) -> None:
    code = f"import generate; print(generate.FILES[{name!r}]().text(), end='')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert made.returncode == 0, made.stderr
    path = FOLDER / "cases" / f"{name}.jsonl"
    assert made.stdout == path.read_text(), f"run {FOLDER.name}/generate.py {name}"


def test_every_rpc_has_cases_with_answers_and_with_errors() -> None:
    answered: set[str] = set()
    refused: set[str] = set()
    reasons: set[str] = set()
    for path in CASES:
        for line in path.read_text().splitlines():
            case = json.loads(line)
            rpc = next((case[kind]["rpc"] for kind in ("call", "pages", "bulk") if kind in case), "")
            if "upload" in case:
                rpc = "HloService/UploadModule"
            if "bulk" in case:  # few numbers go in one message
                rpc = rpc.replace("EvaluateMapBatch", "EvaluateMap").replace("Indices", "Index")
            (refused if "error" in case else answered).add(rpc)
            reasons.add(case.get("error", {}).get("reason", ""))
    every = {f"{service.name}/{method.name}" for service in services() for method in service.methods}
    assert every - answered == set(), "tests/conformance/generating/ has no case of these RPCs with an answer"
    assert every - refused == set(), "tests/conformance/generating/ has no case of these RPCs with an error"
    assert reasons >= {
        "DECODE",
        "INVALID_ARGUMENT",
        "INVALID_INDEX",
        "INVALID_MAP",
        "INVALID_MODULE",
        "INVALID_SHAPE",
        "LIMIT_EXCEEDED",
        "NOT_FOUND",
        "PARSE",
        "SIZE_OVERFLOW",
        "UNSUPPORTED",
    }


def test_maps_in_and_out_of_their_domains() -> None:
    maps = [json.loads(line) for line in (FOLDER / "cases" / "maps.jsonl").read_text().splitlines()]
    ordinary = [case for case in maps if case["name"].startswith(("maps/xla/", "maps/near_int64/"))]
    assert len(ordinary) == 2000
    rows = [row for case in ordinary for row in case["results"]]
    numbers = [number for case in ordinary for point in case["evaluation"]["points"] for number in point]
    assert min(sum(row is None for row in rows), sum(row is not None for row in rows)) > 4000
    assert sum(number < 0 for number in numbers) > 500
    assert {-(2**63), 2**63 - 1} <= set(numbers)


def test_the_runner_notices_what_is_wrong(tmp_path: Path) -> None:
    """A copy of the suite whose testee has four mistakes, two of which are listed as known."""
    copy = tmp_path / "tests" / "conformance"
    for part in ("suite", "run.py", "testee.proto", "cases/shapes.jsonl"):
        target = copy / part
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(FOLDER / part), str(target)], check=True)
    (copy / "languages").mkdir()
    (copy / "known_failing").mkdir()
    testee = tmp_path / "testee.py"
    testee.write_text(f"""
import sys
sys.path[:0] = [{str(FOLDER)!r}, {str(FOLDER.parents[1] / "clients" / "python" / "conformance")!r}]
import testee as right
from suite import protocol

state = right.Testee(awaits=False)
while (request := protocol.read(sys.stdin.buffer, protocol.testee.Request)) is not None:
    response = state.answer(request)
    if request.name == "shapes/describe/scalar":
        response.answers[0] += b"\\x0a\\x00"
    if request.name == "shapes/byte_size/scalar":
        sys.exit(3)
    if request.name == "shapes/mistakes/no_shape":
        response.error.field = "shapes"
    if request.name == "shapes/describe/tiled":
        response.unsupported = "no tiles"
    protocol.write(sys.stdout.buffer, response)
""")
    (copy / "languages" / "wrong.json").write_text(
        json.dumps(
            {
                "directory": ".",
                "needs": [],
                "build": [],
                "run": ["{python}", str(testee)],
                "transports": ["grpc"],
            }
        )
    )
    (copy / "known_failing" / "wrong.txt").write_text(
        "# what fails\n\nshapes/describe/til*  # no tiles yet\nshapes/describe/vector  # passes\n"
    )
    command = [sys.executable, str(copy / "run.py"), "--json", "wrong"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    assert row["failed"].keys() == {
        "shapes/describe/scalar",
        "shapes/byte_size/scalar",
        "shapes/mistakes/no_shape",
    }
    assert "the testee ended with exit code 3" in row["failed"]["shapes/byte_size/scalar"][0]
    assert row["failed"]["shapes/mistakes/no_shape"] == ["error.field: expected 'shapes[0]', found 'shapes'"]
    assert (row["known"], row["surprises"]) == (1, ["shapes/describe/vector"])
    (copy / "known_failing" / "wrong.txt").write_text("shapes/describe/tiled\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "expected a reason after a #" in done.stderr
