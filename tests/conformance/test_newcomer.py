"""Fifteen tasks of a newcomer, done with documented names only. A name that no code in the README or on a page of docs
uses fails the test."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pytest

import xlashape as xs
from xlashape.hlo import verify

MODULE = resources.files("xlashape.data") / "attention.hlo.pb"


@pytest.fixture(scope="module")
def module() -> Any:
    return xs.HloModule.load(MODULE)


def test_task_1_what_each_fusion_of_a_jitted_function_reads() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    report = xs.reads(jax.jit(lambda x: (x * 2).T + 1), np.ones((64, 128), np.float32))
    assert all(read.map and read.operand_name for read in report)
    assert sum(read.bytes for read in report) >= 64 * 128 * 4


def test_task_2_the_worst_read(module: Any) -> None:
    worst = xs.reads(module).worst()[0]
    # A vector of outputs touches 8 cache lines where 1 would do.
    assert (worst.instruction, worst.operand_name) == ("transpose_copy_fusion.1", "wrapped_convert.1")
    assert (worst.lines, worst.ideal) == (8, 1)


def test_task_3_the_buffer_that_is_padded_most(module: Any) -> None:
    largest = max(xs.why(module, target="tpu").buffers, key=lambda buffer: buffer.overhead_bytes)
    memory = largest.explain()
    assert memory.buffer_bytes == 2 * memory.element_bytes == 1 << 20
    assert "tile (8,128) pads" in memory.causes[0].text


def test_task_4_what_would_be_smaller() -> None:
    memory = xs.why("s32[1024,8,4]{2,1,0:T(8,128)}")
    best = memory.suggestions[0]
    assert best.buffer_bytes == xs.tiling.physical_bytes(best.shape) == memory.element_bytes


def test_task_5_bf16_into_the_buffer_of_a_tpu_and_back() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    shape = xs.why("bf16[20,300]", target="tpu").shape
    array = np.arange(6000).reshape(20, 300).astype(ml_dtypes.bfloat16)
    buffer = xs.tiling.pack(shape, array)
    assert buffer.nbytes == xs.tiling.physical_bytes(shape) == 18432
    words = np.frombuffer(buffer, ml_dtypes.bfloat16)
    assert words[xs.tiling.linear_index(shape, (19, 299))] == array[19, 299]
    assert (xs.tiling.unpack(shape, buffer) == array).all()


def test_task_6_explain_a_layout_with_a_picture(tmp_path: Path) -> None:
    xs.draw("bf16[20,300]{1,0:T(8,128)(2,1)}", at=(19, 299)).save(tmp_path / "layout.svg")
    assert "8535" in (tmp_path / "layout.svg").read_text(encoding="utf-8")


def test_task_7_rewrite_an_instruction_and_save(tmp_path: Path) -> None:
    text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }"
    edited = xs.HloModule.parse(text)
    edited.instruction("y").rewrite("multiply(x, x)")
    edited.save(tmp_path / "edited.hlo")
    assert xs.HloModule.load(tmp_path / "edited.hlo").instruction("y").opcode.value == "multiply"


def test_task_8_is_a_module_valid(module: Any) -> None:
    assert list(verify(module)) == []


def test_task_9_count_opcodes(module: Any) -> None:
    opcodes = [instruction.opcode.value for instruction in module.entry.instructions]
    assert (opcodes.count("fusion"), opcodes.count("parameter")) == (16, 3)


def test_task_10_which_parameters_does_the_result_depend_on(module: Any) -> None:
    found = xs.indexing.output_to_ancestors(module.entry.root)
    assert all(list(found[parameter]) for parameter in module.entry.parameters)


def test_task_11_where_in_memory_is_an_element() -> None:
    shape = xs.Shape.parse("f32[3,5]{1,0:T(2,2)}")
    position = xs.tiling.linear_index(shape, (2, 3))
    assert (position, xs.tiling.multi_index(shape, position)) == (17, (2, 3))
    assert xs.tiling.linear_indices(shape, [[0, 0], [2, 3]]).tolist() == [0, 17]


def test_task_12_what_does_a_tile_of_the_result_need(module: Any) -> None:
    (needed,) = xs.indexing.operand_tiles(module.instruction("transpose_copy_fusion.1"), [1, 1, 32, 64])
    assert (needed.tile.offsets, needed.tile.sizes) == ((0, 256), (64, 32))


def test_task_13_simplify_and_evaluate_a_map() -> None:
    text = "(d0, d1) -> ((d0 * 16 + d1) floordiv 8, d1 mod 8), domain: d0 in [0, 9], d1 in [0, 15]"
    simple = xs.IndexingMap.parse(text).simplify()
    assert simple.to_text(style="affine").startswith("(d0, d1) -> (d0 * 2 + d1 floordiv 8, d1 mod 8)")
    assert (simple.evaluate((2, 11)), simple.evaluate((2, 99))) == ((5, 3), None)


def test_task_14_a_report_about_memory_that_has_run_out() -> None:
    report = xs.why("1. Size: 6.00G\n   Shape: u32[12582912,1]{1,0:T(8,128)}\n   Unpadded size: 48.00M\n")
    assert report.allocations[0].agrees
    assert report.allocations[0].memory.factor == 128.0


def test_task_15_ask_a_server() -> None:
    pytest.importorskip("grpc_health", reason="the extra `server` is not installed")
    from xlashape_client import Client
    from xlashape_server import Config, Server

    server = Server(Config(address="127.0.0.1:0", workers=1)).start()
    try:
        client = Client(server.address)
        assert client.byte_size("bf16[20,300]{1,0:T(8,128)(2,1)}").physical_bytes == 18432
        client.close()
    finally:
        server.stop()


NOT_OURS = set(
    "arange astype bfloat16 count frombuffer importorskip float32 jit nbytes ones read_text reshape "
    "startswith T tolist".split()
)
"""Names of Python, NumPy, JAX and pytest."""


def names_of_tasks() -> set[str]:
    """Every attribute and keyword that the tasks use."""
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    tasks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_task_")]
    assert len(tasks) == 15
    nodes = [node for task in tasks for node in ast.walk(task)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}


def test_the_tasks_use_documented_names_only() -> None:
    code: set[str] = set()
    for page in pages.PAGES:
        text = (pages.ROOT / page).read_text(encoding="utf-8")
        for part in [content for _, content in pages.blocks(text)] + re.findall(r"`([^`\n]+)`", text):
            code.update(re.findall(r"\w+", part))
    undocumented = names_of_tasks() - NOT_OURS - code - {"encoding", "reason", "key"}
    assert sorted(undocumented) == []
