"""The report on what instructions read: how reads are classed, what is wasted, the device and its unit, and the faces
of the answer."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from importlib import resources
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command_line
import numpy as np
import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError, LimitExceededError, NotFoundError, ParseError
from xlashape.indexing import module_reads
from xlashape.limits import budget
from xlashape.reports.reads import Reads
from xlashape.reports.reads.units import box_of, units_of, units_of_all
from xlashape.reports.vocabularies import ACCESSES
from xlashape.shape import tiling
from xlashape.symbolic import IndexingMap

VECTORS = Path(__file__).parents[3] / "vectors"
ATTENTION = resources.files("xlashape.data") / "attention.hlo.pb"
ADD = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }"
TEXT = """HloModule m
fused {
  a = f32[64,20] parameter(0)
  t = f32[20,64] transpose(a), dimensions={1,0}
  b = f32[20,64] parameter(1)
  ROOT c = f32[20,64] add(t, b)
}
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY e {
  p = f32[64,20]{1,0:T(8,128)} parameter(0)
  q = f32[20,64]{1,0:T(8,128)} parameter(1)
  whole = f32[7] parameter(2)
  f = f32[20,64]{1,0:T(8,128)} fusion(p, q), kind=kLoop, calls=fused, metadata={op_name="jit(f)/add" source_file="/src/train.py" source_line=73}
  g = (f32[10,64], s32[20,64]) custom-call(f, whole), custom_call_target="x"
  h = f32[10,64] get-tuple-element(g), index=0
  zero = f32[] constant(0)
  ROOT r = f32[10] reduce(h, zero), dimensions={1}, to_apply=sum
}
"""


def of(body: str, **options: object) -> Reads:
    return xs.reads(f"HloModule m\n{ADD}\nENTRY e {{ {body} }}", **{"target": "gpu", **options})


def first(body: str, operand: int = 0, **options: object):
    report = of(body, **options)
    last = xs.HloModule.parse(f"HloModule m\n{ADD}\nENTRY e {{ {body} }}").entry.root.name
    (row,) = [row for row in report if row.instruction == last and row.operand == operand]
    return row


@pytest.mark.parametrize(
    "body",
    [
        "go = (f32[9]{0:S(1)}, f32[9], u32[]{:S(2)}) copy-start(p) ROOT d = f32[9]{0:S(1)} copy-done(go)",
        "go = (f32[9], f32[9], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1}} "
        "ROOT d = f32[9] collective-permute-done(go)",
        "go = (f32[9], f32[18]) all-gather-start(p), dimensions={0}, replica_groups={{0,1}} "
        "ROOT d = f32[18] all-gather-done(go)",
        "go = f32[9] all-reduce-start(p), to_apply=add ROOT d = f32[9] all-reduce-done(go)",
        'go = f32[9] copy(p) ROOT d = f32[9]{0} custom-call(go), custom_call_target="ConcatBitcast"',
    ],
)
def test_an_asynchronous_operation_reads_its_operand_once(body: str):
    rows = [row for row in of(f"p = f32[9] parameter(0) {body}") if row.part_read]
    assert [(row.instruction, row.operand_name, row.bytes) for row in rows] == [("go", "p", 36)]


# -- what a consumer does
# ----------------------------------------------------------------------------------------------------

DOT = "a = f32[128,64] parameter(0) b = f32[64,32] parameter(1) ROOT d = f32[128,32] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CONVOLUTION = (
    "x = f32[2,16,16,3] parameter(0) k = f32[3,3,3,8] parameter(1) "
    "ROOT c = f32[2,14,14,8] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f"
)
GATHER = (
    "t = f32[100,8] parameter(0) i = s32[5] parameter(1) ROOT g = f32[5,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"
)
CLASSES = [
    ("p = f32[64,64] parameter(0) ROOT n = f32[64,64] negate(p)", 0, "streamed", ()),
    ("p = f32[64,64] parameter(0) ROOT t = f32[64,64] transpose(p), dimensions={1,0}", 0, "streamed", ()),
    ("p = f32[8] parameter(0) ROOT b = f32[16,8] broadcast(p), dimensions={1}", 0, "broadcast", ("d0:16",)),
    ("p = f32[64,100] parameter(0) z = f32[] constant(0) ROOT r = f32[64] reduce(p, z), dimensions={1}, to_apply=add", 0, "reduced", ()),
    ("p = f32[64,100] parameter(0) z = f32[] constant(0) ROOT r = f32[100] reduce(p, z), dimensions={0}, to_apply=add", 0, "reduced", ()),
    (DOT, 0, "reused", ("d1:32",)),
    (DOT, 1, "reused", ("d0:128",)),
    (CONVOLUTION, 0, "windowed", ("d3:8",)),
    (CONVOLUTION, 1, "reused", ("d0:2", "d1:14", "d2:14")),
    ("p = f32[64] parameter(0) z = f32[] constant(0) ROOT r = f32[62] reduce-window(p, z), window={size=3}, to_apply=add", 0, "windowed", ()),
    (GATHER, 0, "gathered", ()),
    (GATHER, 1, "broadcast", ("d1:8",)),
    ("p = f32[64] parameter(0) i = s32[] parameter(1) ROOT d = f32[8] dynamic-slice(p, i), dynamic_slice_sizes={8}", 0, "streamed", ()),
    ('p = f32[64] parameter(0) ROOT c = f32[64] custom-call(p), custom_call_target="x"', 0, "unknown", ()),
    ("p = f32[4] parameter(0) ROOT b = f32[0] slice(p), slice={[0:0]}", 0, "not read", ()),
]  # fmt: skip


@pytest.mark.parametrize(("body", "operand", "kind", "along"), CLASSES)
def test_reads_are_classed_by_what_the_consumer_does(
    body: str, operand: int, kind: str, along: tuple[str, ...]
) -> None:
    row = first(body, operand)
    assert (row.access, row.reused_along) == ((kind,), along)
    assert kind in ACCESSES


def test_a_sort_is_a_class_of_its_own() -> None:
    text = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { p = f32[64] parameter(0) ROOT s = f32[64] sort(p), dimensions={0}, to_apply=less }"""
    (row,) = xs.reads(text)
    assert (row.access, row.wasted_bytes) == (("sorted",), 0)


def test_a_fusion_may_read_in_two_ways() -> None:
    text = f"""HloModule m
{ADD}
fused {{ p = f32[8,64] parameter(0) z = f32[] constant(0) r = f32[8] reduce(p, z), dimensions={{1}}, to_apply=add
  b = f32[8,64] broadcast(r), dimensions={{0}} ROOT d = f32[8,64] divide(p, b) }}
ENTRY e {{ p = f32[8,64] parameter(0) ROOT f = f32[8,64] fusion(p), kind=kLoop, calls=fused }}"""
    report = xs.reads(text, target="gpu")
    assert [sorted(row.access) for row in report] == [["reused", "streamed"]]
    assert sorted(each.access for each in report.accesses) == ["reused", "streamed"]
    assert (report[0].least_bytes, report[0].wasted_bytes) == (2048, 0)


# -- what is wasted
# ----------------------------------------------------------------------------------------------------


def test_a_stream_wastes_what_lies_between_its_elements() -> None:
    row = first("p = f32[4096] parameter(0) ROOT s = f32[128] slice(p), slice={[0:4096:32]}")
    assert (row.distinct_bytes, row.least_bytes, row.wasted_bytes) == (512, 4096 * 4, 4096 * 4 - 512)
    assert (row.segments, row.ideal, row.is_coalesced) == (32, 1, False)


@pytest.mark.parametrize(
    ("body", "operand"), [(DOT, 0), (DOT, 1), (CONVOLUTION, 0), (CONVOLUTION, 1), CLASSES[3][:2], CLASSES[4][:2]]
)
def test_what_outputs_combine_is_a_range_and_no_waste(body: str, operand: int) -> None:
    row = first(body, operand)
    assert row.wasted_bytes == 0 and row.least_bytes <= row.most_bytes
    assert row.least_bytes == -(-row.distinct_bytes // 128) * 128
    if row.times > 1:
        assert row.most_bytes > row.least_bytes


def test_a_transpose_wastes_nothing_and_may_fetch_again() -> None:
    row = first(CLASSES[1][0])
    assert (row.wasted_bytes, row.least_bytes, row.most_bytes) == (0, 64 * 64 * 4, 32 * 64 * 64 * 4)


def test_what_values_decide_is_not_known() -> None:
    assert first(GATHER).wasted_bytes is None and first(GATHER).is_upper_bound
    assert first(CLASSES[-2][0]).wasted_bytes is None


def test_padding_on_a_tpu_is_wasted_where_fewer_tiles_would_do() -> None:
    text = "HloModule m ENTRY e { p = bf16[1024,3]{1,0:T(8,128)(2,1)} parameter(0) ROOT n = bf16[1024,3]{1,0:T(8,128)(2,1)} negate(p) }"
    (row,) = xs.reads(text)
    assert (row.tiles, row.distinct_bytes, row.least_bytes) == (1, 6144, 128 * 2048)
    assert row.wasted_bytes == 128 * 2048 - 6144 and row.tile_part == pytest.approx(6144 / (128 * 2048))
    assert row.segments is None and row.lines is None


def test_a_scalar_wastes_nothing() -> None:
    assert first("p = f32[] parameter(0) ROOT b = f32[64] broadcast(p), dimensions={}").wasted_bytes == 0


def test_worst_is_by_what_an_instruction_fetches_in_vain_and_again() -> None:
    body = (
        "p = f32[64,64] parameter(0) a = f32[64,64] parameter(1) b = f32[64,64] parameter(2) "
        "d = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} "
        "cut = f32[64,1] slice(p), slice={[0:64], [5:6]} t = f32[64,64] transpose(p), dimensions={1,0} "
        "ROOT all = (f32[64,64], f32[64,1], f32[64,64]) tuple(d, cut, t)"
    )
    report = of(body)
    assert [row.instruction for row in report.worst(3)] == ["t", "cut", "d"]
    assert report.worst(99) == report.reads == report.rows
    assert report.worst(0) == report.worst(-1) == ()
    lost = [row.wasted_bytes + row.again_bytes for row in report]
    assert lost == sorted(lost, reverse=True)
    assert report.wasted_bytes == sum([row.wasted_bytes for row in report])
    assert report.again_bytes == sum([row.again_bytes for row in report]) > 0


def test_the_rows_of_an_instruction_stay_together() -> None:
    """By what all its operands fetch in vain and again, in a run of the program."""
    text = """HloModule m
f { a = f32[64,64] parameter(0) b = f32[64,64] parameter(1) c = f32[64,64] parameter(2) s = f32[64,64] transpose(a), dimensions={1,0}
  t = f32[64,64] transpose(c), dimensions={1,0} u = f32[64,64] add(s, b) ROOT v = f32[64,64] add(t, u) }
ENTRY e { p = f32[64,64] parameter(0) q = f32[96,64] parameter(1) one = f32[64,96] transpose(q), dimensions={1,0}
  two = f32[64,64] fusion(p, p, p), kind=kLoop, calls=f ROOT all = (f32[64,96], f32[64,64]) tuple(one, two) }"""
    report = xs.reads(text, target="cpu")
    assert [(row.instruction, row.operand) for row in report] == [("two", 0), ("two", 2), ("two", 1), ("one", 0)]
    assert report[3].again_bytes > report[0].again_bytes and report[2].mend is None
    assert report[0].mend == "in_shardings of p: Format(Layout((1, 0)), sharding)"
    assert report[3].mend == (
        "in_shardings of q: Format(Layout((1, 0)), sharding), or "
        "out_shardings of output {0}: Format(Layout((1, 0)), sharding)"
    )
    assert "fetched again, up to" in report.headline() and "fetched unused" in report.headline()


def test_only_layouts_that_a_program_may_choose_are_advised() -> None:
    """Not those of arrays inside, and not those of arguments whose memory a result takes."""
    copies = "c = f32[64,96]{0,1} copy(p) n = f32[64,96]{0,1} negate(c) ROOT r = f32[64,96]{1,0} copy(n)"
    text = f"HloModule m, is_scheduled=true ENTRY e {{ p = f32[64,96]{{1,0}} parameter(0) {copies} }}"
    mends = {row.instruction: row.mend for row in xs.reads(text, target="cpu")}
    layout = "Format(Layout((1, 0)), sharding)"
    assert mends["c"] == f"in_shardings of p: {layout}" and mends["n"] is None
    assert mends["r"] == f"out_shardings of the output: {layout}"
    donated = text.replace("is_scheduled", "input_output_alias={ {}: (0, {}, may-alias) }, is_scheduled")
    assert all(row.mend is None for row in xs.reads(donated, target="cpu"))


def fetched(positions: np.ndarray, element: int, group: int, unit: int) -> tuple[int, int, int]:
    """What groups of outputs fetch that read these positions: all together once, each for itself, and each if they were
    contiguous; in bytes."""
    most = contiguous = 0
    for at in range(0, len(positions), group):
        read = np.unique(positions[at : at + group])
        most += len(np.unique(read * element // unit)) * unit
        contiguous += -(-len(read) * element // unit) * unit
    return len(np.unique(positions * element // unit)) * unit, most, contiguous


CUTS = {"plain": ((0, 1),) * 3, "steps": ((0, 2), (0, 1), (0, 4)), "column": ((3, 99), (0, 1), (2, 99))}
"""For each dimension the first index and the step of a slice."""


def module_of(cases: Sequence[tuple[Sequence[int], Sequence[int], str]], kind: str) -> str:
    """A module with a fusion for each case: dimensions of a transpose, layout of the operand, minor to major, and how
    the result is cut."""
    fused: list[str] = []
    lines: list[str] = []
    for number, (dimensions, layout, name) in enumerate(cases):
        result = [SIZES[each] for each in dimensions]
        cut = ", ".join([f"[{at}:{size}:{step}]" for (at, step), size in zip(CUTS[name], result, strict=True)])
        shape = ",".join([str(-(-(size - at) // step)) for (at, step), size in zip(CUTS[name], result, strict=True)])
        operand = f"{kind}[{','.join(map(str, SIZES))}]{{{','.join(map(str, layout))}}}"
        fused.append(
            f"cut{number} {{ p = {operand} parameter(0) t = {kind}[{','.join(map(str, result))}] transpose(p), "
            f"dimensions={{{','.join(map(str, dimensions))}}} ROOT s = {kind}[{shape}] slice(t), slice={{{cut}}} }}"
        )
        lines += [f"p{number} = {operand} parameter({number})"]
        lines += [f"z{number} = {kind}[{shape}] fusion(p{number}), kind=kLoop, calls=cut{number}"]
    joined = "\n".join(fused), "\n".join(lines)
    return f"HloModule m\n{joined[0]}\nENTRY e {{ {joined[1]} ROOT r = () tuple() }}"


SIZES = (16, 6, 32)


@pytest.mark.parametrize(
    ("target", "kind", "element"), [("cpu", "f32", 4), ("gpu", "f32", 4), ("cpu", "s16", 2), ("gpu", "f64", 8)]
)
def test_what_is_fetched_again_is_what_enumeration_counts(target: str, kind: str, element: int) -> None:
    """Transposes of all orders and layouts, and slices of them; and what mends them, tried."""
    unit, group = (64, 32 // element) if target == "cpu" else (128, 32)
    cases = list(product(permutations(range(3)), permutations(range(3)), CUTS))
    rows = {row.instruction: row for row in xs.reads(module_of(cases, kind), target=target)}
    mended: list[tuple[Sequence[int], Sequence[int], str]] = []
    lost: list[int] = []
    for number, (dimensions, layout, name) in enumerate(cases):
        major = layout[::-1]
        places = np.arange(np.prod(SIZES)).reshape([SIZES[each] for each in major]).transpose(np.argsort(major))
        index = tuple([slice(at, None, step) for at, step in CUTS[name]])
        taken = places.transpose(dimensions)[index].reshape(-1)
        least, most, contiguous = fetched(taken, element, group, unit)
        row = rows[f"z{number}"]
        assert (row.least_bytes, row.most_bytes) == (least, max(least, most)), (dimensions, layout, name)
        assert row.again_bytes == max(0, max(least, most) - max(least, contiguous)), (dimensions, layout, name)
        if row.mend is not None and row.mend.startswith("in_shardings of "):
            order = row.mend.partition("Layout((")[2].partition(")")[0]
            mended.append((dimensions, [int(each) for each in order.split(",")][::-1], name))
            lost.append(row.wasted_bytes + row.again_bytes)
    better = {row.instruction: row for row in xs.reads(module_of(mended, kind), target=target)}
    left = [better[f"z{number}"].wasted_bytes + better[f"z{number}"].again_bytes for number in range(len(mended))]
    assert all(2 * after <= before for after, before in zip(left, lost, strict=True)) and len(mended) > 30


@pytest.mark.parametrize("target", ["gpu", "cpu", "tpu"])
@pytest.mark.parametrize("path", ["attention", "u64"])
def test_the_ideal_is_never_more_than_what_is_touched(target: str, path: str) -> None:
    report = xs.reads(ATTENTION, target=target) if path == "attention" else of(
        "p = u64[8] parameter(0) ROOT n = u64[8] negate(p)", target=target
    )  # fmt: skip
    assert any(row.touched is not None for row in report)
    assert all(row.ideal <= row.touched for row in report if row.touched is not None)


# -- beside XLA
# ----------------------------------------------------------------------------------------------------


def fused(body: str) -> str:
    return f"HloModule m\n{ADD}\nfused {{ {body} }}\nENTRY e {{ p = f32[256,128] parameter(0) ROOT f = OUT fusion(p), kind=kLoop, calls=fused }}"


JUDGED = [
    ("elementwise", "f32[256,128]", "p = f32[256,128] parameter(0) ROOT n = f32[256,128] negate(p)", True, True),
    ("rows", "f32[256]", "p = f32[256,128] parameter(0) z = f32[] constant(0) ROOT r = f32[256] reduce(p, z), dimensions={1}, to_apply=add", True, True),
    ("columns", "f32[128]", "p = f32[256,128] parameter(0) z = f32[] constant(0) ROOT r = f32[128] reduce(p, z), dimensions={0}, to_apply=add", True, True),
    ("broadcast", "f32[256,128,4]", "p = f32[256,128] parameter(0) ROOT b = f32[256,128,4] broadcast(p), dimensions={0,1}", True, True),
    ("in a loop", "f32[128,256]", "p = f32[256,128] parameter(0) t = f32[128,256] transpose(p), dimensions={1,0} ROOT n = f32[128,256] negate(t)", False, False),
    ("majors", "f32[2,128,128]", "p = f32[256,128] parameter(0) b = f32[128,2,128] bitcast(p) ROOT t = f32[2,128,128] transpose(b), dimensions={1,0,2}", True, True),
    ("strided", "f32[256,4]", "p = f32[256,128] parameter(0) ROOT s = f32[256,4] slice(p), slice={[0:256], [0:128:32]}", False, True),
    ("narrow", "f32[256,1]", "p = f32[256,128] parameter(0) ROOT s = f32[256,1] slice(p), slice={[0:256], [9:10]}", False, True),
    ("minor of one", "f32[1,32768]", "p = f32[256,128] parameter(0) b = f32[32768,1] bitcast(p) t = f32[1,32768] transpose(b), dimensions={1,0} ROOT n = f32[1,32768] negate(t)", True, False),
]  # fmt: skip
"""Fusions: whether a read is coalesced here, and whether XLA's rule says so, which looks for a transpose that changes
the most minor dimension."""


def minor_dimension_moves(text: str) -> bool:
    """XLA's rule, for fusions that are not emitted as tiled transposes."""
    for each in xs.HloModule.parse(text).computations[1].instructions:
        if each.opcode == "transpose" and list(each.proto.dimensions)[-1] != each.shape.rank - 1:
            return True
    return False


@pytest.mark.parametrize(("name", "shape", "body", "here", "in_xla"), JUDGED, ids=[each[0] for each in JUDGED])
def test_coalescing_agrees_with_xla_or_is_listed(name: str, shape: str, body: str, here: bool, in_xla: bool) -> None:
    text = fused(body).replace("OUT", shape)
    (row,) = xs.reads(text, target="gpu")
    assert row.is_coalesced is here
    assert (not minor_dimension_moves(text)) is in_xla
    assert (here != in_xla) == (name in ("strided", "narrow", "minor of one"))


# -- devices
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "target", "evidence"),
    [
        ("p = f32[8,128]{1,0:T(8,128)} parameter(0) ROOT n = f32[8,128]{1,0:T(8,128)} negate(p)", "tpu", "layouts with tiles"),
        ('p = f32[8] parameter(0) ROOT n = f32[8] custom-call(p), custom_call_target="__cublas$gemm"', "gpu", "custom call __cublas$gemm"),
        ('p = f32[8] parameter(0) ROOT n = f32[8] custom-call(p), custom_call_target="tpu_custom_call"', "tpu", "custom call tpu_custom_call"),
        ('p = f32[8] parameter(0) ROOT n = f32[8] negate(p), backend_config={"outer_dimension_partitions":["2"]}', "cpu", "backend_config of n"),
        ('p = f32[8] parameter(0) ROOT n = f32[8] negate(p), backend_config={"fusion_backend_config":{}}', "gpu", "backend_config of n"),
        ('p = f32[8] parameter(0) ROOT n = f32[8] negate(p), backend_config={"window_config":{}}', "tpu", "backend_config of n"),
        ("p = f32[8] parameter(0) ROOT n = f32[8] negate(p)", "gpu", "assumed: the module names no device"),
    ],
)  # fmt: skip
def test_the_module_says_its_device(body: str, target: str, evidence: str) -> None:
    report = xs.reads(f"HloModule m ENTRY e {{ {body} }}")
    assert report.target == target and report.evidence.startswith(evidence)
    asked = xs.reads(f"HloModule m ENTRY e {{ {body} }}", target="cpu")
    assert (asked.target, asked.evidence) == ("cpu", "asked for")


def test_the_name_of_a_dump_says_the_device(tmp_path) -> None:
    for middle, target in (("cpu", "cpu"), ("sm_9.0_gpu", "gpu")):
        path = tmp_path / f"module_0001.jit_f.{middle}_after_optimizations.txt"
        path.write_text("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
        assert (xs.reads(path).target, xs.reads(str(path)).evidence) == (target, "the name of the file")


@pytest.mark.parametrize(
    ("target", "unit"), [("gpu", "segments"), ("cpu", "lines"), ("tpu", "tiles"), ("tpu-v5e", "tiles")]
)
def test_units_are_never_mixed(target: str, unit: str) -> None:
    report = xs.reads(ATTENTION, target=target)
    names = {name for row in report for name in ("segments", "lines", "tiles") if getattr(row, name) is not None}
    assert names == {unit} and report.target == target
    assert unit.removesuffix("s") in report.unit or "lines" in report.unit
    of_gpu = [row.is_coalesced is not None for row in report]
    assert all(of_gpu) == (target == "gpu") == any(of_gpu)
    assert all((row.relayout is None) == (unit != "tiles") for row in report if row.access == ("streamed",))


def test_lanes_and_sublanes_of_a_relayout() -> None:
    text = "HloModule m ENTRY e {{ p = f32[128,128]{{1,0:T(8,128)}} parameter(0) ROOT n = {} }}"
    turned = xs.reads(text.format("f32[128,128]{1,0:T(8,128)} transpose(p), dimensions={1,0}"))
    (access,) = turned.accesses
    # 8 rows of 128 outputs are 8 columns of the operand: all of its 16 tiles in a column, one lane in sixteen of each.
    assert (access.tiles, access.relayout, access.lanes, access.sublanes) == (16, "lanes and sublanes", 8 / 128, 1)
    shifted = "f32[120,128]{1,0:T(8,128)} slice(p), slice={[%d:%d], [0:128]}"
    assert xs.reads(text.format(shifted % (3, 123))).accesses[0].relayout == "sublanes"
    assert xs.reads(text.format(shifted % (8, 128))).accesses[0].relayout == "none"


def test_layouts_without_tiles_get_those_of_the_tpu() -> None:
    row = of("p = f32[20,300] parameter(0) ROOT n = f32[20,300] negate(p)", target="tpu")[0]
    assert row.operand_shape == "f32[20,300]{1,0:T(8,128)}" and row.bytes == 24 * 384 * 4
    assert (row.tiles, row.ideal, row.relayout) == (1, 1, "none")


# -- units of memory
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1, 3, 8, 64, 128])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[40,9]", "(d0, d1) -> (d0 * 3 + 1, d1 * 2), domain: d0 in [0, 12], d1 in [0, 4]"),
        ("f32[40,9]{0,1}", "(d0, d1) -> (d0, 8 - d1), domain: d0 in [5, 30], d1 in [0, 3]"),
        ("bf16[7,11,13]", "(d0, d1)[s0] -> (d0, d1 * 2 + s0, 4), domain: d0 in [0, 6], d1 in [0, 3], s0 in [0, 2]"),
        ("s8[6,1000]", "(d0, d1) -> (d0, d1 * 7), domain: d0 in [0, 5], d1 in [0, 99]"),
        ("f64[16,64]", "(d0, d1) -> (d0, d1 + 16), domain: d0 in [0, 15], d1 in [0, 15]"),
        ("f32[9,9]", "(d0) -> (d0, d0), domain: d0 in [0, 8]"),
    ],
)
def test_units_of_boxes_are_those_of_their_elements(shape: str, text: str, unit: int) -> None:
    array, indexing_map = xs.Shape.parse(shape), IndexingMap.parse(text)
    width = array.element_type.bit_width // 8
    points, inside = indexing_map.evaluate_batch(list(all_points(indexing_map)))
    elements = {tuple(row) for row, is_inside in zip(points.tolist(), inside, strict=True) if is_inside}
    found = {
        byte // unit
        for index in elements
        for byte in range(tiling.linear_index(array, index) * width, (tiling.linear_index(array, index) + 1) * width)
    }
    physical = indexing_map.compose(xs.indexing.logical_to_physical(array))
    assert units_of(array, [indexing_map], [physical], unit) == len(found)


def all_points(indexing_map: IndexingMap) -> list[tuple[int, ...]]:
    points: list[tuple[int, ...]] = [()]
    for var in indexing_map.variables:
        points = [(*point, value) for point in points for value in range(var.bounds.lower, var.bounds.upper + 1)]
    return points


def test_units_of_all() -> None:
    assert units_of_all(xs.Shape.parse("f32[33]"), 128) == 2
    assert units_of_all(xs.Shape.parse("f32[0,4]"), 128) == 0
    assert units_of_all(xs.Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}"), 2048) == 9
    assert box_of(IndexingMap.parse("(d0) -> (d0, d0), domain: d0 in [0, 8]")) is None


# -- the answer
# ----------------------------------------------------------------------------------------------------


def test_rows_are_those_of_the_reports_on_maps() -> None:
    report = xs.reads(ATTENTION, target="gpu")
    by_read = {(row.instruction, row.output, row.operand): row for row in report}
    count = 0
    for reads in module_reads(report.module):
        for operand in reads.operands:
            count += 1
            row = by_read[reads.instruction.name, reads.output, operand.operand]
            shape = reads.instruction.operands[operand.operand].shape
            assert (row.part_read, row.times) == (
                operand.utilisation.utilisation,
                operand.utilisation.reads_per_element,
            )
            assert row.bytes == xs.tiling.physical_bytes(shape)
            assert row.padding_bytes == row.bytes - xs.shape_util.byte_size_of(shape)
            assert row.distinct_bytes == operand.utilisation.distinct * shape.element_type.bit_width // 8
            known = [access.efficiency for access in operand.accesses if access.efficiency is not None]
            assert row.efficiency == min(known, default=None)
            maps = xs.indexing.output_to_input(reads.instruction, reads.output)[operand.operand].simplify()
            assert row.map == "\n".join(str(access.map) for access in maps)
    assert count == len(report) == len(by_read) > 20
    assert len(report.accesses) >= count and len(report.writes) == report.instructions == 16


def test_a_read_is_a_sentence_and_the_report_a_table_of_the_worst() -> None:
    report = xs.reads(TEXT)
    assert str(report).splitlines()[:4] == [
        "module                m",
        "target                tpu",
        "known by              layouts with tiles of 128 lanes",
        "counted               tiles of the operand that a tile of the output reads",
    ]
    row = next(row for row in report if row.operand_name == "p")
    assert (row.source, row.op_name) == ("train.py:73", "jit(f)/add")
    assert str(row).startswith(
        "f reads 100.0% of p f32[64,20]{1,0:T(8,128)}, streamed: 32,768 bytes (32.00 KiB) are fetched for 5,120 bytes"
    )
    assert next(row for row in report if row.operand_name == "whole").knowledge == "every element"
    assert repr(report) == "<Reads: 8 rows>"
    assert [each.bytes for each in report.writes][:1] == [24 * 128 * 4]
    assert "nothing of p" in str(of(CLASSES[-1][0])[0])


def test_many_rows_are_cut_in_the_text_alone() -> None:
    lines = " ".join([f"n{i} = f32[4] negate(n{i - 1})" for i in range(1, 101)])
    report = xs.reads(f"ENTRY e {{ n0 = f32[4] parameter(0) {lines} }}")
    assert len(report) == 100 and str(report).endswith("80 more rows are not shown.")
    empty = xs.reads("ENTRY e { ROOT n0 = f32[4] parameter(0) }")
    assert len(empty) == 0 and "instructions          0" in str(empty)


def test_an_instruction_that_is_refused_is_a_row_that_says_so() -> None:
    broken = xs.HloModule.parse(
        "ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p) ROOT r = f32[4] reverse(n), dimensions={0} }"
    ).to_proto()
    broken.computations[0].instructions[2].dimensions[0] = 5
    report = xs.reads(broken)
    rows = {row.instruction: row for row in report}
    assert rows["n"].error is None and rows["r"].error is not None and "not known how it reads" in str(rows["r"])
    assert "r is not known: " in str(report) and report.failed == 1


def test_one_instruction_and_one_computation() -> None:
    module = xs.HloModule.load(ATTENTION)
    (row,) = xs.reads(module, instruction="transpose_copy_fusion")
    fused = module.instruction("transpose_copy_fusion").called_computations[0]
    names = {each.name for each in fused.instructions if each.operands}
    assert {row.instruction for row in xs.reads(module, computation=fused.name)} == names
    assert row == next(each for each in xs.reads(module) if each.instruction == "transpose_copy_fusion")
    (only,) = xs.reads(module, instruction=next(iter(names)), computation=fused.name, output=0)
    assert only.computation == fused.name


def test_jitted_functions_and_lowered_are_compiled() -> None:
    calls: list[str] = []
    data = xs.HloModule.parse(TEXT).to_bytes()

    def lower(*args: object, **kwargs: object) -> object:
        calls.append(f"lower {args} {kwargs}")
        return lowered

    def compile_lowered() -> object:
        calls.append("compile")
        module = SimpleNamespace(as_serialized_hlo_module_proto=lambda: data)
        return SimpleNamespace(runtime_executable=lambda: SimpleNamespace(hlo_modules=lambda: [module]))

    lowered = SimpleNamespace(compiler_ir=lambda _: None, compile=compile_lowered)
    assert len(xs.reads(SimpleNamespace(lower=lower), 1, flag=2)) == len(xs.reads(lowered)) == 8
    assert calls == ["lower (1,) {'flag': 2}", "compile", "compile"]
    assert len(xs.reads(TEXT.encode())) == len(xs.reads(bytearray(TEXT.encode()))) == 8


def test_mistakes() -> None:
    with pytest.raises(InvalidArgumentError, match="takes no arguments: only a jitted function"):
        xs.reads(TEXT, 1)
    with pytest.raises(InvalidArgumentError, match=r"a function that was not jitted: pass jax.jit\(f\)"):
        xs.reads(len)
    with pytest.raises(ParseError):
        xs.reads("HloModule m {")
    with budget(steps=2), pytest.raises(LimitExceededError):
        xs.reads(ATTENTION)
    with pytest.raises(NotFoundError, match="did you mean 'ynn_fusion'"):
        xs.reads(ATTENTION, instruction="ynn_fusio")
    with pytest.raises(InvalidArgumentError, match="no target is called 'abacus'"):
        xs.reads(ATTENTION, target="abacus")
    with pytest.raises(InvalidArgumentError, match="a warp and a segment are at least 1"):
        xs.reads(ATTENTION, warp=0)
    with pytest.raises(InvalidArgumentError, match="has no output 3"):
        xs.reads(ATTENTION, instruction="ynn_fusion", output=3)


# -- the command line
# ----------------------------------------------------------------------------------------------------


def lines(*arguments: str) -> list[str]:
    result = command_line.run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout.decode().splitlines()


def test_the_command_prints_the_table() -> None:
    *rows, last = str(xs.reads(ATTENTION)).splitlines()
    assert lines("reads", str(ATTENTION)) == [*rows, f"{last.removesuffix('.')}: --limit 0 shows all."]


def test_filters_take_the_names_of_columns() -> None:
    rows = [
        json.loads(line)
        for line in lines("reads", str(ATTENTION), "--filter", "bytes>=512KiB", "--sort", "times", "--format", "jsonl")
    ]
    expected = [row for row in xs.reads(ATTENTION) if row.bytes >= 512 << 10]
    assert [row["times"] for row in rows] == sorted([row.times for row in expected], reverse=True)
    some = lines("reads", str(ATTENTION), "--filter", "access=reused", "--show", "totals")
    assert any(line.startswith("operands") for line in some)


@pytest.mark.parametrize(("target", "unit"), [("gpu", "segments"), ("tpu", "tiles"), ("cpu", "lines")])
def test_judging_columns_stay_in_80_columns(target: str, unit: str) -> None:
    table = xs.reads(ATTENTION, target=target).to_text(width=80).split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= 80
    assert table[1].split() == ["instruction", "reads", "read", unit, "operand", "unused", "refetched", "source"]
    assert table[0].split() == ["part"] and any("…" in line for line in table)


LOOP = """HloModule m
body {
  b = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = f32[4096] get-tuple-element(b), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  s = f32[128] slice(x), slice={[0:4096:32]}
  p = f32[4096] broadcast(one), dimensions={}
  ROOT t = (s32[], f32[4096]) tuple(n, x)
}
cond {
  b = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  most = s32[] constant(MOST)
  ROOT c = pred[] compare(i, most), direction=LT
}
ENTRY e {
  start = s32[] constant(0)
  x = f32[4096] parameter(0)
  t = (s32[], f32[4096]) tuple(start, x)
  w = (s32[], f32[4096]) while(t), condition=cond, body=body
  y = f32[4096] get-tuple-element(w), index=1
  ROOT last = f32[128] slice(y), slice={[0:4096:32]}
}
"""


def test_what_a_loop_reads_counts_as_often_as_it_runs():
    found = xs.reads(LOOP.replace("MOST", "7"), target="gpu")
    rows = {row.instruction: row for row in found}
    assert {name: rows[name].runs for name in ("s", "last", "c")} == {"s": 7, "last": 1, "c": 8}
    assert rows["s"].wasted_bytes == rows["last"].wasted_bytes > 0
    assert found.worst(1)[0] is rows["s"]
    assert found.wasted_bytes == sum(row.wasted_bytes * row.runs for row in found)
    assert found.distinct_bytes == sum(row.distinct_bytes * row.runs for row in found)


def test_units_beyond_int64_are_not_known() -> None:
    half = 1 << 61
    row = first(f"x = f32[{2 * half}] parameter(0) ROOT s = f32[{half}] slice(x), slice={{[0:{half}]}}")
    assert (row.access, row.distinct_bytes, row.error) == (("streamed",), 4 * half, None)


def test_fusions_in_fusions_are_looked_at_once_each():
    levels = "".join(
        f"""level{depth} {{ x = f32[4] parameter(0) y = f32[4] fusion(x), kind=kLoop, calls=level{depth - 1}
        ROOT z = f32[4] fusion(y), kind=kLoop, calls=level{depth - 1} }}\n"""
        for depth in range(1, 60)
    )
    text = f"HloModule m\nlevel0 {{ x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }}\n{levels}"
    text += "ENTRY e { p = f32[4] parameter(0) ROOT f = f32[4] fusion(p), kind=kLoop, calls=level59 }"
    with budget(steps=1_000_000):
        found = xs.reads(text, target="gpu")
    assert [row.access for row in found] == [("streamed",)]


def test_a_loop_of_unknown_length_counts_once():
    found = xs.reads(LOOP.replace("constant(MOST)", 'custom-call(), custom_call_target="when"'), target="gpu")
    rows = {row.instruction: row for row in found}
    assert (rows["s"].runs, rows["last"].runs) == (None, 1)
    assert found.wasted_bytes == sum(row.wasted_bytes for row in found)


# -- Pallas kernels ------------------------------------------------------------------------------

KERNELS = [
    json.loads(line) for line in lzma.decompress((VECTORS / "pallas_kernels.jsonl.xz").read_bytes()).splitlines()
]
"""Kernels with the bytes that each operand with blocks moves, counted by calling their index maps in Python."""


@pytest.mark.parametrize("given", KERNELS, ids=lambda given: given["name"])
def test_a_kernel_fetches_the_blocks_that_its_index_maps_name(given: dict[str, Any]) -> None:
    rows = [row for row in xs.reads(given["text"], target="tpu") if row.opcode == "custom-call"]
    if None in given["moved"]:
        assert all(row.access == ("unknown",) for row in rows)
        return
    results = 2 if given["name"] == "two_outputs" else 1
    rows.sort(key=lambda row: row.operand)
    moved = given["moved"][:-results]
    for row, size in zip(rows[len(rows) - len(moved) :], moved, strict=True):
        assert row.access == ("blocks",)
        assert row.times == pytest.approx(size / (row.bytes - row.padding_bytes))
        assert row.most_bytes == pytest.approx(row.times * row.bytes)  # padding is moved too
        assert row.again_bytes == max(0, row.most_bytes - row.bytes)
        assert row.again_bytes or not row.mend
