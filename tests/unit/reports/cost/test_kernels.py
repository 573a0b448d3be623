"""FLOPs of what is written in another way than it is computed: windows that cover a dimension, and custom calls that
state what they calculate."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import random_windows

from xlashape.errors import SizeOverflowError
from xlashape.hlo import Opcode
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.reports.cost import MODELS, Arithmetic, cost

VECTORS = Path(__file__).resolve().parents[3] / "vectors/costs/tpu_generations.jsonl.gz"
GENERATIONS = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]


def test_windows_that_cover_a_dimension_are_counted_once() -> None:
    draw = random.Random(0)
    covering = 0
    for _ in range(300):
        dimensions = random_windows.drawn(draw)
        text = random_windows.text_of(dimensions)
        counted = cost(text).flops
        assert counted == random_windows.additions(dimensions), text
        covering += counted != cost(text, as_xla=True).flops
    assert covering > 100


@pytest.mark.parametrize(
    ("window", "flops", "as_xla"),
    [
        ("f32[8,64] size=1x127 pad=0_0x63_63", 8 * 63, 8 + 63),
        ("f32[8,64] size=15x127 pad=7_7x63_63", 8 * 64 - 1, 8 * 64 * (15 * 127 - 1)),
        ("f32[8,16] size=1x33 pad=0_0x16_16", 8 * 15, 8 * 16 * 32),
        ("f32[8,64] size=1x64 pad=0_0x63_0", 8 * 64 * 63, 8 * 64 * 63),  # sums of all elements before
    ],
)
def test_a_softmax_of_a_tpu(window: str, flops: int, as_xla: int) -> None:
    shape, _, size = window.partition(" ")
    text = f"""HloModule m max {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}
    ENTRY e {{ p = {shape} parameter(0) z = f32[] constant(-inf)
      ROOT r = {shape} reduce-window(p, z), window={{{size}}}, to_apply=max }}"""
    assert (cost(text).flops, cost(text, as_xla=True).flops) == (flops, as_xla)


# -- custom calls -----------------------------------------------------------------------------


def _call(target: str, config: str = "", *, result: str = "f32[4,5]", operands: str = "f32[4,6] f32[6,5]") -> str:
    shapes = operands.split(" ")
    parameters = " ".join([f"p{number} = {shape} parameter({number})" for number, shape in enumerate(shapes)])
    names = ", ".join([f"p{number}" for number in range(len(shapes))])
    configured = f", backend_config={config}" if config else ""
    return f'HloModule m ENTRY e {{ {parameters} ROOT r = {result} custom-call({names}), custom_call_target="{target}"{configured} }}'


@pytest.mark.parametrize("target", ["tpu_custom_call", "mine"])
def test_what_a_kernel_states_is_used_and_said_to_be_stated(target: str) -> None:
    stated = '{"custom_call_config":{"cost_estimate":{"flops":"12345","transcendentals":67,"bytes_accessed":89}}}'
    counted = cost(_call(target, stated), target="tpu-v5p")
    assert (counted.flops, counted.transcendentals, counted.stated_instructions) == (12345, 67, 1)
    assert counted.is_exact and counted.rows[0].bound == "memory" and counted.least_time
    assert counted.headline().endswith(
        "\nThe FLOPs of 1 instruction are stated: by a kernel, its configuration or a model."
    )
    assert (counted.bytes_read, counted.bytes_written, counted.padded_bytes) == (9, 80, 89)
    # libtpu counts its kernels as they state, and XLA others as -1.
    assert cost(_call(target, stated), as_xla=True).flops == (12345 if target == "tpu_custom_call" else -1)
    assert cost(_call(target), as_xla=True).flops == (0 if target == "tpu_custom_call" else -1)


@pytest.mark.parametrize(
    "config",
    ["", '"[]"', '{"cost_estimate":[]}', '{"cost_estimate":{"flops":-1}}', '{"cost_estimate":{"flops":true}}',
     '{"cost_estimate":{"flops":1e300}}', '{"cost_estimate":{"transcendentals":5}}', '{"cudnn_fmha_backend_config":7}'],
)  # fmt: skip
@pytest.mark.parametrize("target", ["mine", "__cudnn$fmhaSoftmax", "__cublas$gemm"])
def test_where_flops_are_not_known_neither_time_nor_bound_is(target: str, config: str) -> None:
    text = _call(target, config).replace("ROOT r", "r").replace(" }", " ROOT n = f32[4,5] negate(r) }")
    counted = cost(text, target="h100")
    assert counted.unknown_instructions == 1 and counted.least_time is None and not counted.is_exact
    unknown, negate = counted.rows
    assert (unknown.flops, unknown.bound, unknown.least_time, unknown.share, unknown.intensity) == (None,) * 5
    assert negate.bound == "memory" and negate.share == 1.0
    assert counted.headline().endswith("are not known; they count 0, and there is no least time.")
    assert [group.least_time is None for group in counted.by("computation")] == [True]


def test_a_loop_that_holds_an_unknown_kernel_has_no_least_time_unless_it_never_runs() -> None:
    text = """HloModule m
    body { p = f32[8] parameter(0) ROOT c = f32[8] custom-call(p), custom_call_target="mine" }
    cond { p = f32[8] parameter(0) ROOT c = pred[] constant(true) }
    ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p)
      ROOT w = f32[8] while(n), condition=cond, body=body, backend_config={"known_trip_count":{"n":"COUNT"}} }"""
    assert cost(text.replace("COUNT", "3"), target="h100").least_time is None
    assert cost(text.replace("COUNT", "0"), target="h100").least_time is not None


ATTENTION = {
    "BNTH": ("bf16[2,4,64,32] bf16[2,2,96,32] bf16[2,2,96,16]", "bf16[2,4,64,16]"),
    "BTNH": ("bf16[2,64,4,32] bf16[2,96,2,32] bf16[2,96,2,16]", "bf16[2,4,64,16]{3,1,2,0}"),
}


def _attention(products: str) -> str:
    numbers = ",".join(
        [f'"{name}_dot_dimension_numbers":{{"lhs_contracting_dimensions":["3"]}}' for name in products.split()]
    )
    return f'{{"operation_queue_id":"0","cudnn_fmha_backend_config":{{"mask_type":"CAUSAL","intermediate_tensor_shape":{{"element_type":"BF16","dimensions":["2","4","64","96"]}},{numbers}}}}}'


@pytest.mark.parametrize("layout", ATTENTION)
def test_products_of_attention(layout: str) -> None:
    """Heads of queries have 32 numbers, heads of values 16; there are 2 · 4 · 64 queries, and 96 keys for each."""
    operands, result = ATTENTION[layout]
    products = _attention("bmm1 bmm2")
    forward = _call("__cudnn$fmhaSoftmax", products, result=f"({result}, u8[0])", operands=operands)
    scores = 2 * 4 * 64 * 96
    assert cost(forward).flops == 2 * scores * (32 + 16)
    q, k, v = operands.split()
    backward = _call(
        "__cudnn$fmhaSoftmaxBackward",
        _attention("bmm1_grad_gemm1 bmm1_grad_gemm2 bmm2_grad_gemm1 bmm2_grad_gemm2"),
        result=f"({q}, {k}, {v}, u8[0])",
        operands=f"{q} {k} {v} f32[2,4,64] {result.partition('{')[0]} {result.partition('{')[0]}",
    )
    assert cost(backward).flops == 2 * scores * (32 + 32 + 16 + 16)
    assert cost(backward, target="h100").rows[0].bound == "memory"


def test_products_of_libraries() -> None:
    config = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
    assert cost(_call("__cublas$gemm", config, result="(f32[4,5], s8[64])")).flops == 2 * 4 * 5 * 6
    assert cost(_call("__cublas$gemm", config.replace("1", "9"))).unknown_instructions == 1
    convolution = """HloModule m ENTRY e { a = f32[2,9,9,3] parameter(0) k = f32[3,3,3,8] parameter(1)
      ROOT r = (f32[2,7,7,8], u8[0]) custom-call(a, k), custom_call_target="__cudnn$convForward", window={size=3x3}, dim_labels=b01f_01io->b01f }"""
    assert cost(convolution).flops == 42336


@pytest.mark.parametrize("target", ["AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound", "X64SplitLow"])
def test_marks_of_compilers_calculate_nothing(target: str) -> None:
    counted = cost(_call(target), target="tpu-v5e")
    assert counted.flops == 0 and counted.unknown_instructions == 0 and counted.least_time is not None


def test_a_stated_number_that_fits_no_int64() -> None:
    with pytest.raises(SizeOverflowError):
        cost(_call("mine", '{"cost_estimate":{"flops":9999999999999999999}}'))


# -- three generations of TPUs ------------------------------------------------------------------


@pytest.mark.parametrize("row", GENERATIONS, ids=lambda row: f"{row['target']}-{row['name']}")
def test_programs_of_three_generations_of_tpus(row: dict[str, Any]) -> None:
    as_xla, counted = cost(row["hlo"], as_xla=True), cost(row["hlo"], target=row["target"])
    # libtpu adds up in single precision.
    (flops,), (transcendentals,) = [
        struct.unpack("f", struct.pack("f", each)) for each in (as_xla.flops, as_xla.transcendentals)
    ]
    assert [flops, transcendentals] == row["cost"][:2]
    loops = [each for each in counted.module.instructions() if each.opcode == Opcode.WHILE]
    trips = [trip_count(each, each.called_computations[0], each.called_computations[1]) for each in loops]
    assert row["trips"] in (None, trips) and counted.unknown_loops == 0
    assert (counted.least_time is None) == (row["name"] == "kernel_without_cost") == bool(counted.unknown_instructions)
    opcodes = {each.opcode for each in counted.module.instructions()}
    if opcodes.isdisjoint({Opcode.WHILE, Opcode.REDUCE_WINDOW, Opcode.REDUCE_SCATTER}):
        assert struct.unpack("f", struct.pack("f", counted.flops)) == (row["cost"][0],)
    elif Opcode.REDUCE_WINDOW in opcodes and not loops:  # XLA counts rows + n - 1 for rows · (n - 1)
        assert row["cost"][0] < counted.flops < 1.3 * row["cost"][0]


TE_ATTENTION = "{attn_heads = 8 : i64, bias_batch = 0 : i64, head_dim = 64 : i64, input_batch = 2 : i64, kv_max_seqlen = 512 : i64, q_max_seqlen = 128 : i64}"


@pytest.mark.parametrize(
    ("target", "config", "operands", "result", "flops"),
    [
        ("te_gemm_ffi", "", "bf16[3,4,8] f32[1] bf16[8,5] f32[1]", "(bf16[3,4,5], bf16[0])", 2 * 12 * 5 * 8),
        ("te_gemm_ffi", "", "bf16[8,12] f32[1] bf16[5,8] f32[1]", "(bf16[12,5])", 2 * 12 * 5 * 8),
        ("te_gemm_ffi", "", "bf16[4,3,8] f32[1] bf16[4,8,5] f32[1]", "(bf16[4,3,5])", None),  # in batches
        ("te_gemm_ffi", "", "bf16[3,8] f32[1] bf16[9,5] f32[1]", "(bf16[3,5])", None),
        ("te_gemm_ffi", "", "bf16[3,8]", "bf16[3,5]", None),
        (
            "te_fused_attn_forward_ffi",
            TE_ATTENTION,
            "bf16[2,128,8,64] bf16[2,512,8,64]",
            "(bf16[2,128,8,64])",
            2 * 2 * 8 * 128 * 512 * 128,
        ),
        (
            "te_fused_attn_backward_ffi",
            TE_ATTENTION,
            "bf16[2,128,8,64] bf16[2,512,8,64]",
            "(bf16[2,128,8,64])",
            2 * 2 * 8 * 128 * 512 * 320,
        ),
        (
            "te_fused_attn_forward_ffi",
            "{attn_heads = 8 : i64}",
            "bf16[2,128,8,64] bf16[2,512,8,64]",
            "(bf16[2,128,8,64])",
            None,
        ),
    ],
)
def test_calls_of_transformer_engine(target: str, config: str, operands: str, result: str, flops: int | None) -> None:
    found = cost(_call(target, config, operands=operands, result=result)).rows[0]
    assert found.flops == flops


def test_a_model_of_the_user_comes_before_what_a_kernel_states() -> None:
    text = _call("mine", '{"cost_estimate":{"flops":7}}')
    assert cost(text).flops == 7
    MODELS["mine"] = lambda call: Arithmetic(call.shape.dimensions[0], 3)
    try:
        found = cost(text)
        assert (found.flops, found.transcendentals, found.stated_instructions) == (4, 3, 0)
        MODELS["mine"] = lambda call: None
        assert (cost(text).rows[0].flops, cost(text, target="h100").rows[0].bound) == (None, None)
    finally:
        del MODELS["mine"]


# -- blocks of Pallas kernels -----------------------------------------------------------------

BLOCKS = [
    json.loads(line)
    for line in lzma.decompress((VECTORS.parents[1] / "pallas_blocks.jsonl.xz").read_bytes()).splitlines()
]
"""Kernels that jax 0.12.0.1 lowered, and the blocks and scratch arrays that they ask for."""
KERNELS = [
    json.loads(line)
    for line in lzma.decompress((VECTORS.parents[1] / "pallas_kernels.jsonl.xz").read_bytes()).splitlines()
]
"""More of them: the bytes that each operand with blocks and each result moves, counted by calling the index maps in
Python for every step of the grid, null where they read data or the kernel copies the array itself; and two limits of
VMEM, of which libtpu 0.0.52 refuses the kernel under the first and compiles it under the second, for a v5e."""
WITH_INTERMEDIATES = {
    "matmul", "matmul_columns_first", "matmul_whole_k", "flash", "flash_grouped_queries", "flash_causal", "flash_window",
    "norm", "two_outputs",
}  # fmt: skip
"""Those for whose intermediate values the compiler takes VMEM too."""


def _kernel(text: str) -> Any:
    return next(row for row in cost(text) if row.opcode == "custom-call")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_blocks_that_a_kernel_holds(number: int) -> None:
    given = BLOCKS[number]
    row = _kernel(given["text"])
    assert list(row.blocks) == given["blocks"] + given["scratch"]


@pytest.mark.parametrize("given", KERNELS, ids=lambda given: given["name"])
def test_a_kernel_moves_a_block_again_when_its_index_changes(given: dict[str, Any]) -> None:
    counted = cost(given["text"])
    moved, row = given["moved"], _kernel(given["text"])
    if None in moved:
        assert "What 1 kernel of Pallas copies is known in part only." in counted.headline()
        return
    assert "known in part" not in counted.headline()
    prefetched = 32 if given["name"] == "prefetch_unused" else 0
    assert row.bytes == sum(moved) + prefetched
    assert row.bytes_written == sum(moved[-2:] if given["name"] == "two_outputs" else moved[-1:])


@pytest.mark.parametrize("given", KERNELS, ids=lambda given: given["name"])
def test_the_compiler_needs_the_blocks(given: dict[str, Any]) -> None:
    said = _kernel(given["text"]).block_bytes
    refused, compiled = given["needed"]
    if given["name"] == "narrow":  # its arrays lie in VMEM as a whole
        assert not refused
    elif given["name"] in WITH_INTERMEDIATES:
        assert said < refused < 1.3 * said
    else:
        assert refused < said <= compiled


def test_the_grid_of_a_kernel() -> None:
    grids = {given["name"]: _kernel(given["text"]).grid for given in KERNELS}
    assert [grids[name] for name in ("matmul", "flash", "norm", "no_grid")] == [(4, 4, 4), (16, 8, 8), (16,), ()]


@pytest.mark.parametrize("given", KERNELS, ids=lambda given: given["name"])
def test_a_kernel_takes_at_least_the_time_of_its_bytes_and_of_what_it_calculates(given: dict[str, Any]) -> None:
    row = next(row for row in cost(given["text"], target="tpu-v5e") if row.opcode == "custom-call")
    assert row.basis == "counted"
    moving = row.padded_bytes / 819e9
    assert row.least_time == pytest.approx(max(moving, row.flops / 197e12), rel=0.01)
    assert row.bound == ("compute" if row.flops / 197e12 > moving else "memory")


PER_ELEMENT = {"elementwise": (4 << 20, 0), "edge": (1 << 20, 0), "prefetch": (0, 0), "own_copies": (0, 0)}
PRODUCTS = {"matmul": 2 * 2048**3, "matmul_columns_first": 2 * 2048**3, "matmul_whole_k": 2 * 2048**3}


@pytest.mark.parametrize("name", [*PER_ELEMENT, *PRODUCTS])
def test_what_a_kernel_calculates(name: str) -> None:
    """Beside a product, a kernel adds up parts and rounds the sum: 1 an element of the result for each step of the grid
    along the dimension that is added up, and 1."""
    (text,) = [given["text"] for given in KERNELS if given["name"] == name]
    row = _kernel(text)
    if name in PER_ELEMENT:
        assert (row.flops, row.transcendentals) == PER_ELEMENT[name]
    else:
        assert row.flops == PRODUCTS[name] + 2048**2 * (row.grid[2] + 1)


def test_a_kernel_of_which_it_is_not_known_takes_at_least_the_time_of_its_bytes() -> None:
    """An operation that is not known is put in the place of one that is; its name has as many letters."""
    (text,) = [given["text"] for given in KERNELS if given["name"] == "elementwise"]
    body = re.search(r'"body": ?"([^"]*)"', text)
    assert body is not None
    data = base64.b64decode(body[1])
    assert data.count(b"addf") == 1
    unknown = cost(text.replace(body[1], base64.b64encode(data.replace(b"addf", b"zzzz")).decode()), target="tpu-v5e")
    row = unknown[0]
    assert row.flops == 4 << 20  # all of `arith` count 1 an element
    unknown = cost(text.replace(body[1], base64.b64encode(data.replace(b"arith", b"other")).decode()), target="tpu-v5e")
    row = unknown[0]
    assert (row.flops, row.bound) == (None, None)
    assert row.least_time == pytest.approx(row.padded_bytes / 819e9, rel=0.01)
    assert unknown.least_time == row.least_time
    assert "they count 0, also in the least time" in unknown.headline()


def test_what_a_kernel_states_counts_where_its_index_maps_do_not_say_it() -> None:
    by_name = {given["name"]: given["text"] for given in KERNELS}
    stated = r'"custom_call_config": {"cost_estimate":{"flops":5,"transcendentals":0,"bytes_accessed":77}, '
    for name, count in (("prefetch", 77), ("elementwise", 32 << 20)):
        text, changed = re.subn('"custom_call_config": ?{', lambda _: stated, by_name[name])
        assert changed == 1
        assert _kernel(text).bytes == count


def test_bytecode_that_is_damaged_says_nothing_and_ends() -> None:
    text = BLOCKS[0]["text"]
    body = re.search(r'"body": ?"([^"]*)"', text)
    assert body is not None
    data = base64.b64decode(body[1])
    draw = random.Random(3)
    silent = 0
    for _ in range(400):
        damaged = bytearray(data[: draw.randrange(len(data) + 1)] if draw.random() < 0.5 else data)
        for _ in range(draw.randrange(1, 4)):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.choice([0, 1, 2, 0xFF, draw.randrange(256)])
        row = _kernel(text.replace(body[1], base64.b64encode(bytes(damaged)).decode()))
        silent += not row.blocks
    assert silent > 100
    assert _kernel(text.replace(body[1], "no base64")).blocks == ()
    assert _kernel(text.replace(body[1], "")).block_bytes is None
