"""The report `collectives`: every field of the given programs, which a simulation of single elements has said; times
on links; findings; and what `cost` says of collectives."""

from __future__ import annotations

import gzip
import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from xlashape.errors import InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape.hlo.collectives import device_grid, find_collectives, groups_of
from xlashape.reports.cost.links import LINKS, Topology, link_seconds
from xlashape.shape.parts.target import TARGETS

VECTORS = Path(__file__).resolve().parents[3] / "vectors/collectives"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress((VECTORS / "reference.jsonl.gz").read_bytes()).splitlines()
]
MESHES: dict[str, dict[str, Any]] = json.loads((VECTORS / "meshes.json").read_text())
FILES = sorted(path.name for path in VECTORS.glob("*.*.gz") if ".jsonl" not in path.name)
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
GLOBAL = "channel_id=1, use_global_device_ids=true, to_apply=add"


def given(file: str) -> bytes:
    return gzip.decompress((VECTORS / file).read_bytes())


@pytest.mark.parametrize("file", FILES)
def test_given_programs(file: str):
    program, kind, _ = file.split(".")
    about = MESHES[program]
    is_named = about["named" if kind == "hlo" else "named_pb"]
    report = xs.collectives(given(file), mesh=None if is_named else about["axes"])
    expected = {row["name"]: row for row in ROWS if row["program"] == program}
    assert {row.name for row in report.rows} == expected.keys()
    for row in report.rows:
        for name, value in expected[row.name].items():
            if name == "program":
                continue
            found: Any = bool(row.source) if name == "has_source" else getattr(row, name)
            if name in ("names", "members"):
                found, value = sorted(map(sorted, found)) if name == "members" else sorted(found), sorted(value)
            assert (list(found) if isinstance(found, tuple) else found) == value, (row.name, name)
        assert (row.between is None) == ("between" not in expected[row.name])
    assert report.sent_bytes == sum(row["sent_bytes"] * row["times"] for row in expected.values())
    assert report.count == len(expected)
    assert report.devices == len(about["devices"])


@pytest.mark.parametrize(
    ("program", "pairs"),
    [
        ("fsdp_scan", {("[{'fsdp'}, {}]", "[{}, {}]")}),
        ("tensor_parallel_mlp", {("[{'dp'}, {}], unreduced={'tp'}", "[{'dp'}, {}]")}),
        ("reshard_rows_to_columns", {("[{'x'}, {}]", "[{}, {'x'}]")}),
        ("scatter_sum", {("[{}, {}], unreduced={'x'}", "[{'x'}, {}]")}),
    ],
)
def test_how_arrays_are_divided_before_and_after(program: str, pairs: set[tuple[str, str]]):
    report = xs.collectives(given(f"{program}.pb.gz"))
    assert {(row.before, row.after) for row in report} == pairs
    assert all(f"from {row.before} to {row.after}" in row.cause for row in report)


def test_weights_that_a_tpu_gathers_beside_computation():
    """The scanned weights of a decoder: the layers' dimension is not divided, the others as its program says."""
    rows = [row for row in xs.collectives(given("tpu_decoder_step.pb.gz")) if row.kind == "all-gather"]
    whole = {(row.before, row.after) for row in rows}
    assert whole == {
        ("[{}, {'fsdp'}, {'tensor'}]", "[{}, {}, {'tensor'}]"),
        ("[{}, {'tensor'}, {'fsdp'}]", "[{}, {'tensor'}, {}]"),
        ("[{}, {'fsdp'}, {'tensor'}, {}]", "[{}, {}, {'tensor'}, {}]"),
        ("[{}, {'tensor'}, {}, {'fsdp'}]", "[{}, {'tensor'}, {}, {}]"),
    }


DIVIDED = "p = f32[4,6]{1,0} parameter(0), sharding={mesh['x'=2,'y'=4,'z'=2], [{'x'}, {'y'}]}"


@pytest.mark.parametrize(
    ("made", "divided"),
    [
        ("a = f32[4,6] negate(p)", "[{'x'}, {'y'}]"),
        ("a = f32[6,4] transpose(p), dimensions={1,0}", "[{'y'}, {'x'}]"),
        ("a = f32[6,4]{0,1} bitcast(p)", "[{'y'}, {'x'}]"),
        ("a = f32[4,1,6] reshape(p)", "[{'x'}, {}, {'y'}]"),
        ("a = f32[4,2,3] reshape(p)", "[{'x'}, {'y'}, {}]"),
        ("a = f32[24] reshape(p)", "[{?}]"),
        ("a = f32[3,4,6] broadcast(p), dimensions={1,2}", "[{?}, {'x'}, {'y'}]"),
        ("a = f32[2,6] slice(p), slice={[0:2], [0:6]}", "[{?}, {'y'}]"),
        ("q = f32[4,5] broadcast(p0), dimensions={} a = f32[6,5] dot(p, q), lhs_contracting_dims={0}, "
         "rhs_contracting_dims={0}", "[{'y'}, {?}]"),
        ("a = f32[4] reduce(p, p0), dimensions={1}, to_apply=add", "[{'x'}]"),
        ("t = (f32[4,6], f32[]) tuple(p, p0) a = f32[4,6] get-tuple-element(t), index=0", "[{'x'}, {'y'}]"),
    ],
)  # fmt: skip
def test_what_divides_an_array_is_followed(made: str, divided: str):
    shape = made.split("a = ")[-1].split("]")[0] + "]"
    text = f"""HloModule m, num_partitions=16
      {ADD} ENTRY e {{ {DIVIDED} p0 = f32[] constant(0) {made}
      ROOT r = {shape} all-reduce(a), {GLOBAL}, replica_groups=[8,2]<=[16] }}"""
    (row,) = xs.collectives(text)
    assert (row.before, row.after) == (f"{divided}, unreduced={{'z'}}", divided)


def test_parts_that_are_added_up_are_no_parts():
    text = f"""HloModule m, num_partitions=16
      {ADD} ENTRY e {{ {DIVIDED}
      ROOT r = f32[4,6] all-reduce(p), {GLOBAL}, replica_groups=[4,4]<=[2,4,2]T(0,2,1) }}"""
    (row,) = xs.collectives(text)
    assert (row.mesh_axes, row.before, row.after) == (("y",), "[{'x'}, {}], unreduced={'y'}", "[{'x'}, {}]")


def test_sums_of_groups():
    report = xs.collectives(given("tpu_decoder_step.pb.gz"), target="tpu-v5e")
    by_axes = report.by("mesh_axes")
    assert [(each.group, each.count) for each in by_axes] == [("fsdp", 18), ("tensor", 4)]
    for key in ("mesh_axes", "kind", "source", "op_name"):
        groups = report.by(key)
        assert sum(each.sent_bytes for each in groups) == report.sent_bytes
        assert sum(each.executions for each in groups) == report.executions
        assert sum(each.least_time or 0 for each in groups) == pytest.approx(report.least_time)
    with pytest.raises(
        InvalidArgumentError, match="expected one of mesh_axes, kind, source, op_name, layer, each_layer, found 'line'"
    ):
        report.by("line")


def test_what_runs_between_hides_a_collective():
    report = xs.collectives(given("tpu_decoder_step.hlo.gz"), target="tpu-v5e", mesh="fsdp=8,tensor=2")
    costs = {row.name: row for row in xs.cost(given("tpu_decoder_step.hlo.gz"), target="tpu-v5e").rows}
    for row in report.rows:
        if row.between is None:
            assert row.exposed == row.least_time
        else:
            known = [costs[name] for name in row.between if name in costs]
            times = [each.least_time or 0.0 for each in known if each.bound != "communication"]
            assert row.between_time == pytest.approx(sum(times))
            assert row.between_bytes == sum(each.bytes for each in known)
            assert row.between_flops == sum(each.flops or 0 for each in known)
            assert row.exposed == max(0.0, (row.least_time or 0.0) - (row.between_time or 0.0))


def test_a_module_without_a_schedule_says_nothing_of_what_runs_between():
    text = (
        "HloModule m, num_partitions=2\n"
        + ADD
        + (
            f"ENTRY e {{ p = f32[8] parameter(0) s = f32[8] all-reduce-start(p), {GLOBAL} n = f32[8] negate(p)"
            " d = f32[8] all-reduce-done(s) ROOT a = f32[8] add(d, n) }"
        )
    )
    (row,) = xs.collectives(text, target="h100").rows
    assert (row.is_asynchronous, row.between, row.exposed) == (True, None, None)
    assert row.least_time == 32 / 450e9
    (row,) = xs.collectives(text.replace("num_partitions=2", "is_scheduled=true, num_partitions=2"), target="h100").rows
    assert (row.between, row.between_flops, row.between_time) == (("n",), 8, 64 / 3.35e12)
    assert row.exposed == (row.least_time or 0.0) - 64 / 3.35e12


def test_a_branch_counts_as_taken_and_a_loop_of_unknown_length_once():
    text = (
        "HloModule m, num_partitions=2\n"
        + ADD
        + f"""
      one {{ p = f32[8] parameter(0) ROOT r = f32[8] all-reduce(p), {GLOBAL} }}
      other {{ p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }}
      body {{ p = f32[8] parameter(0) ROOT q = f32[8] all-reduce(p), {GLOBAL} }}
      cond {{ p = f32[8] parameter(0) ROOT c = pred[] custom-call(p), custom_call_target="x" }}
      ENTRY e {{ p = f32[8] parameter(0) i = pred[] parameter(1)
        c = f32[8] conditional(i, p, p), true_computation=one, false_computation=other
        ROOT w = f32[8] while(c), condition=cond, body=body }}"""
    )
    report = xs.collectives(text)
    assert {row.name: (row.times, row.is_exact, row.branch) for row in report.rows} == {
        "r": (1, False, True),
        "q": (1, False, False),
    }
    assert not report.is_exact


# -- links -------------------------------------------------------------------------------------


def seconds(text: str, target: str, topology: str | None = None) -> float | None:
    (row,) = xs.collectives(text, target=target, topology=topology).rows
    return row.least_time


def one(opcode: str, devices: int, groups: str, *, elements: int = 1 << 20) -> str:
    more = {"all-gather": ", dimensions={0}, use_global_device_ids=true", "all-to-all": ", dimensions={0}"}.get(
        opcode, ", use_global_device_ids=true, to_apply=add"
    )
    size = len(groups.strip("{}").split("}")[0].split(",")) if opcode == "all-gather" else 1
    if opcode == "all-gather" and "<=" in groups:
        size = int(groups[1:].split("]")[0].split(",")[1])
    return (
        f"HloModule m, num_partitions={devices}\n{ADD}ENTRY e {{ p = f32[{elements}] parameter(0) "
        f"ROOT r = f32[{elements * size}] {opcode}(p), channel_id=1, replica_groups={groups}{more} }}"
    )


def test_the_given_model_of_the_spec_on_h100():
    assert seconds(one("all-reduce", 8, "{{0,1,2,3,4,5,6,7}}"), "h100") == (4 << 20) * 2 * 7 // 8 / 450e9


@pytest.mark.parametrize("size", [4, 8, 16])
def test_an_all_to_all_on_a_ring_passes_every_link(size: int):
    """The load of the links, hop by hop on shortest ways; a way half around the ring is taken by halves."""
    part = (4 << 20) / size
    load = [0.0] * (2 * size)
    for source in range(size):
        for steps in range(1, size):
            for direction, share in ((0, 1.0), (1, 1.0)):
                there = steps if direction == 0 else size - steps
                share = 0.5 if 2 * there == size else float(2 * there < size)
                for hop in range(there):
                    link = (source + hop) % size if direction == 0 else size + (source - hop) % size
                    load[link] += part * share
    links = LINKS["tpu-v4"]
    found = seconds(one("all-to-all", size, f"[1,{size}]<=[{size}]"), "tpu-v4", f"{size}")
    assert found == pytest.approx(max(load) / links.link)
    assert found == pytest.approx((4 << 20) * size / (4 * 2 * links.link))


def test_a_gather_uses_the_axes_that_its_group_spans():
    text = one("all-gather", 256, "[16,16]<=[256]")
    whole = 16 * (4 << 20)
    assert seconds(text, "tpu-v5e", "16x16") == pytest.approx(whole * 15 / 16 / (2 * 45e9))  # a ring: two links
    assert seconds(text, "tpu-v5e") == pytest.approx(whole * 15 / 16 / (4 * 45e9))  # wherever it lies: all four
    line = one("all-gather", 16, "[4,4]<=[16]")
    assert seconds(line, "tpu-v5e", "4x4") == pytest.approx(4 * (4 << 20) * 3 / 4 / 45e9)  # 4 chips are no ring
    both = one("all-gather", 256, "[1,256]<=[256]")
    assert seconds(both, "tpu-v5e", "16x16") == pytest.approx(256 * (4 << 20) * 255 / 256 / (4 * 45e9))


def test_a_group_that_leaves_its_node_uses_the_network():
    text = one("all-reduce", 16, "[1,16]<=[16]")
    assert seconds(text, "h100", "h100x8") == pytest.approx(2 * (4 << 20) * 15 / 16 / (450e9 + 50e9))
    gather = one("all-gather", 64, "[1,64]<=[64]")  # each of 8 nodes lacks the parts of 7 others
    assert seconds(gather, "h100", "8x8") == pytest.approx(64 * (4 << 20) * 7 / 8 / (8 * 50e9))
    pairs = one("all-reduce", 16, "[8,2]<=[2,8]T(1,0)")  # eight pairs share the eight adapters
    assert seconds(pairs, "h100", "8") == pytest.approx((4 << 20) / 50e9)
    assert seconds(text, "mi300x") is None
    assert seconds(one("all-to-all", 16, "[1,16]<=[16]"), "h100") == pytest.approx((4 << 20) / 16 * 8 * 8 / 400e9)


def test_groups_that_do_not_fill_a_torus_have_the_bound_of_all_links():
    text = one("all-reduce", 16, "{{0,1}}")
    assert seconds(text, "tpu-v5e", "4x4") == pytest.approx((4 << 20) / (4 * 45e9))


def test_chips_of_the_device_assignment_count():
    """A ring along the second axis, by an assignment that exchanges the axes."""
    module = xs.HloModule.parse(one("all-gather", 64, "[4,16]<=[64]"))
    (found,) = find_collectives(module)
    groups = groups_of(found, device_grid(module, [found]))
    links, topology = LINKS["tpu-v5e"], Topology((4, 16))
    swapped = [position // 16 + 4 * (position % 16) for position in range(64)]
    whole = 16 * (4 << 20)
    assert link_seconds(found, groups, links, topology, swapped) == pytest.approx(whole * 15 / 16 / (2 * 45e9))
    mixed = link_seconds(found, groups, links, topology)  # 16 chips of four columns span both axes
    assert mixed == pytest.approx(whole * 15 / 16 / (3 * 45e9))


def test_every_figure_names_its_source_and_year():
    assert LINKS.keys() <= TARGETS.keys()
    for links in LINKS.values():
        assert any(year in links.source for year in map(str, range(2015, 2030)))
        assert links.bandwidth > (links.network or 0.0)


def test_what_is_known_only_at_run_time_has_no_least_time():
    text = """HloModule m, num_partitions=4 ENTRY e { p = f32[8] parameter(0) q = f32[16] parameter(1)
      o = s32[4] parameter(2) ROOT r = f32[16] ragged-all-to-all(p, q, o, o, o, o), channel_id=1,
        replica_groups={{0,1,2,3}} }"""
    report = xs.collectives(text, target="h100")
    assert [(row.at_most, row.sent_bytes, row.least_time) for row in report.rows] == [(True, 32, None)]
    assert (report.least_time, report.is_exact) == (None, False)


@pytest.mark.parametrize("text", ["", "x", "4x", "0x4", "4x4x4x4x4", "-1", "4*4", "1048576x2"])
def test_no_topology(text: str):
    with pytest.raises(InvalidArgumentError) as caught:
        xs.collectives(one("all-to-all", 4, "{{0,1,2,3}}"), topology=text)
    assert caught.value.field == "topology"


def test_no_target_of_a_topology():
    with pytest.raises(NotFoundError, match="there is no target 'h10' with links; .* did you mean"):
        Topology.parse("h10x8")


def test_what_must_be_known_is_said():
    text = one("all-to-all", 4, "{{0,1,2,3}}").replace(", num_partitions=4", "")
    report = xs.collectives(text, target="mi355x", topology="4")
    assert report.notes == (
        "The module does not say how many devices run it; as many count as its collectives name.",
        "The module does not say which chips run it; the position of a device counts as its chip.",
        "Links of mi355x are not known, so there are no times.",
    )
    assert report.headline().endswith(report.notes[-1])
    nothing = xs.collectives("HloModule m ENTRY e { ROOT p = f32[8] parameter(0) }")
    assert (nothing.headline(), nothing.sent_bytes) == ("m: no collectives", 0)


def test_too_many_devices():
    with pytest.raises(LimitExceededError):
        xs.collectives("HloModule m, num_partitions=9999999 ENTRY e { p = f32[8] parameter(0)"
                       " ROOT r = f32[8] all-to-all(p), channel_id=1, replica_groups={}, dimensions={0} }")  # fmt: skip


# -- cost --------------------------------------------------------------------------------------


def test_cost_has_the_time_of_collectives_and_calls_none_bound_by_memory():
    data = given("tpu_decoder_step.hlo.gz")
    report, cost = xs.collectives(data, target="tpu-v5e"), xs.cost(data, target="tpu-v5e")
    assert cost.communication_time == pytest.approx(report.least_time)
    assert (cost.least_time or 0.0) >= (cost.communication_time or 0.0) > 0
    times = {row.name: row.communication_time for row in cost.rows if row.communication_time is not None}
    carriers = {name: row for row in report.rows for name in row.names if name in times}
    assert len(times) == report.count
    for name, row in carriers.items():
        assert times[name] == row.least_time
    for row in cost.rows:
        is_collective = row.name in carriers or row.opcode.startswith(("all-", "reduce-scatter", "collective"))
        assert (row.bound == "communication") == is_collective
    assert xs.cost(data).communication_time is None
    assert xs.cost(data, target="tpu-v5e", as_xla=True).communication_time is None


def test_a_loop_multiplies_the_time_of_its_collectives():
    data = given("fsdp_scan.pb.gz")
    (row,) = xs.collectives(data, target="h100").rows
    assert xs.cost(data, target="h100").communication_time == pytest.approx(5 * (row.least_time or 0.0))
    assert prod((row.times, row.sent_bytes)) == xs.collectives(data).sent_bytes


# -- findings ----------------------------------------------------------------------------------


def findings(
    body: str, target: str | None = "h100", header: str = "HloModule m, num_partitions=4"
) -> list[tuple[str, int, tuple[str, ...]]]:
    report = xs.collectives(f"{header}\n{ADD}{body}", target=target)
    return [(each.kind, each.saved_bytes, each.names) for each in report.findings]


AR = f"{GLOBAL}, replica_groups={{{{0,1,2,3}}}}"
AG = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, dimensions={0}"
LOOP = """cond { s = (s32[], f32[8], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
    ROOT c = pred[] compare(i, n), direction=LT }
  ENTRY e { z = s32[] constant(0) a = f32[8] parameter(0) b = f32[8] parameter(1)
    t = (s32[], f32[8], f32[8]) tuple(z, a, b) ROOT w = (s32[], f32[8], f32[8]) while(t), condition=cond, body=body }"""


def body(made: str, *, returned: str = "(j, x, y)", more: str = "") -> str:
    return f"""body {{ s = (s32[], f32[8], f32[8]) parameter(0) i = s32[] get-tuple-element(s), index=0
    one = s32[] constant(1) j = s32[] add(i, one) x = f32[8] get-tuple-element(s), index=1
    y = f32[8] get-tuple-element(s), index=2 {made}
    ROOT r = (s32[], f32[8], f32[8]) tuple{returned} {more}}}
    {LOOP}"""


def test_an_operand_that_is_exchanged_twice():
    twice = f"""ENTRY e {{ p = f32[8] parameter(0) g = f32[32] all-gather(p), {AG} h = f32[32] all-gather(p), {AG}
      ROOT a = f32[32] add(g, h) }}"""
    assert findings(twice) == [("repeated", 96, ("h",))]
    assert findings(twice.replace("h = f32[32] all-gather(p)", "n = f32[8] negate(p) h = f32[32] all-gather(n)")) == []


def test_a_value_that_does_not_change_in_a_loop():
    assert findings(body(f"n = f32[8] negate(y) g = f32[8] all-reduce(n), {AR} k = f32[8] multiply(x, g)",
                         returned="(j, k, y)")) == [("invariant", 48 * 4, ("g",))]  # fmt: skip
    changing = body(
        f"n = f32[8] negate(y) g = f32[8] all-reduce(n), {AR} k = f32[8] multiply(x, g)", returned="(j, k, n)"
    )
    assert findings(changing) == []


def test_a_sum_that_only_its_sum_uses():
    adding = f"n = f32[8] negate(y) m = f32[8] multiply(n, n) g = f32[8] all-reduce(m), {AR} k = f32[8] add(x, g)"
    assert findings(body(adding, returned="(j, k, n)")) == [("accumulated", 48 * 4, ("g",))]
    used = body(adding.replace("n = f32[8] negate(y)", "n = f32[8] add(y, x)"), returned="(j, k, n)")
    assert findings(used) == []
    assert findings(body(adding, returned="(j, k, g)")) == []


CHANGING = "f = f32[] convert(i) v = f32[8] broadcast(f), dimensions={} m = f32[8] multiply(y, v)"


def test_a_sum_in_a_fusion():
    fused = """inside { a = f32[8] parameter(0) h = f32[] constant(0.5) w = f32[8] broadcast(h), dimensions={}
      b = f32[8] parameter(1) c = f32[8] multiply(b, w) ROOT d = f32[8] add(a, c) }"""
    adding = f"{CHANGING} g = f32[8] all-reduce(m), {AR} k = f32[8] fusion(x, g), kind=kLoop, calls=inside"
    summed = body(adding, returned="(j, k, y)")
    assert findings(f"{fused}\n{summed}") == [("accumulated", 48 * 4, ("g",))]
    for other in ("add(a, a)", "subtract(a, c)", "multiply(a, c)"):
        assert findings(f"{fused.replace('add(a, c)', other)}\n{summed}") == [], other
    assert findings(f"{fused}\n{body(adding.replace('multiply(y', 'multiply(x'), returned='(j, k, y)')}") == []


def test_a_sum_whose_first_iteration_takes_a_constant():
    """As compilers for TPUs begin a sum."""
    fused = """inside { p = pred[] parameter(2) q = pred[8] broadcast(p), dimensions={} h = f32[] constant(0)
      w = f32[8] broadcast(h), dimensions={} a = f32[8] parameter(0) s = f32[8] select(q, w, a)
      b = f32[8] parameter(1) ROOT d = f32[8] add(s, b) }"""
    adding = f"""{CHANGING} g = f32[8] all-reduce(m), {AR} y0 = s32[] constant(0) o = s32[] copy(i)
      e = pred[] compare(o, y0), direction=EQ k = f32[8] fusion(x, g, e), kind=kLoop, calls=inside"""
    assert findings(f"{fused}\n{body(adding, returned='(j, k, y)')}") == [("accumulated", 48 * 4, ("g",))]
    for other in ("constant(0)", "direction=EQ"):
        changed = adding.replace(other, {"constant(0)": "constant(1)", "direction=EQ": "direction=NE"}[other])
        assert findings(f"{fused}\n{body(changed, returned='(j, k, y)')}") == [], other


def test_a_sum_of_several_arrays():
    made = f"""{CHANGING} g = (f32[8], f32[8]) all-reduce(v, v), {AR} a = f32[8] get-tuple-element(g), index=0
      b = f32[8] get-tuple-element(g), index=1 k = f32[8] add(x, a) l = f32[8] add(b, y)"""
    made = made.replace("m = f32[8] multiply(y, v)", "")
    assert findings(body(made, returned="(j, k, l)")) == [("accumulated", 96 * 4, ("g",))]
    assert findings(body(made.replace("add(b, y)", "add(b, b)"), returned="(j, k, l)")) == []
    assert findings(body(made.replace("add(b, y)", "add(b, k)"), returned="(j, k, l)")) == []


AROUND = "channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
READ = "ROOT o = f32[8] get-tuple-element(w), index="


def test_a_block_that_the_last_iteration_hands_on():
    """The ring's state is (counter, sum, block); only the sum is read behind the loop."""
    ring = body(f"k = f32[8] add(x, y) g = f32[8] collective-permute(y), {AROUND}", returned="(j, k, g)")
    ring = ring.replace("ROOT w", "w").replace("body=body }", f"body=body {READ}1 }}")
    assert findings(ring) == [("unread", 32, ("g",))]
    (found,) = xs.collectives(f"HloModule m, num_partitions=4\n{ring}").findings
    assert found.text == "Nothing reads what g brings in the last of 5 iterations."
    copied = ring.replace(f"{AROUND}", f"{AROUND} h = f32[8] copy(g)").replace("(j, k, g)", "(j, k, h)")
    assert findings(copied) == [("unread", 32, ("g",))]
    read = {
        "behind the loop": ring.replace("index=1 }", "index=2 }"),
        "in the iteration": ring.replace("(j, k, g)", "(j, g, g)"),
        "by the condition": ring.replace(
            "ROOT c = pred[] compare(i, n), direction=LT",
            "b = f32[8] get-tuple-element(s), index=2 f = f32[8] negate(b) ROOT c = pred[] compare(i, n), direction=LT",
        ),
    }
    for name, text in read.items():
        assert findings(text) == [], name


def test_an_argument_that_comes_divided_otherwise_than_it_is_used():
    """Devices 1 and 2 of 2 x 2 exchange what they have: the axes of the mesh change places."""
    pairs = "source_target_pairs={{0,0},{1,2},{2,1},{3,3}}"
    text = f"""ENTRY e {{ p = f32[8] parameter(0), metadata={{op_name="w"}} q = f32[8] parameter(1)
      g = f32[8] collective-permute(p), channel_id=1, {pairs}, frontend_attributes={{is_spmd_generated="true"}}
      ROOT a = f32[8] add(g, q) }}"""
    assert findings(text) == [("argument", 32, ("g",))]
    head = "HloModule m, num_partitions=4"
    (found,) = xs.collectives(f"{head}\n{text}", mesh="data=2,model=2").findings
    assert found.text == "g has the devices exchange their parts of the argument w before its first use."
    assert found.fix == (
        "Pass w divided with data and model exchanged in its PartitionSpec: nothing has to be sent for it."
    )
    (found,) = xs.collectives(f"{head}\n{text}", mesh="all=4").findings
    assert found.fix == "Pass w divided as it is used: nothing has to be sent for it."
    others = {
        "another use": text.replace("add(g, q)", "add(g, p)"),
        "no argument": text.replace("collective-permute(p)", "collective-permute(n)").replace(
            "g = ", "n = f32[8] negate(p) g = "
        ),
        "not all devices": text.replace("{0,0},", ""),
        "asked for": text.replace(', frontend_attributes={is_spmd_generated="true"}', ""),
    }
    for name, other in others.items():
        assert findings(other) == [], name
    donated = "HloModule m, num_partitions=4, input_output_alias={ {}: (0, {}, may-alias) }"
    assert findings(text, header=donated) == []


PARTS = """p = f32[8,16] parameter(0) id = u32[] partition-id() i = s32[] convert(id) n = s32[] constant(4)
  z = s32[] constant(0) o = s32[] multiply(i, n)"""


@pytest.mark.parametrize(
    ("made", "saved"),
    [
        ("g = f32[8,16] all-reduce(p), {AR} ROOT d = f32[8,4] dynamic-slice(g, z, o), dynamic_slice_sizes={8,4}", 384),
        ("g = f32[32,16] all-gather(p), {AG} ROOT d = f32[32,4] dynamic-slice(g, z, o), dynamic_slice_sizes={32,4}", 1152),
        ("e = s32[] constant(8) h = s32[] multiply(i, e) g = f32[32,16] all-gather(p), {AG}"
         " ROOT d = f32[8,16] dynamic-slice(g, h, z), dynamic_slice_sizes={8,16}", 1536),
        ("e = s32[] constant(8) t = s32[] constant(24) h = s32[] multiply(i, e) k = s32[] subtract(t, h)"
         " g = f32[32,16] all-gather(p), {AG} ROOT d = f32[8,16] dynamic-slice(g, k, z), dynamic_slice_sizes={8,16}", 1024),
        ("g = f32[8,16] all-reduce(p), {AR} ROOT d = f32[8,4] dynamic-slice(g, z, z), dynamic_slice_sizes={8,4}", None),
        ("g = f32[8,16] all-reduce(p), {AR} ROOT d = f32[8,8] dynamic-slice(g, z, o), dynamic_slice_sizes={8,8}", None),
        ("q = s32[] parameter(1) g = f32[8,16] all-reduce(p), {AR}"
         " ROOT d = f32[8,4] dynamic-slice(g, z, q), dynamic_slice_sizes={8,4}", None),
        ("g = f32[8,16] all-reduce(p), {AR} d = f32[8,4] dynamic-slice(g, z, o), dynamic_slice_sizes={8,4}"
         " ROOT t = (f32[8,16], f32[8,4]) tuple(g, d)", None),
    ],
    ids=["reduce-scatter", "all-to-all", "own part", "reversed", "same part", "overlapping", "argument", "used whole"],
)  # fmt: skip
def test_a_result_of_which_each_device_uses_a_part(made: str, saved: int | None):
    made = made.replace("{AR}", AR).replace("{AG}", AG)
    body, header = f"ENTRY e {{ {PARTS} {made} }}", "HloModule m, is_scheduled=true, num_partitions=4"
    found = [(kind, bytes_) for kind, bytes_, _ in findings(body, header=header)]
    assert found == ([] if saved is None else [("sliced", saved)])
    # Before XLA's optimizations, which make a reduce-scatter of a sum and a part of it.
    early = [kind for kind, _, _ in findings(body)]
    assert early == ([] if saved is None or "all-reduce" in made else ["sliced"])


BATCH = """ENTRY e { t = s32[4,6] parameter(0), sharding={mesh['x'=4], [{'x'}, {}]}
    w = f32[8,32] parameter(1), sharding={mesh['x'=4], [{'x'}, {}]} c = f32[] constant(1) x = f32[16,6,8] broadcast(c), dimensions={}
    d = f32[16,6,32] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
    ROOT r = f32[16,6,32] all-reduce(d), AR }""".replace("AR", AR)


def test_a_batch_that_is_not_divided_as_the_argument_is():
    """The ring sends 2 · 3/4 of the sum; the weights are gathered, 3 times what a device has, and again backwards."""
    assert findings(BATCH) == [("undivided", 2 * 3 * 16 * 6 * 32 * 4 // 4 - 2 * 3 * 8 * 32 * 4, ("r",))]
    flat = BATCH.replace("16,6,", "96,").replace("_dims={2}", "_dims={1}")
    assert findings(flat) == findings(BATCH)
    for before, after in {
        "[{'x'}, {}]}": "[{}, {'x'}]}",  # the batch is not divided
        "c = f32[] constant(1)": "c = f32[] constant(1) v = f32[16,6] parameter(2)",  # a weight has such sizes
        "s32[4,6]": "f32[4,6]",
        "dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}": "broadcast(w), dimensions={1,2}",
        AR: f'{AR}, metadata={{op_name="jit(f)/shard_map/psum"}}',
        "w = f32[8,32]": "w = f32[4096,32]",  # gathering the weights sends more than the sum
    }.items():
        changed = BATCH.replace(before, after).replace(*(("16,6,8]", "16,6,4096]") if "4096" in after else ("", "")))
        assert before in BATCH and findings(changed) == [], after
    image = "c = f32[] constant(1) v = f32[4,6,3] parameter(2), sharding={mesh['x'=4], [{'x'}, {}, {}]}"
    assert findings(BATCH.replace("c = f32[] constant(1)", image)) == findings(BATCH)
    labels = flat.replace("s32[4,6] parameter(0), sharding={mesh['x'=4], [{'x'}, {}]}", "s32[4] parameter(0), "
                          "sharding={mesh['x'=4], [{'x'}]}").replace("all-reduce(d)", "all-reduce(b)")  # fmt: skip
    labels = labels.replace("ROOT r = f32[96,32]", "b = f32[16,6,32] bitcast(d) ROOT r = f32[16,6,32]")
    assert "s32[4] " in labels and findings(labels) == findings(BATCH)


def test_only_sums_are_scattered_by_the_author():
    """`lax.psum_scatter` adds up. Of a maximum that the program asks for, there is no such operation."""
    made = f"g = f32[8,16] all-reduce(p), {AR} ROOT d = f32[8,4] dynamic-slice(g, z, o), dynamic_slice_sizes={{8,4}}"
    body = f"ENTRY e {{ {PARTS} {made} }}"
    header = "HloModule m, is_scheduled=true, num_partitions=4"
    most = f"{header}\nadd {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }}\n{body}"
    assert "lax.psum_scatter" in xs.collectives(f"{header}\n{ADD}{body}").findings[0].fix
    assert xs.collectives(most).findings == ()
    made_by_spmd = most.replace(f"{AR}", f'{AR}, frontend_attributes={{is_spmd_generated="true"}}')
    assert "with_sharding_constraint" in xs.collectives(made_by_spmd).findings[0].fix


def test_a_conversion_that_could_come_after():
    wide = f"""ENTRY e {{ p = bf16[8] parameter(0) c = f32[8] convert(p) ROOT g = f32[32] all-gather(c), {AG} }}"""
    assert findings(wide) == [("wide", 48, ("g",))]
    assert findings(wide, None) == findings(wide, "cpu") == []  # the CPU's compiler converts by itself
    assert findings(wide.replace("bf16", "s16").replace("f32", "s32"), None) == [("wide", 48, ("g",))]
    report = xs.collectives(f"HloModule m, num_partitions=4\n{ADD}{wide}", target="h100")
    assert report.rows[0].suggestion == "Exchange bf16 and convert after."
    assert findings(wide.replace("bf16", "f64")) == []
    summed = f"""ENTRY e {{ p = bf16[8] parameter(0) c = f32[8] convert(p) ROOT g = f32[8] all-reduce(c), {AR} }}"""
    assert findings(summed) == [("wide", 24, ("g",))]
    promoted = f"HloModule m, num_partitions=4\nadd_promoted{ADD[3:]}{summed}".replace(
        "apply=add", "apply=add_promoted"
    )
    report = xs.collectives(promoted, target="h100")
    assert report.findings == ()


def test_small_sums_that_do_not_need_each_other():
    chained = f"""ENTRY e {{ p = f32[8] parameter(0) g = f32[8] all-reduce(p), {AR} q = f32[8] negate(p)
      r = f32[8] all-reduce(q), {AR} s = f32[8] add(g, r) ROOT t = f32[8] all-reduce(s), {AR} }}"""
    assert findings(chained) == [("small", 0, ("g", "r", "t"))]
    assert "need only 2 rounds" in xs.collectives(f"HloModule m, num_partitions=4\n{ADD}{chained}").findings[0].text
    serial = chained.replace("q = f32[8] negate(p)", "q = f32[8] negate(g)")
    assert findings(serial) == []
