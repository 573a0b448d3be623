"""Inputs that are named without a command: `xlashape FILE` answers as the command that is about this kind of input."""

import gzip
import shutil
from importlib import resources
from pathlib import Path

import command_line
import pytest

from xlashape.proto import v1

PROFILE = Path(__file__).resolve().parents[2] / "vectors" / "profiles" / "scan_grad.xplane.pb"
MODULE = resources.files("xlashape.data").joinpath("attention.hlo.pb").read_bytes()
SCOPED_VMEM = (
    b"RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Scoped allocation "
    b"with size 21.50M and limit 16.00M exceeded scoped vmem limit by 5.50M.\n"
)
REMATERIALIZATION = (
    b"E0412 spmd_partitioner.cc:630] [spmd] Involuntary full rematerialization. The compiler was not able to go from "
    b"sharding {devices=[4,1]<=[4]} to {devices=[1,4]<=[4]} without doing a full rematerialization of the tensor for "
    b"HLO operation: %copy.1 = f32[1024,4096]{1,0} copy(f32[1024,4096]{1,0} %p.1), sharding={devices=[4,1]<=[4]}.\n"
)
OUT_OF_MEMORY = (
    b"Ran out of memory in memory space hbm. Used 41.74G of 16.00G hbm. Exceeded hbm capacity by 25.74G.\n"
    b"  1. Size: 32.00G\n     Shape: s32[8388608,8,4]{2,1,0:T(8,128)}\n     Unpadded size: 1.00G\n"
)

ASSIGNMENT = b"""BufferAssignment:
allocation 0: size 400, parameter 0, shape |f32[100]| at ShapeIndex {}:
 value: <0 x.1 @0> (size=400,offset=0): f32[100]{0}
allocation 1: size 800, preallocated-temp:
 value: <1 f.2 @0> (size=600,offset=0): f32[150]{0}
"""
STATISTICS = b"BufferAssignment stats:\n             parameter allocation:        400B\n"

# (kind of the schema, content of a file, the command that answers)
CASES = [
    ("SHAPE", b"f32[3,5]{1,0:T(2,2)}\n", "why"),
    ("INSTRUCTION", b"%a = f32[8] add(f32[8] %x, f32[8] %y)\n", "summary"),
    ("MODULE", MODULE, "summary"),
    ("MODULE", gzip.compress(MODULE, mtime=0), "summary"),
    ("REPORT", OUT_OF_MEMORY, "why"),
    ("REPORT", SCOPED_VMEM, "why"),
    ("REPORT", REMATERIALIZATION, "why"),
    ("REPORT", b"ptxas error: Entry function 'f' uses too much shared data (0x1a000 bytes, 0xc000 max)\n", "why"),
    ("REPORT", b"the buffers f32[3,4] and bf16[128] are large\n", "why"),
    ("REPORT", b"Failed to allocate request for 12.50GiB (13421772800B) on device ordinal 0\n", "why"),
    ("PROFILE", PROFILE.read_bytes(), "profile"),
    ("PROFILE", PROFILE.with_name("scan_grad.trace.json.gz").read_bytes(), "profile"),
]
TEXTS = [("LAYOUT", "{1,0:T(8,128)}", "f32[20,320]{1,0:T(8,128)}"), ("MAP", "(d0) -> (d0), domain: d0 in [0, 9]", "")]


def test_every_kind_has_a_case():
    kinds = {value.name.removeprefix("CONTENT_KIND_") for value in v1.ContentKind.DESCRIPTOR.values}
    assert {case[0] for case in (*CASES, *TEXTS)} == kinds - {"UNSPECIFIED"}


@pytest.mark.parametrize(("kind", "content", "command"), CASES, ids=lambda value: str(value)[:20])
def test_a_file_is_answered_as_by_its_command(kind, content, command, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(content)
    named = command_line.run(command, file)
    assert (named.returncode, named.stderr) == (0, b"")
    assert command_line.run(file).stdout == named.stdout
    assert command_line.run("-", data=content).stdout == command_line.run(command, "-", data=content).stdout
    assert command_line.run(file, "--json").stdout == command_line.run(command, file, "--json").stdout


@pytest.mark.parametrize("content", [ASSIGNMENT, ASSIGNMENT + b"\n" + STATISTICS])
def test_a_buffer_assignment_is_answered_by_memory(content, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(content)
    answer = command_line.run(file)
    assert answer.stdout == command_line.run("memory", file).stdout
    assert b"temporaries  800 bytes" in answer.stdout, answer.stderr


@pytest.mark.parametrize(("kind", "text", "shape"), TEXTS)
def test_layouts_and_maps_are_drawn(kind, text, shape, tmp_path):
    file = tmp_path / "x"
    file.write_text(text)
    drawn = command_line.run("draw", shape or text).stdout
    assert drawn
    assert command_line.run(file).stdout == command_line.run(text).stdout == drawn


def test_a_directory_of_a_profile_is_its_profile(tmp_path):
    run = tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    run.mkdir(parents=True)
    shutil.copy(PROFILE, run / "host.xplane.pb")
    answer = command_line.run(tmp_path)
    assert answer.stdout == command_line.run("profile", PROFILE).stdout != b""
    (tmp_path / "module_0001.jit_f.hlo.pb").write_bytes(MODULE)  # beside dumps, the dumps are meant
    assert b"module_0001.jit_f.hlo.pb" in command_line.run(tmp_path).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sumary", "there is no command 'sumary': did you mean 'summary'?"),
        ("nosuch.pb", "there is no file 'nosuch.pb'"),
        (f"{PROFILE}x", f"there is no file '{PROFILE}x': did you mean '{PROFILE}'?"),
        ("f32[3,", "line 1, column 7: expected a dimension's size, found the end of the text"),
    ],
)
def test_other_words_are_mistakes(text, said):
    answer = command_line.run(text)
    assert answer.returncode != 0
    assert said in answer.stderr.decode()


TRACEBACK = b"""INFO: step 3
Traceback (most recent call last):
  File "train.py", line 73, in <module>
    step(recent)
ValueError: bad x
"""


@pytest.mark.parametrize("command", [(), ("why",), ("cost",)])
def test_a_traceback_without_memory_is_called_one(command, tmp_path):
    (tmp_path / "log.txt").write_bytes(TRACEBACK)
    said = command_line.run(*command, tmp_path / "log.txt")
    assert said.returncode == 1
    assert "log.txt is a traceback of Python without a message about memory" in said.stderr.decode()
    assert "traceback of Python" in command_line.run("why", "-", data=TRACEBACK).stderr.decode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (OUT_OF_MEMORY, "x holds no HLO module: this is a report about memory, which `why` explains"),
        (b'{"traceEvents": []}', "x is a trace of the profiler, which holds no module: the report `profile` is about"),
    ],
)
def test_the_command_summary_names_the_one_that_answers(content, said, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(content)
    assert said in command_line.run("summary", file).stderr.decode()
