"""Scans, run step by step in NumPy: their maps name exactly the observed dependences."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from dependence import compare, flat, observed
from evaluated import result
from hlo_builder import Builder

from xlashape import indexing
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing.walk import analysis
from xlashape.indexing.walk.repeated import iterations


def scan(
    body: Builder, shape: str, operands: list[str], axis: int = 0, carries: int = 1, *, reverse: bool = False
) -> HloInstruction:
    builder = Builder()
    numbers = [builder.parameter(operand) for operand in operands]
    builder.op("scan", shape, numbers, calls=[body], dimensions=[axis], num_carries=carries, is_reverse=reverse)
    return builder.root()


def run_scan(root: HloInstruction, *operands: np.ndarray) -> list[np.ndarray]:
    """What XLA's own scan was seen to do: slices without the dimension, first to last, or last to first; outputs at
    their slice's place."""
    proto = root.proto
    axis, carries = proto.dimensions[0], proto.num_carries
    outputs = [leaf.dimensions for leaf in root.shape.leaves()]
    stacked, carried = len(outputs) - carries, list(operands[len(operands) - carries :])
    inputs = operands[: len(operands) - carries]
    count = (inputs[0].shape if inputs else outputs[0])[axis]
    results = [np.zeros(dims) for dims in outputs[:stacked]]
    for step in range(count):
        place = count - 1 - step if proto.is_reverse else step
        slices = [np.take(one, place, axis) for one in inputs]
        returned = flat(result(root.called_computations[0], [*slices, *carried]))
        for whole, part in zip(results, returned[:stacked], strict=True):
            whole[(slice(None),) * axis + (place,)] = part
        carried = returned[stacked:]
    return [*results, *carried]


def check(root: HloInstruction, seed: int = 0, **more: Any) -> None:
    rng = np.random.default_rng(seed)
    draws = [[rng.random(one.shape.dimensions) + 1 for one in root.operands] for _ in range(2)]
    compare(root, observed(lambda *values: run_scan(root, *values), draws), **more)


def maps(root: HloInstruction, output: int = 0) -> list[list[str]]:
    return [[str(one.map) for one in read] for read in indexing.output_to_input(root, output)]


def cumulative() -> Builder:
    body = Builder("body")
    total = body.op("add", "f32[]", [body.parameter("f32[]"), body.parameter("f32[]")])
    body.op("tuple", "(f32[], f32[])", [total, total])
    return body


@pytest.mark.parametrize("reverse", [False, True])
def test_a_cumulative_sum(reverse: bool) -> None:
    root = scan(cumulative(), "(f32[4], f32[])", ["f32[4]", "f32[]"], reverse=reverse)
    apart = "-d0 + s0" if reverse else "-s0 + d0"
    assert maps(root) == [
        [f"(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 3], {apart} in [0, 3]"],
        ["(d0) -> (), domain: d0 in [0, 3]"],
    ]
    assert maps(root, 1) == [["()[s0] -> (s0), domain: s0 in [0, 3]"], ["() -> ()"]]
    check(root)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_exclusive_sum(reverse: bool) -> None:
    body = Builder("body")
    taken, before = body.parameter("f32[2]"), body.parameter("f32[2]")
    body.op("tuple", "(f32[2], f32[2])", [before, body.op("add", "f32[2]", [taken, before])])
    root = scan(body, "(f32[2,4], f32[2])", ["f32[2,4]", "f32[2]"], 1, reverse=reverse)
    check(root)
    ((sum_of_others,), _) = indexing.output_to_input(root)
    assert sum_of_others.map.evaluate((0, 3 if reverse else 0, 1)) is None


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_what_is_carried_over_two_steps(reverse: bool, count: int) -> None:
    """A slice is returned two steps after it was read."""
    body = Builder("body")
    taken, second, first = (body.parameter("f32[2]") for _ in range(3))
    body.op("tuple", "(f32[2], f32[2], f32[2])", [first, taken, second])
    root = scan(
        body, f"(f32[{count},2], f32[2], f32[2])", [f"f32[{count},2]", "f32[2]", "f32[2]"], 0, 2, reverse=reverse
    )
    check(root)
    if count == 5 and not reverse:
        assert maps(root)[0] == ["(d0, d1) -> (d0 - 2, d1), domain: d0 in [2, 4], d1 in [0, 1]"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 6, 7])
def test_what_changes_places(reverse: bool, count: int) -> None:
    """Two sums that swap places, so that every other step counts; and one that is reversed in every step."""
    body = Builder("body")
    taken, a, b = body.parameter("f32[2]"), body.parameter("f32[2]"), body.parameter("f32[2]")
    turned = body.op("reverse", "f32[2]", [body.op("add", "f32[2]", [a, taken])], dimensions=[0])
    body.op("tuple", "(f32[2], f32[2], f32[2])", [a, b, turned])
    root = scan(
        body, f"(f32[{count},2], f32[2], f32[2])", [f"f32[{count},2]", "f32[2]", "f32[2]"], 0, 2, reverse=reverse
    )
    check(root)


def test_no_carry() -> None:
    body = Builder("body")
    body.op("reverse", "f32[3]", [body.parameter("f32[3]")], dimensions=[0])
    root = scan(body, "f32[3,4]", ["f32[3,4]"], 1, 0)
    assert maps(root) == [["(d0, d1) -> (-d0 + 2, d1), domain: d0 in [0, 2], d1 in [0, 3]"]]
    check(root)


def test_no_input() -> None:
    body = Builder("body")
    a = body.parameter("f32[3]")
    body.op("tuple", "(f32[3], f32[3])", [a, body.op("reverse", "f32[3]", [a], dimensions=[0])])
    root = scan(body, "(f32[3,4], f32[3])", ["f32[3]"], 1)
    check(root)


def test_everything_is_mixed() -> None:
    body = Builder("body")
    taken, state, zero = body.parameter("f32[3]"), body.parameter("f32[3]"), body.constant("f32[]", [0])
    total = body.op("reduce", "f32[]", [body.op("add", "f32[3]", [taken, state]), zero], dimensions=[0])
    spread = body.op("broadcast", "f32[3]", [total], dimensions=[])
    body.op("tuple", "(f32[], f32[3])", [total, spread])
    check(scan(body, "(f32[4], f32[3])", ["f32[4,3]", "f32[3]"]))


def random_body(r: random.Random, inputs: int, outputs: int, carries: int) -> Builder:
    """Each result is the sum of some parameters, reversed or with a part replaced by zeros."""
    body = Builder("body")
    parameters = [body.parameter("f32[3]") for _ in range(inputs + carries)]
    zero = body.constant("f32[]", [0])
    results = []
    for _ in range(outputs + carries):
        terms = r.sample(parameters, r.randint(1, min(2, len(parameters))))
        changed = []
        for at in terms:
            kind = r.choice(["same", "same", "turned", "moved"])
            if kind == "turned":
                at = body.op("reverse", "f32[3]", [at], dimensions=[0])
            elif kind == "moved":
                edge = r.choice([-1, 1])
                config = {"edge_padding_low": edge, "edge_padding_high": -edge, "interior_padding": 0}
                at = body.op("pad", "f32[3]", [at, zero], padding_config={"dimensions": [config]})
            changed.append(at)
        at = changed[0]
        for other in changed[1:]:
            at = body.op("add", "f32[3]", [at, other])
        results.append(body.op("copy", "f32[3]", [at]))
    body.op("tuple", f"({', '.join(['f32[3]'] * len(results))})", results)
    return body


@pytest.mark.parametrize("seed", range(30))
def test_random_scans(seed: int) -> None:
    r = random.Random(seed)
    inputs, outputs, carries, axis, count = (
        r.randint(1, 2),
        r.randint(1, 2),
        r.randint(1, 2),
        r.randint(0, 1),
        r.randint(1, 6),
    )
    stacked = "f32[3,{}]" if axis else "f32[{},3]"
    body = random_body(r, inputs, outputs, carries)
    shapes = [stacked.format(count)] * inputs + ["f32[3]"] * carries
    results = [stacked.format(count)] * outputs + ["f32[3]"] * carries
    root = scan(body, f"({', '.join(results)})", shapes, axis, carries, reverse=r.random() < 0.5)
    check(root, seed)


def test_maps_that_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that moves in every step: beyond the last step that is followed, every element of the arrays that
    matter."""
    monkeypatch.setattr(iterations, "MAX_ITERATIONS", 3)
    body = Builder("body")
    taken, state, other, zero = (
        body.parameter("f32[9]"), body.parameter("f32[9]"), body.parameter("f32[9]"), body.constant("f32[]", [0]),
    )  # fmt: skip
    config = {"dimensions": [{"edge_padding_low": 1, "edge_padding_high": -1, "interior_padding": 0}]}
    moved = body.op("add", "f32[9]", [taken, body.op("pad", "f32[9]", [state, zero], padding_config=config)])
    body.op("tuple", "(f32[9], f32[9], f32[9])", [moved, moved, other])
    root = scan(body, "(f32[6,9], f32[9], f32[9])", ["f32[6,9]", "f32[9]", "f32[9]"], 0, 2)
    mixed = [(0, 0), (0, 1), (1, 0), (1, 1)]
    check(root, loose=mixed)
    assert indexing.output_to_input(root)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert len(indexing.output_to_input(root)[2]) == 0
    assert indexing.output_to_input(root, 2)[2].knowledge is indexing.Knowledge.EXACT
    (first, *_, later), _, _ = indexing.output_to_input(root)
    assert first.knowledge is indexing.Knowledge.EXACT
    assert "d0 in [3, 5]" in str(later.map)


def test_a_computation_too_large_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:

    expected = scan(cumulative(), "(f32[4], f32[])", ["f32[4]", "f32[]"])
    monkeypatch.setattr(iterations, "MAX_INSTRUCTIONS", 2)
    root = scan(cumulative(), "(f32[4], f32[])", ["f32[4]", "f32[]"])
    check(root)
    assert indexing.output_to_input(root)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT
    monkeypatch.undo()
    monkeypatch.setattr(analysis, "MAX_ACCESSES", 0)
    check(expected)
    assert indexing.output_to_input(expected, 1)[0].knowledge is indexing.Knowledge.EVERY_ELEMENT


def test_a_scan_in_a_called_computation() -> None:
    inner = Builder("called")
    taken = inner.parameter("f32[4]")
    body = cumulative()
    found = inner.op(
        "scan", "(f32[4], f32[])", [taken, inner.constant("f32[]", [0])], calls=[body], dimensions=[0], num_carries=1
    )
    inner.op("reverse", "f32[4]", [inner.op("get-tuple-element", "f32[4]", [found], tuple_index=0)], dimensions=[0])
    builder = Builder()
    builder.op("call", "f32[4]", [builder.parameter("f32[4]")], calls=[inner])
    ((read,),) = indexing.output_to_input(builder.root())
    for i in range(4):
        assert [s for s in range(4) if read.map.evaluate((i, s)) is not None] == list(range(4 - i))


@pytest.mark.parametrize(
    ("shape", "operands", "fields"),
    [
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"axis": 1}),
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"axis": -1}),
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"carries": 3}),
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"carries": -1}),
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"carries": 0}),
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"carries": 2}),
        ("(f32[3], f32[])", ["f32[4]", "f32[]"], {}),
        ("(f32[4], f32[4])", ["f32[4]", "f32[]"], {}),
        ("f32[4]", ["f32[4]", "f32[]"], {}),
        ("(f32[4], f32[])", ["f32[4]"], {}),
        ("(f32[4], f32[])", [], {}),
        ("(f32[4], f32[])", ["(f32[4])", "f32[]"], {}),
        ("(f32[4,2], f32[])", ["f32[4,2]", "f32[]"], {}),
    ],
)
def test_a_scan_that_does_not_fit(shape: str, operands: list[str], fields: dict[str, Any]) -> None:
    root = scan(cumulative(), shape, operands, **fields)
    with pytest.raises(InvalidModuleError, match=root.name):
        indexing.output_to_input(root)
    if operands:
        with pytest.raises(InvalidModuleError, match=root.name):
            indexing.input_to_output(root)


@pytest.mark.parametrize(
    ("shape", "operands", "fields", "message"),
    [
        ("(f32[4], f32[])", ["f32[4]", "f32[]"], {"dimensions": [0, 0]}, "needs exactly one dimension, not 2"),
        (
            "(f32[5], f32[])",
            ["f32[4]", "f32[]"],
            {},
            "has scanned arrays that differ in length along the scanned dimension",
        ),
    ],
)
def test_what_is_wrong_with_a_scan_is_said(
    shape: str, operands: list[str], fields: dict[str, Any], message: str
) -> None:
    builder = Builder()
    arguments = [builder.parameter(operand) for operand in operands]
    builder.op("scan", shape, arguments, calls=[cumulative()], **{"dimensions": [0], "num_carries": 1, **fields})
    with pytest.raises(InvalidModuleError, match=message):
        indexing.output_to_input(builder.root())
