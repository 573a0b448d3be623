"""FLOPs and bytes of programs: XLA's own numbers where they are to be the same, brute force and hand-made modules where
they are not."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from itertools import product as pairs_of
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlashape as xs
from xlashape.errors import InvalidArgumentError, InvalidModuleError, SizeOverflowError
from xlashape.hlo import Opcode
from xlashape.hlo.flow import executed_computations
from xlashape.indexing.reports.utilisation import operand_utilisation
from xlashape.proto import xla
from xlashape.reports.cost import CHIPS, Cost, cost
from xlashape.reports.cost.arithmetic import COUNTED, valid_positions
from xlashape.reports.cost.traffic import traffic_of
from xlashape.shape.parts.target import TARGETS

VECTORS = Path(__file__).resolve().parents[3] / "vectors"


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.open(VECTORS / "costs" / name, "rt")]


INSTRUCTIONS = _rows("instructions.jsonl.gz")
PROGRAMS = _rows("programs.jsonl.gz")
TPU_PROGRAMS = _rows("tpu_programs.jsonl.gz")

# Programs whose FLOPs differ from XLA's, with the reason; loops count once with XLA.
OTHER_FLOPS = {
    **dict.fromkeys(
        (*("searchsorted", "scan", "scan_grad", "lstm", "fori_loop", "nested_loops", "map", "normal", "dropout"),),
        "loop",
    ),
    **dict.fromkeys(("top_k", "cholesky", "solve_triangular"), "custom-call"),
}


def _as_xla(text: str) -> list[int]:
    counted = cost(text, as_xla=True)
    return [counted.flops, counted.transcendentals, counted.bytes]


@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row["name"])
def test_instructions_as_xla_counts_them(row: dict[str, Any]):
    assert _as_xla(row["hlo"]) == row["cost"]


def test_single_operations_as_xla_counts_them():
    costs = json.loads((VECTORS / "costs" / "indexing.json").read_text())
    with (VECTORS / "indexing.jsonl").open() as lines:
        for line, expected in zip(lines, costs, strict=True):
            text = json.loads(line)["hlo"]
            # XLA adds up in single precision.
            assert _as_xla(text) == pytest.approx(expected, rel=2**-24), text


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row["name"])
def test_programs_as_xla_counts_them(row: dict[str, Any]):
    assert _as_xla(row["hlo"]) == row["cost"]


@pytest.mark.parametrize("row", TPU_PROGRAMS, ids=lambda row: row["name"])
def test_programs_as_libtpu_counts_them(row: dict[str, Any]):
    counted = cost(row["hlo"], as_xla=True)
    assert [counted.flops, counted.transcendentals] == row["cost"][:2]
    executed = [each for one in executed_computations(counted.module) for each in one.instructions]
    opcodes = {each.opcode for one in counted.module.computations for each in one.instructions}
    if {Opcode.CONDITIONAL, Opcode.GATHER, Opcode.SCATTER}.isdisjoint(opcodes):
        # On TPUs a table of a tuple has 512 bytes and not 4 for each element, the context of a copy 4,096 and not 4.
        tables = sum(512 - 4 * len(each.operands) for each in executed if each.opcode == Opcode.TUPLE)
        copies = sum(512 - 4 * 3 + 4096 - 4 for each in executed if each.opcode == Opcode.COPY_START)
        assert counted.bytes + tables + copies == row["cost"][2]


@pytest.mark.parametrize("row", TPU_PROGRAMS, ids=lambda row: row["name"])
def test_flops_on_tpus_differ_for_a_known_reason_alone(row: dict[str, Any]):
    counted = cost(row["hlo"])
    opcodes = {each.opcode for one in counted.module.computations for each in one.instructions}
    if Opcode.WHILE in opcodes:
        assert counted.flops >= row["cost"][0] and counted.transcendentals >= row["cost"][1]
    elif Opcode.GATHER in opcodes:  # a fusion of kind kCustom is counted as its gather
        assert counted.flops >= row["cost"][0] and counted.transcendentals == row["cost"][1]
    else:
        calls = [
            each
            for one in executed_computations(counted.module)
            for each in one.instructions
            if each.opcode == Opcode.CUSTOM_CALL
        ]
        unknown = sum(each.details.custom_call_target != "AllocateBuffer" for each in calls)  # -1 each
        assert [counted.flops - unknown, counted.transcendentals] == row["cost"][:2]


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row["name"])
def test_flops_differ_for_a_known_reason_alone(row: dict[str, Any]):
    counted = cost(row["hlo"])
    flops, transcendentals, _ = row["cost"]
    reason = OTHER_FLOPS.get(row["name"])
    opcodes = {instruction.opcode for instruction in counted.module.instructions()}
    if reason is None:
        # What is known of a loop whose length is not is one iteration, as with XLA.
        assert counted.flops == flops
        assert counted.transcendentals == transcendentals
    elif reason == "loop":
        assert Opcode.WHILE in opcodes and counted.unknown_loops == 0
        assert counted.flops >= flops
    else:
        assert Opcode.CUSTOM_CALL in opcodes and counted.unknown_instructions == 1 and not counted.is_exact
        assert counted.flops == flops + 1


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row["name"])
def test_sums_are_those_of_the_rows(row: dict[str, Any]):
    counted = cost(row["hlo"], target="h100")
    for name in ("bytes", "bytes_read", "bytes_written", "padded_bytes"):
        assert getattr(counted, name) == sum(getattr(each, name) * each.times for each in counted)
    assert counted.flops == sum((each.flops or 0) * each.times for each in counted)
    transcendentals = sum(each.transcendentals * each.times for each in counted)
    seconds = sum((each.least_time or 0.0) * each.times for each in counted)
    if counted.conditionals:  # these two have branches of their own
        assert counted.transcendentals >= transcendentals
        assert (counted.least_time or 0.0) <= seconds * (1 + 1e-12)
    else:
        assert counted.transcendentals == transcendentals
        assert counted.least_time == (None if counted.unknown_instructions else pytest.approx(seconds))
    shares = [each.share for each in counted if each.share is not None]
    assert sum(shares) == pytest.approx(1) if shares else counted.unknown_instructions
    assert sum(group.bytes for group in counted.by("opcode")) == counted.bytes
    assert sum(space.padded_bytes for space in counted.spaces) == counted.padded_bytes


def test_fusions_read_what_their_maps_need():
    """The bytes read are no fewer than the distinct elements that the fusion's indexing maps reach, and no more than
    the operands have."""
    compared = 0
    for row in PROGRAMS:
        for instruction in xs.HloModule.parse(row["hlo"]).instructions():
            if instruction.opcode != Opcode.FUSION or not instruction.shape.is_array:
                continue
            inner = instruction.called_computations[0]
            if any(each.opcode in (Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER) for each in inner.instructions):
                continue  # in place
            read = traffic_of(instruction).bytes_read
            shapes = {operand: operand.shape for operand in instruction.operands}
            whole = sum(xs.shape_util.byte_size_of(shape) for shape in shapes.values())
            distinct: dict[Any, int] = {}
            for operand, use in zip(instruction.operands, operand_utilisation(instruction), strict=True):
                width = xs.shape_util.byte_size_of_primitive_type(operand.shape.element_type)
                distinct[operand] = max(distinct.get(operand, 0), (use.distinct or 0) * width)
            assert sum(distinct.values()) <= read <= whole, (row["name"], instruction.name)
            compared += 1
    assert compared > 100


# -- loops, branches, calls -----------------------------------------------------------------

LOOPS = """HloModule loops
inner_body { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1) n = s32[] add(i, one) y = f32[8] add(x, x) ROOT t = (s32[], f32[8]) tuple(n, y) }
inner_cond { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 five = s32[] constant(5)
  ROOT c = pred[] compare(i, five), direction=LT }
body { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1) n = s32[] add(i, one) zero = s32[] constant(0) s = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(s), condition=inner_cond, body=inner_body y = f32[8] get-tuple-element(w), index=1
  ROOT t = (s32[], f32[8]) tuple(n, y) }
cond { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT }
ENTRY e { x = f32[8] parameter(0) START s = (s32[], f32[8]) tuple(zero, x)
  ROOT w = (s32[], f32[8]) while(s), condition=cond, body=body }"""


def test_nested_loops_count_their_iterations():
    counted = cost(LOOPS.replace("START", "zero = s32[] constant(0)"))
    times = {(each.computation, each.opcode): each.times for each in counted}
    # Conditions run once more than bodies.
    assert times["inner_body", "add"] == 15 and times["inner_cond", "compare"] == 18
    assert times["body", "add"] == 3 and times["cond", "compare"] == 4
    assert counted.flops == 15 * (1 + 8) + 18 + 3 + 4
    assert counted.is_exact and counted.unknown_loops == 0


def test_a_loop_of_unknown_length_counts_once_and_is_marked():
    text = LOOPS.replace("START", "zero = s32[] parameter(1)")
    counted = cost(text)
    assert counted.unknown_loops == 1 and not counted.is_exact
    assert {each.computation: each.is_exact for each in counted}["inner_body"] is False
    assert counted.flops == 5 * 9 + 6 + 1 + 1
    assert "It is not known how often the loop w.1 runs" in str(counted)


BRANCHES = """HloModule branches
small { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
large { p = f32[4] parameter(0) q = f32[4] exponential(p) ROOT n = f32[4] add(q, p) }
ENTRY e { c = pred[] parameter(0) x = f32[4] parameter(1)
  ROOT r = f32[4] conditional(c, x, x), true_computation=small, false_computation=large }"""


def test_the_branch_with_the_most_flops_counts_in_rows_and_the_quickest_in_the_least_time():
    counted = cost(BRANCHES, peak=1e9, bandwidth=1e9)
    assert (counted.flops, counted.transcendentals, counted.bytes) == (4, 4, 32 + 48)
    assert counted.conditionals == 1 and not counted.is_exact
    assert counted.least_time == pytest.approx(32e-9)
    assert {each.computation: each.times for each in counted} == {"small": 0, "large": 1}
    assert "the branch with the most FLOPs counts, in the least time the quickest." in str(counted)


NESTED_BRANCHES = """HloModule nested
a { p = f32[64] parameter(0) ROOT n = f32[64] negate(p) }
b { p = f32[64] parameter(0) q = f32[64] exponential(p) ROOT n = f32[64] tanh(q) }
d { p = f32[64] parameter(0) q = f32[64] sine(p) r = f32[64] add(q, p) ROOT n = f32[64] multiply(r, r) }
inner { t = (pred[], f32[64]) parameter(0) c = pred[] get-tuple-element(t), index=0 p = f32[64] get-tuple-element(t), index=1
  ROOT r = f32[64] CHOICE0 }
body { t = (s32[], s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(t), index=0
  k = s32[] get-tuple-element(t), index=1 p = f32[64] get-tuple-element(t), index=2 one = s32[] constant(1)
  n = s32[] add(i, one) q = f32[64] CHOICE1 ROOT u = (s32[], s32[], f32[64]) tuple(n, k, q) }
test { t = (s32[], s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(t), index=0 five = s32[] constant(5)
  ROOT c = pred[] compare(i, five), direction=LT }
ENTRY e { k = s32[] parameter(0) c = pred[] parameter(1) x = f32[64] parameter(2) zero = s32[] constant(0)
  s = (s32[], s32[], f32[64]) tuple(zero, k, x) w = (s32[], s32[], f32[64]) while(s), condition=test, body=body
  y = f32[64] get-tuple-element(w), index=2 t = (pred[], f32[64]) tuple(c, y) z = f32[64] copy(y)
  ROOT r = f32[64] CHOICE2 }"""
CHOICES = (
    ("conditional(c, p, p), true_computation=a, false_computation=b", "a b", "call(p), to_apply="),
    ("conditional(k, p, p, p), branch_computations={a, b, d}", "a b d", "call(p), to_apply="),
    ("conditional(c, t, z), true_computation=inner, false_computation=d", "inner d", "call(OPERAND), to_apply="),
)
"""Conditionals, their branches, and what the text has where a branch is certain."""


def test_sums_with_branches_hold_for_every_run():
    def text(choices: Sequence[str]) -> str:
        made = NESTED_BRANCHES
        for number, choice in enumerate(choices):
            made = made.replace(f"CHOICE{number}", choice)
        return made

    whole = cost(text([choice for choice, _, _ in CHOICES]), peak=1e12, bandwidth=1e9)
    runs: list[Cost] = []
    for branches in pairs_of(*[names.split() for _, names, _ in CHOICES]):
        calls = [call + branch for (_, _, call), branch in zip(CHOICES, branches, strict=True)]
        calls[2] = calls[2].replace("OPERAND", "t" if branches[2] == "inner" else "z")
        runs.append(cost(text(calls), peak=1e12, bandwidth=1e9))
    assert len(runs) == 12 and whole.conditionals == 3
    assert whole.flops == max(run.flops for run in runs)
    assert whole.transcendentals == max(run.transcendentals for run in runs)
    assert (whole.flops, whole.bytes) in [(run.flops, run.bytes) for run in runs]
    assert whole.least_time == pytest.approx(min(run.least_time or 0.0 for run in runs))


def test_calls_are_counted_where_they_lead():
    text = """HloModule m
    f { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
    ENTRY e { x = f32[4] parameter(0) y = f32[4] call(x), to_apply=f ROOT z = f32[4] call(y), to_apply=f }"""
    counted = cost(text)
    assert [(each.name, each.times, each.flops) for each in counted] == [("n", 2, 4)]
    assert (counted.flops, counted.bytes) == (8, 64)


# -- bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "read", "written"),
    [
        ("ROOT r = f32[8,6] add(a, a)", 192, 192),
        ("ROOT r = f32[2,6] slice(a), slice={[0:2], [0:6]}", 48, 48),
        ("ROOT r = f32[2,6] dynamic-slice(a, i, i), dynamic_slice_sizes={2,6}", 48 + 4, 48),
        ("ROOT r = f32[8,6] dynamic-update-slice(a, u, i, i)", 48 + 4, 48),
        ("ROOT r = f32[8,9,6] broadcast(a), dimensions={0,2}", 192, 1728),
        ("ROOT r = (f32[8,6], s32[]) tuple(a, i)", 0, 0),
        ("ROOT r = f32[48] bitcast(a)", 0, 0),
        ("s = (f32[8,6], f32[8,6], u32[]) copy-start(a) ROOT d = f32[8,6] copy-done(s)", 192, 192),
        ("ROOT r = f32[8,6] copy(a)", 192, 192),
        ("ROOT r = f32[8,6] iota(), iota_dimension=0", 0, 192),
        ("ROOT r = f32[8,6]{1,0} custom-call(a), custom_call_target=\"x\"", 192, 192),
        ("ROOT r = f32[8,6]{1,0} custom-call(a), custom_call_target=\"ConcatBitcast\"", 0, 0),
    ],
)  # fmt: skip
def test_bytes_of_operations(body: str, read: int, written: int):
    text = (
        f"HloModule m ENTRY e {{ a = f32[8,6] parameter(0) i = s32[] parameter(1) u = f32[2,6] parameter(2) {body} }}"
    )
    counted = cost(text)
    assert (counted.bytes_read, counted.bytes_written) == (read, written)


def _fused(inner: str, result: str) -> Cost:
    parameters = "a = f32[8,6] parameter(0) u = f32[2,6] parameter(1) i = s32[] parameter(2)"
    return cost(
        "HloModule m sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }"
        f" f {{ {parameters} {inner} }} ENTRY e "
        f"{{ {parameters} ROOT r = {result} fusion(a, u, i), kind=kLoop, calls=f }}"
    )


@pytest.mark.parametrize(
    ("inner", "result", "read", "written"),
    [
        ("n = f32[8,6] negate(a) ROOT s = f32[2,6] slice(n), slice={[0:2], [0:6]}", "f32[2,6]", 48, 48),
        ("b = f32[48] bitcast(a) ROOT s = f32[6] slice(b), slice={[1:7]}", "f32[6]", 24, 24),
        ("t = f32[6,8] transpose(a), dimensions={1,0} ROOT s = f32[1,8] slice(t), slice={[0:1], [0:8]}", "f32[1,8]", 32, 32),
        ("ROOT d = f32[8,6] dynamic-update-slice(a, u, i, i)", "f32[8,6]", 48 + 4, 48),
        ("b = f32[48] bitcast(a) v = f32[12] bitcast(u) d = f32[48] dynamic-update-slice(b, v, i) ROOT r = f32[8,6] bitcast(d)", "f32[8,6]", 52, 48),
        ("s = f32[2,6] dynamic-slice(a, i, i), dynamic_slice_sizes={2,6} n = f32[2,6] add(s, u)"
         " ROOT d = f32[8,6] dynamic-update-slice(a, n, i, i)", "f32[8,6]", 48 + 48 + 4, 48),
        ("x = f32[7,6] slice(a), slice={[0:7], [0:6]} y = f32[7,6] slice(a), slice={[1:8], [0:6]} ROOT d = f32[7,6] "
        "subtract(x, y)",
         "f32[7,6]", 192, 168),
        ("j = s32[2,1] broadcast(i), dimensions={} ROOT c = f32[8,6] scatter(a, j, u), update_window_dims={1}, "
        "inserted_window_dims={0},"
         " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum", "f32[8,6]", 48 + 48 + 4, 48),
        ("ROOT n = f32[2,6] negate(u)", "f32[2,6]", 48, 48),
        ("k = f32[2,6] constant({...}) ROOT n = f32[2,6] add(u, k)", "f32[2,6]", 48, 48),
    ],
)  # fmt: skip
def test_bytes_of_fusions(inner: str, result: str, read: int, written: int):
    counted = _fused(inner, result)
    assert (counted.bytes_read, counted.bytes_written) == (read, written)


def test_an_asynchronous_copy_writes_into_the_memory_space_of_its_result():
    text = """HloModule m ENTRY e { a = f32[4,6] parameter(0)
      s = (f32[4,6]{1,0:S(1)}, f32[4,6], u32[]{:S(2)}) copy-start(a) ROOT d = f32[4,6]{1,0:S(1)} copy-done(s) }"""
    assert [tuple(space) for space in cost(text).spaces] == [(0, 96, 0, 96), (1, 0, 96, 96)]


def test_transfers_run_beside_the_instructions_after_them_and_use_the_same_memory():
    text = """HloModule m ENTRY e { a = f32[1024] parameter(0) k = token[] after-all()
      s = (f32[1024], u32[], token[]) send(a, k), channel_id=1 r = (f32[1024], u32[], token[]) recv(k), channel_id=2
      x = token[] send-done(s), channel_id=1 y = (f32[1024], token[]) recv-done(r), channel_id=2
      ROOT n = f32[1024] negate(a) }"""
    counted = cost(text, peak=1e12, bandwidth=1e12)
    assert (counted.bytes_read, counted.bytes_written) == (2 * 4096, 2 * 4096)
    assert counted.least_time == pytest.approx(4 * 4096 / 1e12)
    slow = cost(text, peak=1e9, bandwidth=1e12)
    assert slow.least_time == pytest.approx(1024 / 1e9)


def test_padding_and_memory_spaces():
    text = """HloModule m ENTRY e { a = f32[4,6]{1,0:T(8,128)} parameter(0)
      n = f32[4,6]{1,0:T(8,128)S(1)} negate(a) ROOT r = f32[4,6]{1,0:T(8,128)} negate(n) }"""
    counted = cost(text, peak=1e12, bandwidth=1e12)
    assert (counted.bytes, counted.padded_bytes) == (4 * 96, 4 * 4096)
    assert [tuple(space) for space in counted.spaces] == [(0, 96, 96, 8192), (1, 96, 96, 8192)]
    assert counted[0].spaces[1] == 96
    # Only main memory is as slow as the bandwidth says.
    assert counted.least_time == pytest.approx(8192e-12)


# -- the roof -------------------------------------------------------------------------------

MATMUL = """HloModule m ENTRY e { a = TYPE[1024,4096] parameter(0) b = TYPE[4096,2048] parameter(1)
  ROOT d = TYPE[1024,2048] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


@pytest.mark.parametrize(
    ("kind", "peak"), [("bf16", 989.4e12), ("f32", 494.7e12), ("f8e4m3fn", 1978.9e12), ("f64", 67e12)]
)
def test_a_large_product_is_bound_by_its_type_s_peak(kind: str, peak: float):
    counted = cost(MATMUL.replace("TYPE", kind), target="h100")
    (row,) = counted
    assert row.bound == "compute" and row.flops == 2 * 1024 * 2048 * 4096
    assert row.least_time == pytest.approx(row.flops / peak) and row.intensity == pytest.approx(row.flops / row.bytes)


def test_fused_products_run_in_matrix_units_and_the_rest_beside_them():
    text = """HloModule m
    f { a = bf16[512,512] parameter(0) b = bf16[512,512] parameter(1)
      d = bf16[512,512] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT n = bf16[512,512] negate(d) }
    ENTRY e { a = bf16[512,512] parameter(0) b = bf16[512,512] parameter(1)
      ROOT r = bf16[512,512] fusion(a, b), kind=kOutput, calls=f }"""
    (row,) = cost(text, target="h100")
    assert row.least_time == pytest.approx(max(2 * 512**3 / 989.4e12, 512**2 / 66.9e12, 3 * 512 * 512 * 2 / 3.35e12))


def test_own_peaks_and_wrong_ones():
    (row,) = cost(MATMUL.replace("TYPE", "f32"), peak=1e9, bandwidth=1e30)
    assert row.least_time == pytest.approx(2 * 1024 * 2048 * 4096 / 1e9)
    with pytest.raises(InvalidArgumentError, match="bandwidth is given alone: pass peak and bandwidth, or a target"):
        cost(BRANCHES, bandwidth=1.0)
    with pytest.raises(InvalidArgumentError, match="peak takes a positive finite number, not nan"):
        cost(BRANCHES, peak=float("nan"), bandwidth=1.0)
    with pytest.raises(InvalidArgumentError, match="no target is called 'h101'.*did you mean 'h100'"):
        cost(BRANCHES, target="h101")


def test_a_device_of_tpu_7x_is_half_of_a_chip():
    """Google publishes 4,614 TFLOP/s (f8), 2,307 TFLOP/s (bf16) and 7,380 GB/s of a chip, which is two devices."""
    device = CHIPS["tpu-7x"]
    assert [2 * device.peak(kind, is_matrix=True) for kind in ("f8", "bf16")] == [4614e12, 2307e12]
    assert 2 * device.bandwidth == 7380e9


def test_a_generation_of_tpus_has_the_names_that_layouts_have():
    layouts = {name for name, target in TARGETS.items() if target.generation}
    assert {name for name in CHIPS if name.startswith("tpu")} == layouts


def test_every_chip_is_complete():
    for chip in CHIPS.values():
        assert chip.source and chip.bandwidth > 1e11
        for kind, is_matrix in pairs_of(("f64", "f32", "bf16", "f8", "f4", "s8", "s4"), (True, False)):
            assert chip.peak(kind, is_matrix=is_matrix) > 1e13


# -- counting -------------------------------------------------------------------------------


@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), st.integers(1, 4), st.integers(-4, 8), st.integers(1, 4), st.integers(1, 4)
)  # fmt: skip
def test_valid_positions(size: int, outputs: int, window: int, stride: int, pad: int, dilation: int, base: int):
    holes = xla.WindowDimension(
        size=window, stride=stride, padding_low=pad, window_dilation=dilation, base_dilation=base
    )
    read = [output * stride + place * dilation - pad for output in range(outputs) for place in range(window)]
    expected = sum(0 <= index <= (size - 1) * base and index % base == 0 for index in read)
    assert valid_positions(size, outputs, holes) == expected


# -- bad input ------------------------------------------------------------------------------


def test_attributes_that_do_not_fit_the_shapes():
    module = xs.HloModule.parse(MATMUL.replace("TYPE", "f32")).to_proto()
    (dot,) = [each for each in module.computations[0].instructions if each.opcode == "dot"]
    dot.dot_dimension_numbers.lhs_contracting_dimensions[0] = 7
    with pytest.raises(
        InvalidModuleError, match=r"instruction 'd' \(dot\) has operands or attributes that do not fit its shape"
    ):
        cost(module)
    with pytest.raises(
        InvalidArgumentError,
        match="expected one of source, op_name, opcode, computation, layer, each_layer, found 'line'",
    ):
        cost(BRANCHES).by("line")


def test_deep_calls_and_fusions_that_double():
    calls = "".join(
        f"level{depth} {{ p = f32[4] parameter(0) ROOT c = f32[4] call(p), to_apply=level{depth - 1} }}\n"
        for depth in range(1, 3000)
    )
    text = f"HloModule m\nlevel0 {{ p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }}\n{calls}"
    assert cost(text + "ENTRY e { p = f32[4] parameter(0) ROOT c = f32[4] call(p), to_apply=level2999 }").flops == 4
    doubled = "".join(
        f"""level{depth} {{ p = f32[4] parameter(0) x = f32[4] fusion(p), kind=kLoop, calls=level{depth - 1}
        y = f32[4] fusion(p), kind=kLoop, calls=level{depth - 1} ROOT c = f32[4] add(x, y) }}\n"""
        for depth in range(1, 50)
    )
    text = f"HloModule m\nlevel0 {{ p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }}\n{doubled}"
    text += "ENTRY e { p = f32[4] parameter(0) ROOT c = f32[4] fusion(p), kind=kLoop, calls=level49 }"
    counted = cost(text, target="h100")
    assert counted.flops == 4 * (2**50 - 1) and counted.bytes == 32
    assert cost(text, as_xla=True).bytes == 16 * 2**49 + 16


@pytest.mark.parametrize("callee", ["call(x), to_apply={0}", "while(x), condition={0}, body={0}, {1}"])
def test_calls_that_multiply_beyond_128_bits_are_refused(callee: str):
    trips = 'backend_config={"known_trip_count":{"n":"9223372036854775807"}}'
    levels = "".join(
        f"level{depth} {{ x = f32[4] parameter(0) c = f32[4] {call} ROOT d = f32[4] {call} }}\n"
        for depth in range(1, 1200)
        for call in [callee.format(f"level{depth - 1}", trips)]
    )
    text = f"HloModule m\nlevel0 {{ x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }}\n{levels}"
    text += f"ENTRY e {{ x = f32[4] parameter(0) ROOT c = f32[4] {callee.format('level1199', trips)} }}"
    for as_xla in (False, True):
        with pytest.raises(
            SizeOverflowError, match=r"computation 'level\d+': how often it runs, .* more than 128 bits"
        ):
            cost(text, as_xla=as_xla)
    with pytest.raises(SizeOverflowError, match="more than 128 bits"):
        xs.reads(text, target="gpu")


def test_the_first_lines_have_what_matters():
    text = "HloModule m ENTRY e { p = f32[64,128] parameter(0) ROOT n = f32[64,128] negate(p) }"
    assert cost(text).headline().splitlines() == [
        "m: 65,536 bytes (64.00 KiB) read and written in a run",
        "8.192 k FLOPs, 0.125 for each byte",
        "32.0 KiB read, 32.0 KiB written",
        "share: of the bytes read and written",
    ]
    share = cost(text, target="h100").headline().splitlines()[-1]
    assert re.fullmatch(r"share: of all least times, \d[\d.]* [µn]s if nothing overlaps", share)
    assert cost(text, peak=1e12, bandwidth=65_536.0).headline().startswith("m: at least 1 s a run on the device\n")
    assert cost(text, as_xla=True).headline().count("\n") == 2
    nothing = "HloModule m ENTRY e { ROOT p = f32[64] parameter(0) }"
    assert cost(nothing).headline() == "m: 0 bytes read and written in a run"
    padded = text.replace("f32[64,128]", "f32[4,6]{1,0:T(8,128)}")
    assert cost(padded).headline().splitlines()[-2] == "96 B read, 96 B written, 8.00 KiB with padding"


@pytest.mark.parametrize(
    ("result", "ragged", "flops"),
    [
        ("f32[6,4,3]", 0, 2 * 6 * 4 * 5 * 3),  # a batch dimension: JAX computes the dot of all batches
        ("f32[6,4,3]", 1, 2 * 6 * 4 * 5 * 3),
        ("f32[2,6,4,3]", 2, 2 * 6 * 4 * 5 * 3),  # each group adds up a part of the products
    ],
)
def test_ragged_dot_counts_each_product_once(result: str, ragged: int, flops: int):
    rest = f"lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}, lhs_ragged_dims={{{ragged}}}"  # fmt: skip
    text = f"HloModule m ENTRY e {{ p = f32[6,4,5] parameter(0) q = f32[6,5,3] parameter(1) g = s32[2] parameter(2) ROOT r = {result} ragged-dot(p, q, g), {rest} }}"  # fmt: skip
    assert cost(text).flops == flops


def test_a_start_reads_an_operand_once_that_it_takes_twice():
    groups = "replica_groups={{0,1}}, dimensions={0}"
    parameter = "HloModule m, replica_count=2 ENTRY e { p = f32[8] parameter(0)"
    whole = cost(f"{parameter} ROOT r = (f32[16], f32[16]) all-gather(p, p), {groups} }}").rows
    kinds = "((f32[8], f32[8]), (f32[16], f32[16]))"
    parts = cost(
        f"{parameter} s = {kinds} all-gather-start(p, p), {groups} "
        "ROOT r = (f32[16], f32[16]) all-gather-done(s) }"
    ).rows  # fmt: skip
    read, written = [sum(getattr(row, name) or 0 for row in whole) for name in ("bytes_read", "bytes_written")]
    assert (read, written) == (32, 128)
    assert [sum(getattr(row, name) or 0 for row in parts) for name in ("bytes_read", "bytes_written")] == [32, 128]


# Opcodes that calculate nothing of their own: they move data, or name, order and exchange values.
WITHOUT_ARITHMETIC = (
    "add-dependency after-all all-gather all-gather-done all-gather-start all-reduce-done all-to-all async-done "
    "async-update bitcast broadcast collective-broadcast collective-permute collective-permute-done "
    "collective-permute-start collective-reduce concatenate conditional constant copy copy-done copy-start "
    "domain dynamic-reshape dynamic-slice dynamic-update-slice gather get-dimension-size get-tuple-element "
    "infeed iota opt-barrier outfeed pad parameter partition-id ragged-all-to-all recv recv-done replica-id "
    "reshape reverse rng-get-and-update-state send send-done set-dimension-size shuffle slice topk transpose "
    "tuple while"
).split()


def test_what_each_opcode_calculates_is_known():
    missing = set(Opcode) - COUNTED - set(WITHOUT_ARITHMETIC)
    assert missing == set(), (
        "xlashape/reports/cost/arithmetic.py does not count these; list here what calculates nothing"
    )
    assert COUNTED.isdisjoint(WITHOUT_ARITHMETIC)


def test_what_an_unknown_opcode_calculates_is_not_known():
    proto = xs.HloModule.parse("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }").to_proto()
    proto.computations[0].instructions[1].opcode = "frobnicate"
    counted = cost(xs.HloModule.from_proto(proto))
    assert (counted.flops, counted.unknown_instructions) == (0, 1)
    assert not counted.is_exact


def test_bytes_of_main_memory_are_told_where_there_is_another():
    """What stays in the memory of a TPU's core is no traffic of its main memory."""
    text = """HloModule m ENTRY e { p = f32[16,128]{1,0:T(8,128)} parameter(0)
      n = f32[16,128]{1,0:T(8,128)S(1)} negate(p) m = f32[16,128]{1,0:T(8,128)S(1)} multiply(n, n)
      ROOT a = f32[16,128]{1,0:T(8,128)} add(m, n) }"""
    size, found = 16 * 128 * 4, cost(text)
    assert {row.name: row.main_bytes for row in found} == {"n": size, "m": 0, "a": size}
    assert (found.main_bytes, found.padded_bytes) == (2 * size, 7 * size)
    assert found.intensity == found.flops / found.main_bytes and found.rows[-1].name == "m"
    assert {row.name: row.intensity for row in found}["m"] is None
    assert sum(group.main_bytes for group in found.by("opcode")) == found.main_bytes
    plain = cost(text.replace("S(1)", ""))
    assert (plain.main_bytes, {row.main_bytes for row in plain}) == (None, {None})
