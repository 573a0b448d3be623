"""diff: each regression is the first row with its bytes, rewrites are silent, rows sum up to the differences of the
modules, hostile pairs end."""

from __future__ import annotations

import gzip
import itertools
import random
from pathlib import Path

import pytest
from neutral_rewrites import REWRITES, Rewrite
from seeded_regressions import REGRESSIONS, Regression, check_first, seed

import xlashape as xs
from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloModule
from xlashape.indexing import operand_reads
from xlashape.proto import xla
from xlashape.reports.diff import Diff, diff
from xlashape.reports.diff.measures import NOTHING, Measures, ModuleMeasures

VECTORS = Path(__file__).resolve().parents[3] / "vectors"
MODELS = [
    "attention.after",
    "convnet.after",
    "mlp_gelu.after",
    "loops.after",
    "gather_scatter.after",
    "reductions.after",
]


def model(name: str) -> HloModule:
    return HloModule.load(VECTORS / "hlo" / f"{name}.hlo.pb.gz")


def total(module: HloModule) -> Measures:
    return ModuleMeasures(module).total()


def check_sums(found: Diff, a: HloModule, b: HloModule) -> None:
    """The rows sum up to the totals, and those are the difference of what the modules cost by themselves."""
    rows = NOTHING
    for change in found.changes:
        rows = rows.plus(change.delta)
    assert rows._replace(flops=0) == total(b).minus(total(a))._replace(flops=0)
    for name, value in rows._asdict().items():
        if name != "flops":
            assert found.totals[f"delta_{name}"] == value
    costs = xs.cost(a), xs.cost(b)
    assert found.delta_bytes_read == costs[1].bytes_read - costs[0].bytes_read
    assert found.delta_bytes_written == costs[1].bytes_written - costs[0].bytes_written
    if all(each.is_exact for each in costs):
        assert found.delta_flops == rows.flops == costs[1].flops - costs[0].flops
        assert all(change.delta_flops is not None for change in found.changes)
    else:
        assert found.delta_flops is None
    for moved, column in ((xs.copies(a), "a"), (xs.copies(b), "b")):
        assert getattr(found.measure("copies"), column) == moved.copies
        assert getattr(found.measure("copies.bytes"), column) == moved.total_bytes


# -- regressions --------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("regression", REGRESSIONS.values(), ids=REGRESSIONS)
def test_a_seeded_regression_is_the_first_row(name: str, regression: Regression):
    found = seed(model(name), regression, random.Random(f"{name} {regression.__name__}"))
    if found is None:
        return  # the next test counts how often that is
    a, b, done = found
    made = diff(a, b)
    check_first(made, done)
    check_sums(made, a, b)
    assert not made.same


def test_nearly_all_models_have_a_place_for_each_regression():
    places = [
        seed(model(name), regression, random.Random(0)) is not None
        for name, regression in itertools.product(MODELS, REGRESSIONS.values())
    ]
    assert sum(places) >= 0.75 * len(places)


@pytest.mark.parametrize("name", ["attention.after", "loops.after"])
def test_many_regressions_at_once_sum_up(name: str):
    rng = random.Random(name)
    module = model(name)
    proto = module.to_proto()
    for regression in REGRESSIONS.values():
        regression(proto, rng)
    changed = HloModule.from_proto(proto)
    check_sums(diff(module, changed), module, changed)
    check_sums(diff(changed, module), changed, module)


HEAD = "HloModule m\n"
SPLIT = [
    HEAD
    + """f { p = f32[64,64] parameter(0) n = f32[64,64] negate(p) e = f32[64,64] exponential(n) ROOT a = f32[64,64] abs(e) }
ENTRY e { x = f32[64,64] parameter(0) ROOT fusion = f32[64,64] fusion(x), kind=kLoop, calls=f }""",
    HEAD
    + """f1 { p = f32[64,64] parameter(0) n = f32[64,64] negate(p) ROOT e = f32[64,64] exponential(n) }
f2 { p = f32[64,64] parameter(0) ROOT a = f32[64,64] abs(p) }
ENTRY e { x = f32[64,64] parameter(0) one = f32[64,64] fusion(x), kind=kLoop, calls=f1 ROOT two = f32[64,64] fusion(one), kind=kLoop, calls=f2 }""",
]
GROWN = [
    HEAD
    + """f { p = f32[64,64] parameter(0) ROOT n = f32[64,64] negate(p) }
ENTRY e { x = f32[64,64] parameter(0) c = f32[64,64] cosine(x) ROOT fusion = f32[64,64] fusion(c), kind=kLoop, calls=f }""",
    HEAD
    + """f { p = f32[64,64] parameter(0) c = f32[64,64] cosine(p) ROOT n = f32[64,64] negate(c) }
ENTRY e { x = f32[64,64] parameter(0) ROOT fusion = f32[64,64] fusion(x), kind=kLoop, calls=f }""",
]
FUSED = [
    HEAD + "ENTRY e { x = f32[64,64] parameter(0) c = f32[64,64] cosine(x) ROOT n = f32[64,64] negate(c) }",
    HEAD
    + """f { p = f32[64,64] parameter(0) c = f32[64,64] cosine(p) ROOT n = f32[64,64] negate(c) }
ENTRY e { x = f32[64,64] parameter(0) ROOT fusion = f32[64,64] fusion(x), kind=kLoop, calls=f }""",
]


@pytest.mark.parametrize(
    ("texts", "word", "back", "bytes_"),
    [
        (SPLIT, "fusion split", "fusion merged", 16384),
        (GROWN, "fusion grown", "fusion shrunk", -16384),
        (FUSED, "fused", "unfused", -16384),
    ],
    ids=["split", "grown", "fused"],
)
def test_fusions_that_change_their_members_are_one_row(texts: list[str], word: str, back: str, bytes_: int):
    for (one, other), expected, delta in ((texts, word, bytes_), (texts[::-1], back, -bytes_)):
        made = diff(one, other)
        assert len(made.changes) == 1
        change = made.changes[0]
        assert (change.kind, change.what[0], str(change.opcode), change.delta_bytes) == (
            "changed",
            expected,
            "fusion",
            delta,
        )
        check_sums(made, HloModule.parse(one), HloModule.parse(other))


def test_parts_of_arrays_are_read_and_written_as_parts():
    one = """HloModule m
ENTRY e { p = f32[1024] parameter(0) i = s32[] parameter(1) s = f32[4] slice(p), slice={[0:4]}
  ROOT u = f32[1024] dynamic-update-slice(p, s, i) }"""
    # The slice reads and writes four more elements; the update reads and writes four more, and the rest stays.
    made = diff(one, one.replace("f32[4]", "f32[8]").replace("0:4", "0:8"))
    assert (made.delta_bytes_read, made.delta_bytes_written) == (2 * 16, 2 * 16)


def test_of_a_conditional_the_branch_with_most_flops_is_read_and_written():
    one = """HloModule m
some { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
more { q = f32[8] parameter(0) a = f32[8] add(q, q) ROOT b = f32[8] add(a, a) }
ENTRY e { c = pred[] parameter(0) x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(c, x, x), true_computation=some, false_computation=more }"""
    made = diff(one, one.replace("negate(p)", "copy(p)"))
    assert (made.delta_bytes_read, made.delta_bytes_written) == (0, 0)
    made = diff(one, one.replace("b = f32[8] add(a, a)", "b = f32[8] add(a, q)"))
    assert (made.delta_bytes_read, made.delta_bytes_written) == (32, 0)


def test_a_loop_that_runs_more_often_is_one_row():
    text = """HloModule m
body { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[64] get-tuple-element(p), index=1
one = s32[] constant(1) n = s32[] add(i, one) c = f32[64] copy(x) y = f32[64] multiply(c, c) ROOT r = (s32[], f32[64]) tuple(n, y) }
cond { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 k = s32[] constant(5) ROOT l = pred[] compare(i, k), direction=LT }
ENTRY e { x = f32[64] parameter(0) z = s32[] constant(0) t = (s32[], f32[64]) tuple(z, x) ROOT l = (s32[], f32[64]) while(t), condition=cond, body=body }"""
    longer = text.replace("constant(5)", "constant(7)")
    made = diff(text, longer)
    first = made.changes[0]
    assert (first.what, str(first.opcode), first.details) == (("iterations",), "while", "iterations 5 → 7")
    # Two more iterations: a copy that reads and writes 256 bytes, 64 products and the counter.
    assert (first.delta_copy_bytes, first.delta_flops) == (2 * 512, 2 * (64 + 1) + 2)
    assert [(change.what, change.delta_flops) for change in made.changes[1:]] == [(("value",), 0)]
    check_sums(made, HloModule.parse(text), HloModule.parse(longer))


def test_a_schedule_is_a_row_where_the_peak_is_another():
    lines = [
        "p = f32[1024] parameter(0)",
        "a = f32[4096] pad(p, p0), padding=0_3072",
        "b = f32[4] slice(a), slice={[0:4]}",
        "c = f32[4096] pad(p, p0), padding=1_3071",
        "d = f32[4] slice(c), slice={[0:4]}",
    ]

    def scheduled(order: str) -> str:
        chosen = " ".join([line for name in order for line in lines if line.startswith(f"{name} ")])
        return (
            f"HloModule m, is_scheduled=true\nENTRY e {{ p0 = f32[] constant(0) {chosen} ROOT s = f32[4] add(b, d) }}"
        )

    made = diff(scheduled("pabcd"), scheduled("pacbd"))
    assert [(change.kind, change.what, change.delta_bytes) for change in made.changes] == [
        ("changed", ("schedule",), 0)
    ]
    assert made.fingerprint_a == made.fingerprint_b and made.delta_peak_bytes > 16_000
    assert made.changes[0].details.startswith("1 of 7 instructions run at another place, first ")
    # Another order that costs nothing is no change, and can be ignored where it is one.
    assert diff(scheduled("pabcd"), scheduled("pcdab")).same
    told = diff(scheduled("pabcd"), scheduled("pcdab"), schedule=True)
    assert [change.what for change in told.changes] == [("schedule",)] and told.delta_peak_bytes == 0
    assert diff(scheduled("pabcd"), scheduled("pacbd"), ignore=["schedule"]).same


def test_segments_are_told_where_reads_differ():
    text = f"{HEAD}ENTRY e {{ p = f32[64,256] parameter(0) n = f32[64,256] negate(p) ROOT a = f32[64,256] abs(n) }}"
    made = diff(text, text.replace("n = f32[64,256]", "n = f32[64,256]{0,1}"))
    # The negation reads rows and writes columns, the absolute value reads columns: 32 segments each instead of one.
    assert [(change.what, change.delta_segments) for change in made.changes] == [(("layout",), 62.0)]
    reads = [
        sum([read.accesses[0].segments or 0 for each in module.entry.instructions[1:] for read in operand_reads(each)])
        for module in made.modules
    ]
    assert reads[1] - reads[0] == 62
    assert [change.delta_segments for change in diff(text, text.replace("abs", "exponential")).changes] == [None]


def test_an_inlined_call_moves_what_it_called():
    body = "c { x = f32[64] parameter(0) m = f32[64] multiply(x, x) ROOT t = f32[64] tanh(m) }"
    called = (
        f"{HEAD}{body} ENTRY e {{ p = f32[64] parameter(0) a = f32[64] abs(p) ROOT c = f32[64] call(a), to_apply=c }}"
    )
    inlined = f"{HEAD}ENTRY e {{ p = f32[64] parameter(0) a = f32[64] abs(p) m = f32[64] multiply(a, a) ROOT t = f32[64] tanh(m) }}"
    made = diff(called, inlined)
    assert {change.kind for change in made.changes if str(change.opcode) in ("multiply", "tanh")} <= {"moved"}
    assert not any(change.kind == "added" for change in made.changes)


def test_a_change_in_a_loop_is_ranked_by_all_its_runs():
    def program(inside: str, outside: str) -> str:
        return f"""HloModule m
body {{ p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[64] get-tuple-element(p), index=1
one = s32[] constant(1) n = s32[] add(i, one) {inside} ROOT r = (s32[], f32[64]) tuple(n, y) }}
cond {{ p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 k = s32[] constant(50) ROOT l = pred[] compare(i, k), direction=LT }}
ENTRY e {{ x = f32[64] parameter(0) v = f32[512] parameter(1) z = s32[] constant(0) t = (s32[], f32[64]) tuple(z, x)
l = (s32[], f32[64]) while(t), condition=cond, body=body {outside} ROOT a = ((s32[], f32[64]), f32[512]) tuple(l, u) }}"""

    plain = program("y = f32[64] sine(x)", "u = f32[512] tanh(v)")
    copied = program("c = f32[64] copy(x) y = f32[64] sine(c)", "d = f32[512] copy(v) u = f32[512] tanh(d)")
    # 50 runs of 256 bytes are more than one of 2 KiB.
    assert [(c.b, c.runs, c.delta_bytes, c.delta_copy_bytes) for c in diff(plain, copied).changes] == [
        ("c", 50, 256, 50 * 512),
        ("d", 1, 2048, 4096),
    ]


def test_peaks_are_compared_like_with_like():
    """A dump with XLA's assignment of buffers, and the same module without: both are estimated, and the same."""
    dump = Path(__file__).parents[3] / "vectors" / "memory" / "mlp_loss_grad.hlo.pb"
    exact = HloModule.load(dump)
    bare = HloModule.from_proto(exact.proto)
    peak = diff(exact, bare).measure("peak_bytes")
    assert (peak.delta, peak.note) == (0, "estimated")
    assert peak.a == xs.memory(bare).peak_bytes and xs.memory(bare).is_estimate and not xs.memory(exact).is_estimate
    both = diff(exact, exact).measure("peak_bytes")
    assert (both.a, both.note) == (xs.memory(exact).peak_bytes, None)


def test_a_missing_alias_costs_a_buffer():
    text = (
        HEAD
        + """ENTRY e { x = f32[64,64] parameter(0) c = f32[64,64] negate(x)
ROOT k = f32[64,64] custom-call(c), custom_call_target="update", output_to_operand_aliasing={{}: (0, {})} }"""
    )
    made = diff(text, text.replace(", output_to_operand_aliasing={{}: (0, {})}", ""))
    assert [(c.kind, c.what, c.b, c.delta_bytes) for c in made.changes] == [("changed", ("aliasing",), "k", 16384)]


def test_repeated_layers_that_changed_alike_are_one_row():
    def layers(opcode: str) -> str:
        lines = ["x0 = f32[8,8] parameter(0)"]
        for i in range(24):
            lines += [
                f"w{i} = f32[8,8] parameter({i + 1})",
                f"d{i} = f32[8,8] dot(x{i}, w{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                f"{'ROOT ' if i == 23 else ''}x{i + 1} = f32[8,8] {opcode}(d{i})",
            ]
        return f"{HEAD}ENTRY e {{ {' '.join(lines)} }}"

    made = diff(layers("tanh"), layers("logistic"))
    assert [(c.kind, c.what, c.times, c.details) for c in made.changes] == [
        ("changed", ("opcode",), 24, "opcode tanh → logistic")
    ]


def test_an_instruction_that_leaves_a_loop_has_moved():
    text = """HloModule m
body {{ p = (s32[], f32[64], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[64] get-tuple-element(p), index=1
w = f32[64] get-tuple-element(p), index=2 {inside} y = f32[64] multiply(x, {weight}) one = s32[] constant(1) n = s32[] add(i, one)
ROOT r = (s32[], f32[64], f32[64]) tuple(n, y, w) }}
cond {{ p = (s32[], f32[64], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0 k = s32[] constant(9)
ROOT l = pred[] compare(i, k), direction=LT }}
ENTRY e {{ x = f32[64] parameter(0) w = f32[64] parameter(1) z = s32[] constant(0) {outside}
t = (s32[], f32[64], f32[64]) tuple(z, x, {carried}) ROOT l = (s32[], f32[64], f32[64]) while(t), condition=cond, body=body }}"""
    inside = text.format(inside="e = f32[64] exponential(w)", weight="e", outside="", carried="w")
    outside = text.format(inside="", weight="w", outside="e = f32[64] exponential(w)", carried="e")
    made = diff(inside, outside)
    assert [(c.kind, str(c.opcode), c.a, c.b) for c in made.changes] == [("moved", "exponential", "e", "e")]


def test_parameters_may_be_inserted_first():
    one = (
        HEAD
        + "ENTRY e { a = f32[8] parameter(0) b = f32[8] parameter(1) s = f32[8] subtract(a, b) ROOT n = f32[8] negate(s) }"
    )
    two = HEAD + (
        "ENTRY e { z = f32[8] parameter(0) a = f32[8] parameter(1) b = f32[8] parameter(2) s = f32[8] subtract(a, b)"
        " n = f32[8] negate(s) ROOT t = f32[8] add(n, z) }"
    )
    made = diff(one, two)
    assert {(c.kind, c.what, str(c.opcode), c.times) for c in made.changes} == {
        ("added", (), "parameter", 1),
        ("added", (), "add", 1),
        ("changed", ("parameter number",), "parameter", 1),
    } or sum(c.times for c in made.changes) == 4
    check_sums(made, HloModule.parse(one), HloModule.parse(two))


def test_backend_configurations_are_compared_by_key():
    text = (
        HEAD
        + 'ENTRY e { x = f32[8] parameter(0) ROOT c = f32[8] custom-call(x), custom_call_target="k", backend_config=CONFIG }'
    )
    made = diff(
        text.replace("CONFIG", '{"a":{"tile":["8"],"x":1}}'),
        text.replace("CONFIG", '{"a":{"x":1,"tile":["16"]},"new":true}'),
    )
    assert made.changes[0].what == ("backend_config.a.tile", "backend_config.new")
    assert made.changes[0].details == 'backend_config.a.tile ["8"] → ["16"], backend_config.new none → true'


# -- silence ------------------------------------------------------------------------------


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("name", MODELS[:4])
def test_neutral_rewrites_are_silent(name: str, rewrite: Rewrite):
    module = model(name)
    made = diff(module, HloModule.from_proto(rewrite(module.proto, random.Random(name))))
    assert made.same and made.changes == ()
    assert made.fingerprint_a == made.fingerprint_b
    assert made.delta_bytes == made.delta_instructions == 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("regression", [REGRESSIONS["new_copy"], REGRESSIONS["widened_type"]], ids=["copy", "type"])
def test_a_regression_is_found_behind_all_rewrites(name: str, regression: Regression):
    """Other names, ids, orders and metadata do not hide the only change, nor add to it."""
    found = seed(model(name), regression, random.Random(name))
    assert found is not None
    a, b, done = found
    rewritten = HloModule.from_proto(REWRITES["all_at_once"](b.proto, random.Random(name)))
    made = diff(a, rewritten)
    assert (made.changes[0].kind, made.changes[0].a, made.changes[0].delta_bytes) == (
        done.kind,
        done.a,
        done.delta_bytes,
    )
    assert len(made.changes) == 1


def test_elided_constants_are_not_compared_with_known_ones():
    text = HEAD + "ENTRY e { ROOT c = f32[12] constant(VALUE) }"
    known = text.replace("VALUE", f"{{{', '.join(['1.5'] * 12)}}}")
    made = diff(known, text.replace("VALUE", "{...}"))
    assert [(c.kind, c.what) for c in made.changes] == [] or made.changes[0].what == ("order",)


# -- sums ---------------------------------------------------------------------------------


def _dumps() -> list[tuple[str, HloModule]]:
    found = [(path.name, HloModule.load(path)) for path in sorted((VECTORS / "hlo").glob("*.hlo"))]
    found += [
        (path.name, HloModule.parse(gzip.decompress(path.read_bytes()).decode()))
        for path in sorted((VECTORS / "versions").glob("jax-*.txt.gz"))
    ]
    return [(name, module) for name, module in found if sum(1 for _ in module.instructions()) < 600]


def test_rows_sum_up_to_the_totals_on_60_pairs_of_dumps():
    """Modules of the same and of other programs, before and after optimizations, of several versions of jaxlib."""
    dumps = _dumps()
    rng = random.Random(60)
    pairs = [(dumps[i], dumps[(i + step) % len(dumps)]) for step in (1, 2) for i in range(len(dumps))]
    for (_, a), (_, b) in rng.sample(pairs, 60):
        made = diff(a, b)
        check_sums(made, a, b)
        assert made.same == (a.fingerprint() == b.fingerprint())


PAIRS = sorted(path.name.removeprefix("jax-0.10.2.") for path in (VECTORS / "pairs").glob("jax-0.10.2.*"))
# Programs that jaxlib 0.10.2 and 0.12.0.1 compile differently for the CPU, with what diff says first.
COMPILED_DIFFERENTLY = {
    "bf16": ("removed", "convert"),
    "dynamic_slice": ("added", "call"),
    "fft": ("added", "multiply"),
    "psum": ("changed", "parameter"),
    "random": ("added", "call"),
    "remat": ("added", "fusion"),
    "reshard": ("changed", "parameter"),
    "scan": ("changed", "fusion"),
    "sharded": ("changed", "parameter"),
    "topk": ("changed", "custom-call"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_versions_of_jaxlib(name: str):
    """Programs compiled by jaxlib 0.10.2 and 0.12.0.1: what is the same is silent, whatever names, ids and metadata
    are; the rest sums up."""
    a, b = (HloModule.load(VECTORS / "pairs" / f"jax-{version}.{name}") for version in ("0.10.2", "0.12.0.1"))
    made = diff(a, b)
    check_sums(made, a, b)
    expected = COMPILED_DIFFERENTLY.get(name.partition(".")[0])
    first = (made.changes[0].kind, str(made.changes[0].opcode)) if made.changes else None
    assert first == expected
    assert made.same == (a.fingerprint() == b.fingerprint())


def test_versions_of_jaxlib_are_compared_with_30_programs():
    assert len(PAIRS) >= 30
    assert COMPILED_DIFFERENTLY.keys() <= {name.partition(".")[0] for name in PAIRS}


# -- hostile pairs ------------------------------------------------------------------------


def _chain(length: int, opcode: str) -> HloModule:
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    computation = xla.HloComputationProto(name="e", id=1, root_id=length)
    computation.instructions.add(name="p", id=1, opcode="parameter", shape=shape)
    for number in range(2, length + 1):
        computation.instructions.add(name=f"i{number}", id=number, opcode=opcode, shape=shape, operand_ids=[number - 1])
    return HloModule.from_proto(xla.HloModuleProto(name="m", computations=[computation], entry_computation_id=1))


def _equal(count: int, opcode: str) -> HloModule:
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[4])
    computation = xla.HloComputationProto(name="e", id=1, root_id=1)
    computation.instructions.add(name="p", id=1, opcode="parameter", shape=shape)
    for number in range(2, count + 2):
        computation.instructions.add(name=f"i{number}", id=number, opcode=opcode, shape=shape, operand_ids=[1])
    return HloModule.from_proto(xla.HloModuleProto(name="m", computations=[computation], entry_computation_id=1))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (lambda: _chain(20_000, "negate"), lambda: _chain(19_990, "negate")),
        (lambda: _chain(10_000, "negate"), lambda: _chain(10_000, "abs")),
        (lambda: _equal(20_000, "negate"), lambda: _equal(19_990, "negate")),
        (lambda: _equal(20_000, "negate"), lambda: _equal(20_000, "abs")),
        (lambda: _chain(10_000, "negate"), lambda: _equal(10_000, "negate")),
        (lambda: _chain(1, "negate"), lambda: model("loops.after")),
        (lambda: model("random_numbers.before"), lambda: model("gather_scatter.after")),
    ],
    ids=["chains", "other chains", "equal", "other equal", "chain and equal", "empty", "unrelated"],
)
def test_hostile_pairs_end(a, b):
    one, other = a(), b()
    check_sums(diff(one, other), one, other)


# -- the answer ---------------------------------------------------------------------------

COPY = [
    HEAD + "ENTRY e { p = f32[256] parameter(0) ROOT n = f32[256] negate(p) }",
    HEAD + "ENTRY e { p = f32[256] parameter(0) c = f32[256] copy(p) ROOT n = f32[256] negate(c) }",
]


def test_text_has_the_numbers_that_changed_first():
    assert diff(*COPY).headline() == (
        "1 change, copied +2.00 KiB, buffers +1.00 KiB\n"
        "instructions       2 → 3 (+1)\n"
        "copies             0 → 1 (+1)\n"
        "copied             0 B → 2.00 KiB (+2,048 bytes)\n"
        "buffers            2.00 KiB → 3.00 KiB (+1,024 bytes)\n"
        "read               1.00 KiB → 2.00 KiB (+1,024 bytes)\n"
        "written            1.00 KiB → 2.00 KiB (+1,024 bytes)"
    )
    assert diff(COPY[0], COPY[0]).headline().startswith("The same program: 1:")


def test_instructions_side_by_side():
    assert diff(*COPY).side_by_side(0) == "+ %c = f32[256]{0} copy(%p)"


def test_what_is_ignored():
    made = diff(*COPY, ignore=["copy"])
    assert made.same and made.ignored == 1
    assert made.headline() == "No changes but 1 that are ignored"
    assert not diff(*COPY, ignore=["layout"]).same
    with pytest.raises(InvalidArgumentError) as caught:
        diff(*COPY, ignore=["layuot"])
    assert "did you mean 'layout'?" in str(caught.value)


def test_measures_by_name():
    made = diff(*COPY)
    assert made.measure("copies.bytes").delta == 2048
    with pytest.raises(InvalidArgumentError) as caught:
        made.measure("copy.bytes")
    assert "did you mean 'copies.bytes'?" in str(caught.value)


def test_which_instructions_share_a_channel_counts_and_its_number_does_not():
    text = """HloModule m
    s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { p = f32[8] parameter(0) q = f32[8] parameter(1)
      x = f32[8] all-reduce(p), channel_id=FIRST, to_apply=s, replica_groups={}
      y = f32[8] all-reduce(q), channel_id=SECOND, to_apply=s, replica_groups={}
      ROOT t = (f32[8], f32[8]) tuple(x, y) }"""
    one, renumbered, shared = [
        text.replace("FIRST", first).replace("SECOND", second) for first, second in (("1", "2"), ("4", "3"), ("5", "5"))
    ]
    assert diff(one, renumbered).same
    assert [each.what for each in diff(one, shared).changes] == [("order",)]
