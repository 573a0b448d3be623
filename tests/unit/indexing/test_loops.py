"""While loops, run iteration by iteration in NumPy: their maps name what some number of iterations leads to."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hlo_builder import Builder
from while_loops import COUNTS, Parts, below, check, counted, counter_below, drawn, loop, maps, shape_of

from xlashape import indexing
from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo import HloModule
from xlashape.indexing.walk import analysis
from xlashape.indexing.walk.repeated import iterations
from xlashape.indexing.walk.repeated.trip_count import trip_count
from xlashape.limits import budget


def test_an_elementwise_body() -> None:
    """An elementwise body; how often it runs depends on what the condition reads."""
    parts = ["s32[]", "s32[]", "f32[4]", "f32[4]"]
    b = Parts("body", parts)
    total = b.builder.op("add", "f32[4]", [b.at[2], b.at[3]])
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], total, b.at[3]])
    root = loop(b.builder, below(parts), parts)
    check(root, counter_below, drawn(parts, COUNTS))
    same, scalar = "(d0) -> (d0), domain: d0 in [0, 3]", "(d0) -> (), domain: d0 in [0, 3]"
    assert maps(root, 2) == [(0, scalar), (1, scalar), (2, same), (3, same)]
    assert maps(root, 3) == [(3, same)]
    assert maps(root, 1) == [(1, "() -> ()")]
    assert indexing.output_to_input(root, 2)[0].knowledge is indexing.Knowledge.EXACT


def test_a_known_number_of_iterations() -> None:
    """Reversed three times and moved by three; the number is known, so nothing depends on the counter."""
    parts = ["s32[]", "f32[6]", "f32[6]"]
    b = Parts("body", parts)
    zero = b.builder.constant("f32[]", [0])
    turned = b.builder.op("reverse", "f32[6]", [b.at[1]], dimensions=[0])
    config = {"dimensions": [{"edge_padding_low": 1, "edge_padding_high": -1, "interior_padding": 0}]}
    moved = b.builder.op("pad", "f32[6]", [b.at[2], zero], padding_config=config)
    b.builder.op("tuple", shape_of(parts), [counted(b), turned, moved])
    for count in (0, 1, 3, 4, 100):
        stated = b'{"known_trip_count":{"n":"%d"}}' % count
        root = loop(b.builder, below(parts, limit=None, value=count), parts, backend_config=stated)
        check(root, lambda done, _, count=count: done < min(count, 90), drawn(parts, [(0,)]))
    root = loop(b.builder, below(parts, limit=None, value=3), parts, backend_config=b'{"known_trip_count":{"n":"3"}}')
    assert maps(root, 1) == [(1, "(d0) -> (-d0 + 5), domain: d0 in [0, 5]")]
    assert maps(root, 2) == [(2, "(d0) -> (d0 - 3), domain: d0 in [3, 5]")]
    assert maps(root, 0) == [(0, "() -> ()")]


def test_a_number_of_iterations_that_a_counter_shows() -> None:
    parts = ["s32[]", "f32[6]"]

    def made(first: int, limit: int, step: int, direction: str, opcode: str = "add", swap: bool = False) -> int | None:
        b = Parts("body", parts)
        turned = b.builder.op("reverse", "f32[6]", [b.at[1]], dimensions=[0])
        b.builder.op("tuple", shape_of(parts), [counted(b, by=step, opcode=opcode), turned])
        c = Parts("condition", parts)
        sides = [c.at[0], c.builder.constant("s32[]", [limit])]
        c.builder.op("compare", "pred[]", sides[::-1] if swap else sides, comparison_direction=direction)
        builder = Builder()
        state = builder.op("tuple", shape_of(parts), [builder.constant("s32[]", [first]), builder.parameter("f32[6]")])
        builder.op("while", shape_of(parts), [state], calls=[b.builder, c.builder])
        root = builder.root()
        found = trip_count(root, *root.called_computations)
        turns = [str(one.map) for one in indexing.output_to_ancestor(root, root.computation.parameters[0], 1)]
        forward, back = "(d0) -> (d0), domain: d0 in [0, 5]", "(d0) -> (-d0 + 5), domain: d0 in [0, 5]"
        assert sorted(turns) == sorted({forward, back} if found is None else {back if found % 2 else forward})
        return found

    tests: dict[str, Callable[[int, int], bool]] = {
        "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
        "NE": lambda a, b: a != b,
    }  # fmt: skip
    mirrored = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}
    r = random.Random(0)
    for direction, holds in tests.items():
        for _ in range(12):
            first, limit, step = r.randint(-4, 4), r.randint(-4, 4), r.choice([-3, -1, 0, 1, 2, 3])
            value, count = first, 0
            while holds(value, limit) and count < 50:
                value, count = value + step, count + 1
            expected = None if count == 50 else count
            assert made(first, limit, step, direction) == expected, (first, limit, step, direction)
            assert made(first, limit, -step, direction, "subtract") == expected
            assert made(first, limit, step, mirrored[direction], swap=True) == expected
    assert made(0, 4, 1, "EQ") == 0 and made(4, 4, 1, "EQ") == 1 and made(4, 4, 0, "EQ") is None
    assert made(0, (1 << 31) - 1, 2, "LT") is None  # the counter would not fit its type
    assert made(0, (1 << 31) - 2, 2, "LT") == (1 << 30) - 1


@pytest.mark.parametrize(
    "config",
    [
        b"", b"known_trip_count", b'{"known_trip_count":', b'{"known_trip_count":3}', b'{"known_trip_count":{"n":"-1"}}',
        b'{"known_trip_count":{"n":true}}', b'{"known_trip_count":{"n":"x"}}', b'["known_trip_count"]', b'{"known_trip_count":{}}',
        b'{"known_trip_count":' + b"[" * 20_000, b'{"known_trip_count":{"n":"' + b"9" * 10_000 + b'"}}', b'\xff{"known_trip_count"',
    ],
)  # fmt: skip
def test_a_stated_number_that_says_nothing(config: bytes) -> None:
    parts = ["s32[]", "s32[]", "f32[4]"]
    b = Parts("body", parts)
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], b.builder.op("negate", "f32[4]", [b.at[2]])])
    root = loop(b.builder, below(parts), parts, backend_config=config)
    assert trip_count(root, *root.called_computations) is None
    assert [leaf for leaf, _ in maps(root, 2)] == [0, 1, 2]


SCAN_OVER_ROWS = """HloModule m
body {
  p = (s32[], f32[3], f32[7,3], f32[7,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  sum = f32[3] get-tuple-element(p), index=1
  ys = f32[7,3] get-tuple-element(p), index=2
  xs = f32[7,3] get-tuple-element(p), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  seven = s32[] constant(7)
  next = s32[] add(i, one)
  negative = pred[] compare(i, zero), direction=LT
  wrapped = s32[] add(i, seven)
  row = s32[] select(negative, wrapped, i)
  x = f32[1,3] dynamic-slice(xs, row, zero), dynamic_slice_sizes={1,3}
  y = f32[1,3] negate(x)
  flat = f32[3] reshape(y)
  more = f32[3] add(sum, flat)
  written = f32[7,3] dynamic-update-slice(ys, y, row, zero)
  ROOT r = (s32[], f32[3], f32[7,3], f32[7,3]) tuple(next, more, written, xs)
}
condition {
  p = (s32[], f32[3], f32[7,3], f32[7,3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(7)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  xs = f32[7,3] parameter(0)
  sum = f32[3] parameter(1)
  nothing = f32[] constant(0)
  first = s32[] constant(0)
  ys = f32[7,3] broadcast(nothing), dimensions={}
  state = (s32[], f32[3], f32[7,3], f32[7,3]) tuple(first, sum, ys, xs)
  loop = (s32[], f32[3], f32[7,3], f32[7,3]) while(state), condition=condition, body=body
  last = f32[3] get-tuple-element(loop), index=1
  stacked = f32[7,3] get-tuple-element(loop), index=2
  ROOT t = (f32[3], f32[7,3]) tuple(last, stacked)
}
"""


def test_a_loop_as_programs_write_their_scans() -> None:
    """Each row of the result comes from the same row, the sum from all; nothing from the counter."""
    root = HloModule.parse(SCAN_OVER_ROWS).entry.root
    xs, first = root.computation.parameters
    last, stacked = (indexing.output_to_ancestors(root, output) for output in range(2))
    assert [str(one.map) for one in last[xs]] == ["(d0)[s0] -> (s0, d0), domain: d0 in [0, 2], s0 in [0, 6]"]
    assert [str(one.map) for one in last[first]] == ["(d0) -> (d0), domain: d0 in [0, 2]"]
    assert [str(one.map) for one in stacked[xs]] == ["(d0, d1) -> (d0, d1), domain: d0 in [0, 6], d1 in [0, 2]"]
    assert first not in stacked or not stacked[first]


def test_what_changes_places() -> None:
    """Three arrays change places, one of them reversed; any number of iterations."""
    parts = ["s32[]", "s32[]", "f32[3]", "f32[3]", "f32[3]"]
    b = Parts("body", parts)
    turned = b.builder.op("reverse", "f32[3]", [b.at[2]], dimensions=[0])
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], b.at[3], b.at[4], turned])
    root = loop(b.builder, below(parts), parts)
    check(root, counter_below, drawn(parts, [(0, n) for n in range(6)] + [(3, 1)]))
    for count in range(8):
        stated = b'{"known_trip_count":{"n":"%d"}}' % count
        root = loop(b.builder, below(parts), parts, backend_config=stated)
        check(root, lambda done, _, count=count: done < count, drawn(parts, [(0, 0)]))


def test_the_condition_reads_an_array() -> None:
    """The loop goes on while the sum of an array, which the body changes, is small."""
    parts = ["f32[3]", "f32[3]", "f32[2]"]
    b = Parts("body", parts)
    more = b.builder.op("add", "f32[3]", [b.at[0], b.at[1]])
    b.builder.op(
        "tuple", shape_of(parts), [more, b.at[1], b.builder.op("reverse", "f32[2]", [b.at[2]], dimensions=[0])]
    )
    c = Parts("condition", parts)
    zero, limit = c.builder.constant("f32[]", [0]), c.builder.constant("f32[]", [20])
    total = c.builder.op("reduce", "f32[]", [c.at[0], zero], dimensions=[0])
    c.builder.op("compare", "pred[]", [total, limit], comparison_direction="LT")
    root = loop(b.builder, c.builder, parts)
    rng = np.random.default_rng(0)
    draws = [[rng.random(3) * 9, rng.random(3) * 5 + 0.5, rng.random(2)] for _ in range(200)]
    check(root, lambda _, values: bool(values[0].sum() < 20), draws)


def random_loop(r: random.Random) -> tuple[list[str], Builder]:
    parts = ["s32[]", "s32[]", *["f32[3]"] * r.randint(1, 3)]
    b = Parts("body", parts)
    zero = b.builder.constant("f32[]", [0])
    results = [counted(b), b.at[1]]
    for _ in parts[2:]:
        changed = []
        for at in r.sample(b.at[2:], r.randint(1, min(2, len(parts) - 2))):
            kind = r.choice(["same", "turned", "moved"])
            if kind == "turned":
                at = b.builder.op("reverse", "f32[3]", [at], dimensions=[0])
            elif kind == "moved":
                config = {"edge_padding_low": 1, "edge_padding_high": -1, "interior_padding": 0}
                at = b.builder.op("pad", "f32[3]", [at, zero], padding_config={"dimensions": [config]})
            changed.append(at)
        results.append(changed[0] if len(changed) == 1 else b.builder.op("add", "f32[3]", changed))
    b.builder.op("tuple", shape_of(parts), results)
    return parts, b.builder


@pytest.mark.parametrize("seed", range(30))
def test_random_loops(seed: int) -> None:
    r = random.Random(seed)
    parts, body = random_loop(r)
    root = loop(body, below(parts), parts)
    counts = [(0, n) for n in range(12)] + [(3, 0)]
    # A body may come to rest, all zeros: whether one iteration more makes a difference is not said element by element.
    by_control = [(number, output) for number in (0, 1) for output in range(2, len(parts))]
    check(root, counter_below, drawn(parts, counts, seed), loose=by_control)
    count = r.randint(0, 7)
    root = loop(body, below(parts), parts, backend_config=b'{"known_trip_count":{"n":%d}}' % count)
    check(root, lambda done, _: done < count, drawn(parts, [(0, 0)], seed))


def test_maps_that_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that moves in every iteration: its maps become "every element". Maps of other arrays stay exact."""
    monkeypatch.setattr(iterations, "MAX_ACCESSES", 3)
    parts = ["s32[]", "s32[]", "f32[9]", "f32[9]"]
    b = Parts("body", parts)
    config = {"dimensions": [{"edge_padding_low": 1, "edge_padding_high": -1, "interior_padding": 0}]}
    moved = b.builder.op("pad", "f32[9]", [b.at[2], b.builder.constant("f32[]", [0])], padding_config=config)
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], moved, b.builder.op("negate", "f32[9]", [b.at[3]])])
    root = loop(b.builder, below(parts), parts)
    check(root, counter_below, drawn(parts, COUNTS), loose=[(2, 2)])
    read = indexing.output_to_input(root, 2)[0]
    assert [(one.leaf, one.knowledge.value) for one in read] == [(0, "exact"), (1, "exact"), (2, "every element")]
    assert indexing.output_to_input(root, 3)[0].knowledge is indexing.Knowledge.EXACT
    stated = loop(b.builder, below(parts), parts, backend_config=b'{"known_trip_count":{"n":40}}')
    monkeypatch.setattr(iterations, "MAX_ITERATIONS", 5)
    assert [leaf for leaf, _ in maps(stated, 2)] == [2]
    assert indexing.output_to_input(stated, 2)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert maps(stated, 3) == [(3, "(d0) -> (d0), domain: d0 in [0, 8]")]


def test_a_body_too_large_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers still name the arrays that depend on each other."""
    parts = ["s32[]", "s32[]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"]
    b = Parts("body", parts)
    total = b.builder.op("add", "f32[3]", [b.at[2], b.at[3]])
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], total, b.at[4], b.at[4], b.at[5]])
    expected = {0: {0, 1}, 1: {1}, 2: {0, 1, 2, 3, 4}, 3: {0, 1, 3, 4}, 4: {4}, 5: {5}}
    mixed = [(i, o) for i in range(2, 5) for o in range(2, 4)]
    for where, name, value in ((iterations, "MAX_INSTRUCTIONS", 3), (analysis, "MAX_ACCESSES", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            root = loop(b.builder, below(parts), parts)
            check(root, counter_below, drawn(parts, COUNTS), loose=mixed)
            assert {i: {leaf for leaf, _ in maps(root, i)} for i in range(6)} == expected
            assert indexing.output_to_input(root, 2)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
            assert indexing.output_to_input(root, 4)[0].knowledge is indexing.Knowledge.EXACT
            stated = loop(b.builder, below(parts), parts, backend_config=b'{"known_trip_count":{"n":3}}')
            assert {leaf for leaf, _ in maps(stated, 2)} == {2, 3, 4}


@pytest.mark.parametrize("limit", [1 << 8, 2])
def test_replicas_in_a_loop(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replica that holds an element is known for one iteration, and unknown over several."""
    monkeypatch.setattr(iterations, "MAX_INSTRUCTIONS", limit)
    parts = ["f32[4]", "f32[4]"]
    b = Parts("body", parts)
    pairs = [{"source": 0, "target": 1}, {"source": 1, "target": 0}]
    b.builder.op(
        "tuple",
        shape_of(parts),
        [b.builder.op("collective-permute", "f32[4]", [b.at[0]], source_target_pairs=pairs), b.at[1]],
    )
    condition = Parts("condition", parts)
    condition.builder.op("constant", "pred[]")
    root = loop(b.builder, condition.builder, parts)
    members = list(indexing.output_to_input(root)[0])
    assert all(one.leaf == 0 for one in members)
    assert any(one.replica is not None and one.replica.map.is_undefined for one in members)
    if limit > 2:
        assert [one.replica is None for one in members] == [True, False, False]
        assert members[1].replica is not None
        assert members[1].replica.partners(1) == (0,)


def test_nested_loops() -> None:
    """The inner loop reverses three times, the outer loop runs any number of times."""
    inner_parts = ["s32[]", "f32[3]"]
    i = Parts("inner", inner_parts)
    i.builder.op(
        "tuple", shape_of(inner_parts), [counted(i), i.builder.op("reverse", "f32[3]", [i.at[1]], dimensions=[0])]
    )
    inner_condition = below(inner_parts, limit=None, value=3)
    inner_condition.name = "inner_condition"
    parts = ["s32[]", "s32[]", "f32[3]"]
    b = Parts("body", parts)
    zero = b.builder.constant("s32[]", [0])
    state = b.builder.op("tuple", shape_of(inner_parts), [zero, b.at[2]])
    turned = b.builder.op("while", shape_of(inner_parts), [state], calls=[i.builder, inner_condition])
    out = b.builder.op("get-tuple-element", "f32[3]", [turned], tuple_index=1)
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], out])
    root = loop(b.builder, below(parts), parts)
    assert maps(root, 2)[2:] == [
        (2, "(d0) -> (d0), domain: d0 in [0, 2]"),
        (2, "(d0) -> (-d0 + 2), domain: d0 in [0, 2]"),
    ]


def test_loops_deep_within_loops() -> None:
    """A thousand nested loops: neither the interpreter's stack nor the time grows with the square of the depth."""
    parts = ["s32[]", "s32[]", "f32[3]"]
    b = Parts("body", parts)
    turned = b.builder.op("reverse", "f32[3]", [b.at[2]], dimensions=[0])
    b.builder.op("tuple", shape_of(parts), [b.at[0], b.at[1], turned])
    inner = b.builder
    for depth in range(1_000):
        outer, condition = Builder(f"body{depth}"), below(parts)
        condition.name = f"condition{depth}"
        outer.op("while", shape_of(parts), [outer.parameter(shape_of(parts))], calls=[inner, condition])
        inner = outer
    root = loop(inner, below(parts), parts)
    found = {one.instruction.name: one for one in indexing.module_indexing(root.computation.module) if one.output == 2}
    assert found[root.name].operands[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    innermost = found["body0.while.2"].operands[0]
    assert [str(one.map) for one in innermost if one.leaf == 2] == [
        "(d0) -> (d0), domain: d0 in [0, 2]",
        "(d0) -> (-d0 + 2), domain: d0 in [0, 2]",
    ]


def test_a_budget_bounds_loops() -> None:
    parts, body = random_loop(random.Random(5))
    root = loop(body, below(parts), parts)
    for steps in (1, 5, 20):
        with budget(steps=steps), pytest.raises(LimitExceededError, match=root.name):
            indexing.output_to_input(root, 2)


def test_loops_that_do_not_fit() -> None:
    parts = ["s32[]", "s32[]", "f32[3]"]
    b = Parts("body", parts)
    b.builder.op("tuple", shape_of(parts), [counted(b), b.at[1], b.at[2]])
    other = Parts("other", ["s32[]", "s32[]", "f32[2]"])
    other.builder.op("compare", "pred[]", other.at[:2], comparison_direction="LT")
    no_flag = Parts("no_flag", parts)
    no_flag.builder.op("tuple", shape_of(parts), no_flag.at)
    for body, condition in ((b.builder, other.builder), (b.builder, no_flag.builder), (other.builder, below(parts))):
        root = loop(body, condition, parts)
        for ask in (indexing.output_to_input, indexing.input_to_output):
            with pytest.raises(InvalidModuleError, match=root.name):
                ask(root)
