"""Maps through computations: fusions, calls, branches, loops; every path once, runtime variables with the right
producers."""

from __future__ import annotations

import pickle
import time

import pytest
from hlo_builder import Builder, fused

from xlashape import indexing
from xlashape.errors import DeadlineExceededError, InvalidArgumentError, InvalidModuleError, LimitExceededError
from xlashape.hlo import HloInstruction, HloModule, verifier
from xlashape.indexing.walk import analysis
from xlashape.limits import budget
from xlashape.symbolic import IndexingMap


def test_an_operand_that_is_not_read_has_an_empty_set() -> None:
    inner = Builder("f")
    p = inner.parameter("f32[4]")
    inner.parameter("f32[]")
    inner.op("negate", "f32[4]", [p])
    first, second = indexing.output_to_input(fused(inner, "f32[4]", ["f32[4]", "f32[]"]).root())
    assert len(first) == 1
    assert len(second) == 0
    assert second.map.is_known_empty
    assert second.runtime == ()
    assert second.simplify() is second


def test_the_map_of_several_accesses_is_several_maps() -> None:
    inner = Builder("f")
    p = inner.parameter("f32[8]")
    inner.op("add", "f32[8]", [p, inner.op("reverse", "f32[8]", [p], dimensions=[0])])
    (read,) = indexing.output_to_input(fused(inner, "f32[8]", ["f32[8]"]).root())
    assert [str(one) for one in read] == [
        "(d0) -> (d0), domain: d0 in [0, 7]",
        "(d0) -> (-d0 + 7), domain: d0 in [0, 7]",
    ]
    assert read.map == read.maps and isinstance(read.map, indexing.SeveralMaps)
    assert str(read.map) == "\n".join(str(access.map) for access in read) == read.map.to_text()
    assert read.map.simplify() == read.simplify().maps
    with pytest.raises(AttributeError, match=r"accessed in 2 ways: ask each map, `\[map.evaluate for map in maps\]`"):
        read.map.evaluate((0, 0))
    with pytest.raises(AttributeError, match="'SeveralMaps' object has no attribute 'evalute'"):
        read.map.evalute((0, 0))
    assert pickle.loads(pickle.dumps(read.map)) == read.map
    with pytest.raises(InvalidArgumentError, match="accessed in 2 ways"):
        _ = read.runtime
    assert read == indexing.OperandIndexingSet(reversed(read))
    assert hash(read) == hash(indexing.OperandIndexingSet(reversed(read)))


def test_paths_with_equal_maps_are_one_access() -> None:
    """2^60 paths through sixty diamonds."""
    inner = Builder("f")
    at = inner.parameter("f32[8,8]")
    for _ in range(60):
        at = inner.op(
            "add", "f32[8,8]", [inner.op("negate", "f32[8,8]", [at]), inner.op("exponential", "f32[8,8]", [at])]
        )
    (read,) = indexing.output_to_input(fused(inner, "f32[8,8]", ["f32[8,8]"]).root())
    assert read.map == IndexingMap.identity([8, 8])
    (written,) = indexing.input_to_output(fused(inner, "f32[8,8]", ["f32[8,8]"]).root())
    assert written.map == IndexingMap.identity([8, 8])


def test_a_long_chain() -> None:
    inner = Builder("f")
    at = inner.parameter("f32[8]")
    for _ in range(20_000):
        at = inner.op("negate", "f32[8]", [at])
    root = fused(inner, "f32[8]", ["f32[8]"]).root()
    assert indexing.output_to_input(root)[0].map == IndexingMap.identity([8])
    assert indexing.input_to_output(root)[0].map == IndexingMap.identity([8])
    with budget(steps=5_000), pytest.raises(LimitExceededError, match=root.name):
        indexing.output_to_input(root)
    with budget(deadline=time.monotonic() - 1), pytest.raises(DeadlineExceededError, match=root.name):
        indexing.output_to_input(root)


def test_too_many_different_accesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves of halves: 2^k different maps after k steps."""
    monkeypatch.setattr(analysis, "MAX_ACCESSES", 20)
    inner = Builder("f")
    size = 64
    at = inner.parameter(f"f32[{size}]")
    while size > 1:
        halves = []
        for start in range(2):
            part = [{"start": start, "limit": size, "stride": 2}]
            halves.append(inner.op("slice", f"f32[{size // 2}]", [at], slice_dimensions=part))
        size //= 2
        at = inner.op("add", f"f32[{size}]", halves)
    root = fused(inner, "f32[1]", ["f32[64]"]).root()
    for ask in (indexing.output_to_input, indexing.input_to_output):
        with pytest.raises(LimitExceededError, match="more than 20 different ways"):
            ask(root)


def test_a_computation_that_does_not_fit_its_caller() -> None:
    for shape, operand in (
        ("f32[4]", "f32[5]"),
        ("f32[5]", "f32[4]"),
        ("f32[4,1]", "f32[4]"),
        ("(f32[4], f32[4])", "f32[4]"),
    ):
        inner = Builder("f")
        inner.op("negate", "f32[4]", [inner.parameter("f32[4]")])
        root = fused(inner, shape, [operand]).root()
        for ask in (indexing.output_to_input, indexing.input_to_output):
            with pytest.raises(InvalidModuleError, match="do not fit it"):
                ask(root)


def test_calls_within_calls() -> None:
    inner = Builder("c0")
    inner.op("reverse", "f32[8]", [inner.parameter("f32[8]")], dimensions=[0])
    for depth in range(3_000):
        outer = Builder(f"c{depth + 1}")
        outer.op("call", "f32[8]", [outer.parameter("f32[8]")], calls=[inner])
        inner = outer
    root = fused(inner, "f32[8]", ["f32[8]"], "call").root()
    assert str(indexing.output_to_input(root)[0].map) == "(d0) -> (-d0 + 7), domain: d0 in [0, 7]"
    assert str(indexing.input_to_output(root)[0].map) == "(d0) -> (-d0 + 7), domain: d0 in [0, 7]"


def test_several_outputs() -> None:
    inner = Builder("f")
    p = inner.parameter("f32[4,8]")
    turned, back = (
        inner.op("transpose", "f32[8,4]", [p], dimensions=[1, 0]),
        inner.op("reverse", "f32[4,8]", [p], dimensions=[0]),
    )
    inner.op("tuple", "(f32[8,4], f32[4,8])", [turned, back])
    root = fused(inner, "(f32[8,4], f32[4,8])", ["f32[4,8]"]).root()
    assert str(indexing.output_to_input(root, 0)[0].map) == "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]"
    assert (
        str(indexing.output_to_input(root, 1)[0].map) == "(d0, d1) -> (-d0 + 3, d1), domain: d0 in [0, 3], d1 in [0, 7]"
    )
    assert [str(one.map) for one in indexing.input_to_output(root)] == [
        "(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]",
        "(d0, d1) -> (-d0 + 3, d1), domain: d0 in [0, 3], d1 in [0, 7]",
    ]
    for output in (-1, 2):
        with pytest.raises(InvalidArgumentError, match=f"no output {output}"):
            indexing.output_to_input(root, output)
    with pytest.raises(InvalidArgumentError, match="no operand 1"):
        indexing.input_to_output(root, 1)
    with pytest.raises(InvalidArgumentError, match="no leaf 1"):
        indexing.input_to_output(root, 0, leaf=1)


def test_fusions_within_fusions() -> None:
    deepest = Builder("deepest")
    deepest.op("transpose", "f32[8,4]", [deepest.parameter("f32[4,8]")], dimensions=[1, 0])
    inner = Builder("inner")
    p, q = inner.parameter("f32[4,8]"), inner.parameter("f32[8,4]")
    inner.op("add", "f32[8,4]", [inner.op("fusion", "f32[8,4]", [p], calls=[deepest]), q])
    root = fused(inner, "f32[8,4]", ["f32[4,8]", "f32[8,4]"]).root()
    assert [str(one.map) for one in indexing.output_to_input(root)] == [
        "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]",
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 7], d1 in [0, 3]",
    ]


def test_what_depends_on_unknown_is_unknown() -> None:
    inner = Builder("f")
    a, b = inner.parameter("f32[4,4]"), inner.parameter("f32[4,4]")
    strange = inner.op("frobnicate", "f32[4,4]", [a])
    inner.op("add", "f32[4,4]", [inner.op("negate", "f32[4,4]", [strange]), b])
    root = fused(inner, "f32[4,4]", ["f32[4,4]"] * 2).root()
    first, second = indexing.output_to_input(root)
    assert first.knowledge is indexing.Knowledge.UNKNOWN
    assert second.knowledge is indexing.Knowledge.EXACT


def test_what_depends_on_every_element_is_marked() -> None:
    inner = Builder("f")
    call = inner.op(
        "custom-call", "f32[4]", [inner.op("transpose", "f32[2,3]", [inner.parameter("f32[3,2]")], dimensions=[1, 0])]
    )
    inner.op("negate", "f32[4]", [call])
    (read,) = indexing.output_to_input(fused(inner, "f32[4]", ["f32[3,2]"]).root())
    assert read.knowledge is indexing.Knowledge.EVERY_ELEMENT
    assert str(read.map) == "(d0)[s0, s1] -> (s1, s0), domain: d0 in [0, 3], s0 in [0, 1], s1 in [0, 2]"


def test_what_padding_cuts_off_is_known_to_be_empty() -> None:
    inner = Builder("f")
    config = {"dimensions": [{"edge_padding_low": 2, "edge_padding_high": 2}]}
    wide = inner.op("pad", "f32[8]", [inner.parameter("f32[4]"), inner.op("constant", "f32[]")], padding_config=config)
    inner.op("slice", "f32[1]", [wide], slice_dimensions=[{"start": 1, "limit": 2, "stride": 1}])
    (read,) = indexing.output_to_input(fused(inner, "f32[1]", ["f32[4]"]).root())
    assert [one.map.is_known_empty for one in read] == [True]


# -- branches, loops, asynchronous operations
# -------------------------------------------------------------------------------------


def test_conditional() -> None:
    left, right = Builder("left"), Builder("right")
    left.op("reverse", "f32[4]", [left.parameter("f32[4]")], dimensions=[0])
    right.op("broadcast", "f32[4]", [right.parameter("f32[]")], dimensions=[])
    builder = Builder()
    operands = [builder.parameter("pred[]"), builder.parameter("f32[4]"), builder.parameter("f32[]")]
    builder.op("conditional", "f32[4]", operands, calls=[left, right])
    root = builder.root()
    assert [str(one.map) for one in indexing.output_to_input(root)] == [
        "(d0) -> (), domain: d0 in [0, 3]",
        "(d0) -> (-d0 + 3), domain: d0 in [0, 3]",
        "(d0) -> (), domain: d0 in [0, 3]",
    ]
    assert [str(indexing.input_to_output(root, i)[0].map) for i in range(3)] == [
        "()[s0] -> (s0), domain: s0 in [0, 3]",
        "(d0) -> (-d0 + 3), domain: d0 in [0, 3]",
        "()[s0] -> (s0), domain: s0 in [0, 3]",
    ]


def test_while() -> None:
    shape = "(s32[], f32[4], f32[2])"
    body, condition = Builder("body"), Builder("condition")
    state = body.parameter(shape)
    parts = [
        body.op("get-tuple-element", text, [state], tuple_index=i)
        for i, text in enumerate(("s32[]", "f32[4]", "f32[2]"))
    ]
    body.op("tuple", shape, [body.op("negate", "s32[]", [parts[0]]), body.op("copy", "f32[4]", [parts[1]]), parts[2]])
    condition.parameter(shape)
    condition.op("constant", "pred[]")
    builder = Builder()
    builder.op("while", shape, [builder.parameter(shape)], calls=[body, condition])
    root = builder.root()
    counted, kept, same = (indexing.output_to_input(root, i)[0] for i in range(3))
    assert (counted.leaf, counted.map, counted.knowledge) == (0, IndexingMap.identity([]), indexing.Knowledge.EXACT)
    assert (kept.leaf, kept.map, kept.knowledge) == (1, IndexingMap.identity([4]), indexing.Knowledge.EXACT)
    assert (same.leaf, same.map) == (2, IndexingMap.identity([2]))
    to_counted, to_kept, to_same = indexing.input_to_output(root, 0, leaf=2)
    assert len(to_counted) == len(to_kept) == 0
    assert to_same.map == IndexingMap.identity([2])


def test_asynchronous_operations() -> None:
    wrapped = Builder("wrapped")
    wrapped.op("transpose", "f32[8,4]", [wrapped.parameter("f32[4,8]")], dimensions=[1, 0])
    builder = Builder()
    start = builder.op("async-start", "((f32[4,8]), f32[8,4], u32[])", [builder.parameter("f32[4,8]")], calls=[wrapped])
    update = builder.op("async-update", "((f32[4,8]), f32[8,4], u32[])", [start])
    builder.op("async-done", "f32[8,4]", [update])
    root = builder.root()
    first, started = root.computation.instructions[:2]
    assert indexing.output_to_input(root)[0].leaf == 1
    assert (
        str(indexing.output_to_ancestor(root, first).map) == "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]"
    )
    assert [[len(one) for one in indexing.output_to_input(started, i)] for i in range(3)] == [[1], [1], [0]]
    assert [len(one) for one in indexing.input_to_output(started)] == [1, 1, 0]


DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LATE = {
    "both": f"""
        start = ((), f32[4,6], u32[]) dot-start(), {DOT}
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(start, a, b)""",
    "one": f"""
        start = ((f32[4,8]), f32[4,6], u32[]) dot-start(a), {DOT}
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(start, b)""",
    "one by one": f"""
        start = ((), f32[4,6], u32[]) dot-start(), {DOT}
        first = ((f32[4,8]), f32[4,6], u32[]) dot-update(start, a)
        pair = (((f32[4,8]), f32[4,6], u32[]), f32[4,8]) tuple(first, a)
        state = ((f32[4,8]), f32[4,6], u32[]) get-tuple-element(pair), index=0
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(state, b)""",
}
WITHOUT_RESULT = {
    "until the update": f"""
        start = ((), (), u32[]) dot-start(), {DOT}
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(start, a, b)""",
    "until the second update": f"""
        start = ((f32[4,8]), (), u32[]) dot-start(a), {DOT}
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(start, b)""",
    "until the end": f"""
        start = ((f32[4,8]), (), u32[]) dot-start(a), {DOT}
        update = ((f32[4,8], f32[8,6]), (), u32[]) dot-update(start, b)""",
    "until an update without operands": f"""
        start = ((), (), u32[]) dot-start(), {DOT}
        brought = ((f32[4,8], f32[8,6]), (), u32[]) dot-update(start, a, b)
        update = ((f32[4,8], f32[8,6]), f32[4,6], u32[]) dot-update(brought)""",
}
ENTRY = "HloModule m ENTRY e {{ a = f32[4,8] parameter(0)\n b = f32[8,6] parameter(1)\n {} }}"


@pytest.mark.parametrize("steps", LATE.values(), ids=LATE)
def test_operands_of_updates_are_read_as_those_of_the_operation(steps: str) -> None:
    whole = HloModule.parse(ENTRY.format(f"ROOT d = f32[4,6] dot(a, b), {DOT}")).entry
    late = HloModule.parse(ENTRY.format(f"{steps}\n ROOT d = f32[4,6] dot-done(update)")).entry
    for number in (0, 1):
        assert indexing.output_to_ancestor(late.root, late.parameters[number]) == indexing.output_to_ancestor(
            whole.root, whole.parameters[number]
        )
    update = late.instruction("update")
    for number, operand in enumerate(update.operands[1:], 1):
        forwards = indexing.input_to_output(update, number)
        dot = whole.root
        result = indexing.input_to_output(dot, whole.parameters.index(whole.instruction(operand.name)))[0]
        assert forwards[2] == result
        (handed_on,) = indexing.output_to_input(update, output=late.parameters.index(operand))[number]
        assert str(handed_on.map).startswith("(d0, d1) -> (d0, d1), ")


@pytest.mark.parametrize("steps", WITHOUT_RESULT.values(), ids=WITHOUT_RESULT)
def test_states_without_a_result_are_read_as_the_operation(steps: str) -> None:
    whole = HloModule.parse(ENTRY.format(f"ROOT d = f32[4,6] dot(a, b), {DOT}")).entry
    late = HloModule.parse(ENTRY.format(f"{steps}\n ROOT d = f32[4,6] dot-done(update)")).entry
    verifier.check(late.module)
    for number in (0, 1):
        assert indexing.output_to_ancestor(late.root, late.parameters[number]) == indexing.output_to_ancestor(
            whole.root, whole.parameters[number]
        )
    # Forwards the steps compose to the same maps.
    for operand in late.parameters:
        reached: dict[HloInstruction, dict[int, IndexingMap]] = {
            operand: {0: IndexingMap.identity(operand.shape.dimensions)}
        }
        for instruction in late.instructions:
            for number, source in enumerate(instruction.operands):
                for leaf, map_ in reached.get(source, {}).items():
                    for output, writes in enumerate(indexing.input_to_output(instruction, number, leaf)):
                        for write in writes:
                            reached.setdefault(instruction, {})[output] = map_.compose(write.map)
        (direct,) = indexing.input_to_output(whole.root, whole.parameters.index(whole.instruction(operand.name)))
        assert str(reached[late.root][0]) == str(direct.map.simplify())


def test_asynchronous_copies_and_collectives() -> None:
    builder = Builder()
    start = builder.op("copy-start", "(f32[4], f32[4], u32[])", [builder.parameter("f32[4]")])
    builder.op("copy-done", "f32[4]", [start])
    root = builder.root()
    assert (
        str(indexing.output_to_ancestor(root, root.computation.parameters[0]).map)
        == "(d0) -> (d0), domain: d0 in [0, 3]"
    )
    builder = Builder()
    start = builder.op(
        "all-gather-start",
        "(f32[4], f32[8])",
        [builder.parameter("f32[4]")],
        dimensions=[0],
        replica_groups=[{"replica_ids": [0, 1]}],
    )
    builder.op("all-gather-done", "f32[8]", [start])
    root = builder.root()
    found = indexing.output_to_ancestor(root, root.computation.parameters[0])
    assert str(found.map) == "(d0) -> (d0 mod 4), domain: d0 in [0, 7]"
    assert found.replica is not None
    assert str(found.replica.map) == "(d0) -> (d0 / 4), domain: d0 in [0, 7]"
    builder = Builder()
    start = builder.op(
        "collective-permute-start",
        "(f32[4], f32[4], u32[])",
        [builder.parameter("f32[4]")],
        source_target_pairs=[{"source": 2, "target": 5}],
    )
    builder.op("collective-permute-done", "f32[4]", [start])
    root = builder.root()
    found = indexing.output_to_ancestor(root, root.computation.parameters[0])
    assert found.replica is not None
    assert found.replica.partners(5) == (2,)
    assert found.replica.partners(2) == ()
    assert found.replica.partners(2, backwards=True) == (5,)
