"""Loops and scans with too many maps or arrays: the coarser answers name every dependence, and take bounded time."""

from __future__ import annotations

import time

import pytest
from hlo_builder import Builder

from xlashape import indexing
from xlashape.base import caches
from xlashape.base.caches import CacheUsage
from xlashape.errors import DeadlineExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing import Knowledge
from xlashape.indexing.walk import dependencies as origins_file
from xlashape.indexing.walk.dependencies import origin, origins, reachable_from, reaching, successors_first
from xlashape.indexing.walk.repeated import iterations
from xlashape.limits import budget


def shape_of(parts: list[str]) -> str:
    return f"({', '.join(parts)})"


def endless(body: Builder, parts: list[str]) -> HloInstruction:
    """A loop with an unknown number of iterations."""
    condition = Builder("condition")
    condition.parameter(shape_of(parts))
    condition.op("constant", "pred[]")
    builder = Builder()
    builder.op("while", shape_of(parts), [builder.parameter(shape_of(parts))], calls=[body, condition])
    return builder.root()


def test_expressions_that_double_in_every_iteration() -> None:
    """Six elements of ten are reshaped in every iteration: each map is a sum of divisions of the map before."""
    parts = ["s64[4]", "s64[2,3]"]
    body = Builder("body")
    state = body.parameter(shape_of(parts))
    line, table = (body.op("get-tuple-element", one, [state], tuple_index=i) for i, one in enumerate(parts))
    bounds = [{"start": 0, "limit": 2, "stride": 1}, {"start": 1, "limit": 3, "stride": 1}]
    part = body.op("slice", "s64[2,2]", [table], slice_dimensions=bounds)
    part = body.op("reshape", "s64[4]", [part])
    part = body.op("slice", "s64[2]", [part], slice_dimensions=[{"start": 1, "limit": 3, "stride": 1}])
    joined = body.op("concatenate", "s64[6]", [line, part], dimensions=[0])
    moved = body.op(
        "pad",
        "s64[4]",
        [line, body.constant("s64[]", [2])],
        padding_config={"dimensions": [{"edge_padding_low": 1, "edge_padding_high": -1, "interior_padding": 0}]},
    )
    body.op("tuple", shape_of(parts), [moved, body.op("reshape", "s64[2,3]", [joined])])
    root = endless(body, parts)
    read = indexing.output_to_input(root, 1)[0]
    assert {one.leaf for one in read} == {0, 1}
    assert all(len(str(one.map)) < 10_000 for one in read)


def test_replicas_of_arrays_that_a_given_up_array_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array is exchanged with too many different maps: arrays that are added to it may come from any replica too."""
    monkeypatch.setattr(iterations, "MAX_ACCESSES", 3)
    parts = ["f32[9]", "f32[9]"]
    body = Builder("body")
    state = body.parameter(shape_of(parts))
    total, added = (body.op("get-tuple-element", one, [state], tuple_index=i) for i, one in enumerate(parts))
    pairs = [{"source": 0, "target": 1}, {"source": 1, "target": 0}]
    sent = body.op("collective-permute", "f32[9]", [total], source_target_pairs=pairs)
    for low in (1, 2, 3, 4):
        config = {"dimensions": [{"edge_padding_low": low, "edge_padding_high": -low, "interior_padding": 0}]}
        moved = body.op("pad", "f32[9]", [sent, body.constant("f32[]", [0])], padding_config=config)
        added = body.op("add", "f32[9]", [added, moved])
    body.op("tuple", shape_of(parts), [added, body.op("get-tuple-element", "f32[9]", [state], tuple_index=1)])
    for leaf in (0, 1):
        read = [one for one in indexing.output_to_input(endless(body, parts))[0] if one.leaf == leaf]
        assert any(one.replica is not None and one.replica.map.is_undefined for one in read), leaf


def chain(arrays: int, copies: int) -> HloInstruction:
    """A loop whose arrays all become the first array, through a chain of copies."""
    parts = ["f32[2]"] * arrays
    body = Builder("body")
    one = body.op("get-tuple-element", "f32[2]", [body.parameter(shape_of(parts))], tuple_index=0)
    for _ in range(copies):
        one = body.op("copy", "f32[2]", [one])
    body.op("tuple", shape_of(parts), [one] * arrays)
    return endless(body, parts)


def test_many_arrays_at_the_end_of_one_long_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    root = chain(200, 300)
    result = root.called_computations[0].root
    expected = [origin(result, leaf) for leaf in range(200)]
    looked = 0
    one_back = origins_file._handed_on_from  # its calls are what is counted

    def counting(one: HloInstruction, at: int) -> tuple[HloInstruction, int] | None:
        nonlocal looked
        looked += 1
        return one_back(one, at)

    monkeypatch.setattr(origins_file, "_handed_on_from", counting)
    assert origins(result, 200) == expected
    assert looked <= 2 * (200 + 300)
    with budget(deadline=time.monotonic() - 1), pytest.raises(DeadlineExceededError):
        origins(result, 200)


def test_reachability_between_leaves() -> None:
    """Against plain search."""
    steps = [0b00010, 0b00100, 0b01001, 0, 0b11000]
    for first in range(1 << 5):
        expected = {leaf for leaf in range(5) if first >> leaf & 1}
        while True:
            more = expected | {to for leaf in expected for to in range(5) if steps[leaf] >> to & 1}
            if more == expected:
                break
            expected = more
        assert reachable_from(first, steps) == sum(1 << leaf for leaf in expected)
        backwards = [sum(1 << i for i in range(5) if steps[i] >> leaf & 1) for leaf in range(5)]
        assert reaching(first, steps, successors_first(steps)) == reachable_from(first, backwards)


def test_what_a_scan_too_large_to_follow_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carries move from one position to the next. Dependencies name every array that the maps lead to, in both
    directions."""
    count = 12
    body = Builder("body")
    row = body.parameter("f32[]")
    carried = [body.parameter("f32[]") for _ in range(count)]
    body.op("tuple", shape_of(["f32[]"] * (count + 1)), [carried[0], *carried[1:], row])
    builder = Builder()
    operands = [builder.parameter("f32[40]"), *(builder.parameter("f32[]") for _ in range(count))]
    shape = shape_of(["f32[40]", *["f32[]"] * count])
    builder.op("scan", shape, operands, calls=[body], dimensions=[0], num_carries=count)
    root = builder.root()
    followed = {output: [len(one) > 0 for one in indexing.output_to_input(root, output)] for output in range(count + 1)}
    monkeypatch.setattr(iterations, "MAX_INSTRUCTIONS", 0)
    for output in range(count + 1):
        read = indexing.output_to_input(root, output)
        for operand, one in enumerate(read):
            back = indexing.input_to_output(root, operand)[output]
            assert (len(one) > 0) == (len(back) > 0), (operand, output)
            assert not followed[output][operand] or len(one)


def held() -> CacheUsage:
    """What is kept of the sets of all arrays of a loop."""
    (usage,) = (usage for usage in caches.report() if usage.owner.endswith("while_loop._every_element_of"))
    return usage


def test_sets_of_many_arrays_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all arrays depend on each other, each array has a set with a member for every array."""
    monkeypatch.setattr(iterations, "MAX_INSTRUCTIONS", 0)
    arrays = 1000
    parts = ["f32[2]"] * arrays
    body = Builder("body")
    state = body.parameter(shape_of(parts))
    total = body.op("get-tuple-element", "f32[2]", [state], tuple_index=0)
    for i in range(1, arrays):
        one = body.op("get-tuple-element", "f32[2]", [state], tuple_index=i)
        total = body.op("add", "f32[2]", [total, one])
    body.op("tuple", shape_of(parts), [total] * arrays)
    root = endless(body, parts)
    before = held()
    read = indexing.output_to_input(root, 3)[0]
    assert len(read) == arrays
    assert read.knowledge is Knowledge.EVERY_ELEMENT
    assert held() == before
