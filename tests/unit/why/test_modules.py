"""Explanations of instructions and modules: only buffers that exist, and what is not counted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import xlashape as xs
from xlashape.hlo import HloModule
from xlashape.reports.why import InstructionMemory, ModuleMemory, ReportMemory, why
from xlashape.shape import Shape, tiling

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "hlo"
MODULE = str(resources.files("xlashape.data") / "attention.hlo.pb")
TEXT = """HloModule looped

body {
  s = (s32[], f32[20,300]{1,0:T(8,128)}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[20,300]{1,0:T(8,128)} get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[20,300]{1,0:T(8,128)} negate(x)
  ROOT r = (s32[], f32[20,300]{1,0:T(8,128)}) tuple(j, y)
}

cond {
  state = (s32[], f32[20,300]{1,0:T(8,128)}) parameter(0)
  k = s32[] get-tuple-element(state), index=0
  ten = s32[] constant(10)
  ROOT less = pred[] compare(k, ten), direction=LT
}

sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

fused { q = f32[6000]{0} parameter(0) ROOT n = f32[6000]{0} negate(q) }

ENTRY e {
  p = f32[20,300]{1,0:T(8,128)} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[20,300]{1,0:T(8,128)}) tuple(zero, p)
  loop = (s32[], f32[20,300]{1,0:T(8,128)}) while(start), condition=cond, body=body
  out = f32[20,300]{1,0:T(8,128)} get-tuple-element(loop), index=1
  flat = f32[6000]{0} reshape(out)
  f = f32[6000]{0} fusion(flat), kind=kLoop, calls=fused
  init = f32[] constant(0)
  ROOT total = f32[] reduce(f, init), dimensions={0}, to_apply=sum
}
"""
PADDED = 24 * 384 * 4
EXPECTED = (
    {"p": PADDED, "y": PADDED, "flat": 24_000, "f": 24_000}
    | dict.fromkeys(("zero", "one", "j", "ten", "init", "total"), 4)
    | {"less": 1}
)


def test_a_module() -> None:
    memory = why(HloModule.parse(TEXT))
    assert isinstance(memory, ModuleMemory)
    assert {buffer.where: buffer.buffer_bytes for buffer in memory.buffers} == EXPECTED
    assert [buffer.name for buffer in memory.buffers[:2]] in (["p", "y"], ["y", "p"])
    assert memory.buffer_bytes == sum(EXPECTED.values())
    assert memory.element_bytes == sum(EXPECTED.values()) - 2 * (PADDED - 24_000)
    # tuple ×2, get-tuple-element ×4, while, parameters of the loop ×2; the computations of the fusion and the reduction
    assert (sum(memory.shared.values()), memory.without_memory) == (9, 5)
    text = str(memory)
    assert "9 results that share the buffers of others: 4 get-tuple-element, 2 parameter, 2 tuple, 1 while" in " ".join(
        text.split()
    )
    assert "5 results that are fused or applied to elements" in text
    assert "y (negate, in body): f32[20,300]{1,0:T(8,128)}" in text
    told = json.loads(json.dumps(memory.to_dict()))
    assert (told["causes"][0]["kind"], told["causes"][0]["name"]) == ("tile", memory.buffers[0].name)
    assert {row["name"] for row in told["suggestions"]} == {"p", "y"}
    assert told["totals"]["left_out"] == memory.not_counted()
    assert told["totals"]["bytes"] == memory.buffer_bytes == sum(row["bytes"] for row in told["buffers"])
    for buffer in memory.buffers:
        assert buffer.explain().buffer_bytes == buffer.buffer_bytes


def test_forms_of_a_module(tmp_path) -> None:
    total = sum(EXPECTED.values())
    path = tmp_path / "looped.hlo"
    path.write_text(TEXT)
    module = HloModule.parse(TEXT)
    for form in (TEXT, TEXT.encode(), path, str(path), module.to_proto().SerializeToString(), module.proto):
        assert why(form).buffer_bytes == total
    assert why(path, target="tpu").buffer_bytes > total
    assert why("// a dump\n/* of two */ " + TEXT).buffer_bytes == total


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("p", ""),
        ("y", ""),
        ("out", "its result has no memory of its own: the get-tuple-element shares the buffer of its operand"),
        ("loop", "its result has no memory of its own: the while shares buffers of what it calls"),
        ("s", "its result has no memory of its own: it shares the caller's buffer"),
        ("n", "its result has no memory of its own: fused is fused or applied to elements"),
    ],
)
def test_instructions(name, note) -> None:
    instruction = HloModule.parse(TEXT).instruction(name)
    memory = why(instruction)
    assert isinstance(memory, InstructionMemory)
    assert memory.note == note
    assert memory.buffer_bytes == why(instruction.shape).buffer_bytes
    assert str(memory).startswith(f"{name} ({instruction.opcode}, in {instruction.computation.name})")
    json.dumps(memory.to_dict())


@pytest.mark.parametrize("line", ["after-all()", "tuple()", "add-dependency(t, t)"])
def test_tokens_and_empty_tuples_hold_no_array(line):
    shape = "()" if line == "tuple()" else "token[]"
    module = HloModule.parse(f"ENTRY e {{ t = token[] after-all()  ROOT x = {shape} {line} }}")
    assert xs.why(module.entry.root).note == "its result has no memory of its own: it holds no array"


def test_one_buffer_of_unknown_size_is_a_row_that_says_so() -> None:
    text = 'HloModule m ENTRY e { p = f32[?,3] parameter(0) ROOT n = f32[20,300]{1,0:T(8,128)} custom-call(p), custom_call_target="x" }'
    memory = why(text)
    assert [(buffer.name, buffer.buffer_bytes) for buffer in memory.buffers] == [("n", PADDED), ("p", None)]
    assert "unbounded" in str(memory)
    assert memory.to_dict()["buffers"][1]["error"]


def test_memory_spaces_are_told_apart() -> None:
    text = "HloModule m ENTRY e { p = f32[20,300]{1,0:T(8,128)} parameter(0) ROOT c = f32[20,300]{1,0:T(8,128)S(1)} copy(p) }"
    memory = why(text)
    assert memory.bytes_by_memory_space == {0: PADDED, 1: PADDED}
    told = " ".join(str(memory).split())
    assert "36,864 bytes (36.00 KiB) in memory space 0, 36,864 bytes (36.00 KiB) in memory space 1" in told
    assert why(TEXT).bytes_by_memory_space == {0: sum(EXPECTED.values())}


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.hlo"))[:40], ids=lambda path: path.name)
def test_programs(path) -> None:
    """Of real programs, against the text alone: what fusions and reducers call has no buffers, the rest counts by its
    shape."""
    text = path.read_text(encoding="utf-8")
    memory = why(path)
    assert isinstance(memory, ModuleMemory)
    inner = set(re.findall(r"(?:to_apply|calls)=%?([\w.\-]+)", text))
    module = HloModule.load(path)
    called = {
        computation.name
        for i in module.instructions()
        if str(i.opcode) in ("call", "async-start")
        for computation in i.called_computations
    }
    assert not {buffer.computation for buffer in memory.buffers} & (inner - called)
    for buffer in memory.buffers:
        assert buffer.opcode not in ("tuple", "get-tuple-element", "bitcast", "while", "conditional", "call")
        if buffer.error is None:
            assert buffer.buffer_bytes == tiling.physical_bytes(buffer.shape)
    for parameter in module.entry.parameters:
        leaves = [leaf for leaf in parameter.shape.leaves() if leaf.is_array]
        own = [
            buffer
            for buffer in memory.buffers
            if (buffer.name, buffer.computation) == (parameter.name, module.entry.name)
        ]
        assert len(own) == len(leaves)


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "xlashape", "why", *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_the_command_line(tmp_path) -> None:
    shape = "s32[1024,8,4]{2,1,0:T(8,128)}"
    assert run(shape).stdout.decode().rstrip("\n") == str(why(shape))
    assert run("-", stdin=shape.encode()).stdout.decode().rstrip("\n") == str(why(shape))
    told = json.loads(run(shape, "--json").stdout)
    assert (told["x"], told["totals"]["kind"], told["totals"]["factor"]) == (shape, "array", 32.0)
    on_target = json.loads(run("bf16[1000,3]", "--target", "tpu-v5e", "--json").stdout)
    assert on_target["buffers"][0]["shape"] == "bf16[1000,3]{0,1:T(4,128)(2,1)}"
    assert on_target["totals"]["target"] == "tpu-v5e"
    report = b"1. Size: 6.00G\n Shape: u32[12582912,1]{1,0:T(8,128)}\n Unpadded size: 48.00M\n"
    assert (
        b"ours      6.00G, unpadded 48.00M, padding 5.95G (128.0x expansion): the same" in run("-", stdin=report).stdout
    )
    path = tmp_path / "log.txt"
    path.write_bytes(report)
    assert json.loads(run(str(path), "--json").stdout)["totals"]["kind"] == "report"
    assert isinstance(xs.why(path), ReportMemory)


def test_modules_on_the_command_line() -> None:
    whole = run(MODULE, "--target", "tpu", "--limit", "1")
    assert b"and 6 more buffers that are larger than their elements: --limit 0 shows all" in whole.stdout
    one = json.loads(run(MODULE, "ynn_fusion.3", "--json").stdout)["totals"]
    assert (one["kind"], one["about"], one["factor"]) == ("instruction", "ynn_fusion.3", 1.0)
    assert json.loads(run("-", "--json", stdin=Path(MODULE).read_bytes()).stdout)["totals"]["about"] == "jit_attention"


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["f32[2,3]{1,1}"], b"", b"line 1, column 12: minor_to_major has 1 twice"),
        (["nothing.hlo"], b"", b"there is no file 'nothing.hlo'"),
        (["-"], b" \n", b"standard input is empty"),
        (["f32[2]", "--target", "ipu"], b"", b"Invalid value for '--target': 'ipu' is not one of 'cpu', 'gpu', 'tpu'"),
        ([MODULE, "nope"], b"", b"module 'jit_attention' has no instruction 'nope'"),
        (["modules/abc"], b"", b"xlashape: "),
        (["-"], b"\x00\x01\x02\xff", b"xlashape: "),
        (["-"], b"\x1f\x8b\x08", b"xlashape: "),
    ],
)
def test_mistakes_are_one_line(arguments, stdin, said) -> None:
    result = run(*arguments, stdin=stdin)
    assert result.returncode == (2 if "--target" in arguments else 1)
    assert said in result.stderr
    # Of a mistake in text, the line and a caret follow.
    assert len(result.stderr.splitlines()) == (3 if said.startswith(b"line 1") else 1)


def test_a_module_that_a_server_keeps() -> None:
    from xlashape_client import Client
    from xlashape_server import Config, Server

    server = Server(Config(address="127.0.0.1:0", workers=1)).start()
    try:
        with Client(server.address) as client:
            name = client.upload_module(HloModule.parse(TEXT)).name
        told = json.loads(run(name, "--server", server.address, "--json").stdout)
        assert told["totals"]["bytes"] == sum(EXPECTED.values())
        told = json.loads(run(name, "y", "--server", server.address, "--json").stdout)
        assert told["totals"]["bytes"] == PADDED
    finally:
        server.stop()


def test_shapes_count_once_as_shapes() -> None:
    assert why(Shape.parse("f32[2]")) == why("f32[2]")


def test_one_buffer_is_in_the_singular():
    module = HloModule.parse("HloModule m ENTRY e { ROOT p = f32[4] parameter(0) }")
    assert str(why(module)).startswith("m: 1 buffer\n")
    assert str(why("1. Size: 4.0K Shape: f32[1024]")).startswith("1 allocation listed, 4.00 KiB together\n")


DONATED = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {0}, must-alias), {3}: (2, {}, may-alias) }, buffer_donor={ (3, {}) }

ENTRY e {
  p = f32[8,4]{1,0:T(8,128)} parameter(0)
  q = (f32[3], s32[]) parameter(1)
  r = f32[7] parameter(2)
  s = f32[5] parameter(3)
  n = f32[8,4]{1,0:T(8,128)} negate(p)
  q0 = f32[3] get-tuple-element(q), index=0
  a = f32[3] abs(q0)
  b = f32[3] bitcast(a)
  c = f32[5] cosine(s)
  ROOT t = (f32[8,4]{1,0:T(8,128)}, f32[3], f32[5], f32[7]) tuple(n, b, c, r)
}
"""


def test_outputs_in_the_memory_of_parameters_are_not_counted() -> None:
    memory = why(DONATED)
    assert isinstance(memory, ModuleMemory)
    sizes = {buffer.where: buffer.buffer_bytes for buffer in memory.buffers}
    assert sizes == {"p": 4096, "q{0}": 12, "q{1}": 4, "r": 28, "s": 20, "c": 20}
    assert memory.buffer_bytes == sum(sizes.values())
    assert [(str(d.output_index), d.instruction, d.parameter, d.kind, d.buffer_bytes) for d in memory.donated] == [
        ("{0}", "n", "p", "may-alias", 4096),
        ("{1}", "a", "q{0}", "must-alias", 12),
        ("{3}", "r", "r", "may-alias", 0),
    ]
    assert memory.donors == 1
    told = " ".join(str(memory).split())
    assert "3 outputs are in the memory of donated parameters, which saves 4,108 bytes" in told
    assert "the output {0} in that of p, by n (4,096 bytes (4.00 KiB))" in told
    assert "what the compiler may save by computing outputs into the memory of 1 donated array" in told
    note = why(HloModule.parse(DONATED).instruction("n"))
    assert isinstance(note, InstructionMemory)
    assert note.note == "it is computed into the memory of p, which the caller may give away"


def test_donated_loop_state_is_the_memory_of_the_parameter() -> None:
    text = TEXT.replace("HloModule looped", "HloModule looped, input_output_alias={ {}: (0, {}, may-alias) }").replace(
        "ROOT total", "total"
    )
    text = text.replace(
        "dimensions={0}, to_apply=sum\n}", "dimensions={0}, to_apply=sum\n  ROOT d = f32[20,300] bitcast(out)\n}"
    )
    memory = why(text)
    assert isinstance(memory, ModuleMemory)
    assert [(d.instruction, d.parameter, d.buffer_bytes) for d in memory.donated] == [("p", "p", 0)]


@pytest.mark.parametrize("x", ["s32[1024,8,4]{2,1,0:T(8,128)}", "(f32[3], s8[])", DONATED, "an f32[3,5] and s8[7]"])
def test_explanations_are_tables_for_other_libraries(x: str) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    memory = why(x)
    frame = polars.DataFrame(memory)
    assert frame.columns == [column.name for column in memory.table().columns]
    assert frame.rows(named=True) == list(memory.table())
    assert arrow.table(memory).to_pylist() == list(memory.table())
    assert sum(frame["bytes"]) == memory.buffer_bytes
    assert repr(memory).startswith(f"<{type(memory).__name__}: {memory.buffer_bytes:,} bytes")
