"""Branches and called computations that read an array in many ways: the answers name every element, and take bounded
time and room."""

from __future__ import annotations

import time

import pytest
from hlo_builder import Builder
from map_enumeration import elements

from xlashape import indexing
from xlashape.errors import LimitExceededError
from xlashape.hlo import HloInstruction
from xlashape.indexing import Knowledge
from xlashape.indexing.walk import analysis

SIZE = 64


def shifted(body: Builder, at: int, by: int) -> int:
    """The array moved by some elements."""
    config = {"dimensions": [{"edge_padding_low": by, "edge_padding_high": -by, "interior_padding": 0}]}
    return body.op("pad", f"f32[{SIZE}]", [at, body.constant("f32[]", [0])], padding_config=config)


def sum_of_shifts(ways: int, *, exchanged: int | None = None) -> Builder:
    """The sum of an array moved by 0 to `ways - 1` elements, of which one summand comes from other replicas."""
    body = Builder("body")
    array = body.parameter(f"f32[{SIZE}]")
    total = shifted(body, array, 0)
    for by in range(1, ways):
        summand = array
        if by == exchanged:
            pairs = [{"source": 0, "target": 1}]
            summand = body.op("collective-permute", f"f32[{SIZE}]", [array], source_target_pairs=pairs)
        total = body.op("add", f"f32[{SIZE}]", [total, shifted(body, summand, by)])
    return body


def called(body: Builder, opcode: str, shape: str = f"f32[{SIZE}]") -> HloInstruction:
    builder = Builder()
    array = builder.parameter(f"f32[{SIZE}]")
    if opcode == "conditional":
        builder.op(opcode, shape, [builder.parameter("pred[]"), array, array], calls=[body, body])
    else:
        builder.op(opcode, shape, [array], calls=[body])
    return builder.root()


@pytest.mark.parametrize("opcode", ["conditional", "call"])
def test_few_ways_are_exact(opcode: str) -> None:
    root = called(sum_of_shifts(analysis.MAX_WAYS), opcode)
    reads = indexing.output_to_input(root)[-1]
    assert (len(reads), reads.knowledge) == (analysis.MAX_WAYS, Knowledge.EXACT)


@pytest.mark.parametrize("opcode", ["conditional", "call"])
@pytest.mark.parametrize("exchanged", [None, 1, 35, 39])
def test_many_ways_are_every_element(opcode: str, exchanged: int | None) -> None:
    root = called(sum_of_shifts(40, exchanged=exchanged), opcode)
    (access,) = indexing.output_to_input(root)[-1]
    written = indexing.input_to_output(root, len(root.operands) - 1)[0]
    # Forwards, an array that was given up is added to others: "every element" and their maps.
    assert len(written) <= 8
    for accesses in ((access,), written):
        known = {one.knowledge for one in accesses}
        assert Knowledge.EVERY_ELEMENT in known
        assert {e for one in accesses for e in elements(one, (3,))} == {(i,) for i in range(SIZE)}
        assert all(one.simplify() is one for one in accesses)
        assert any(one.replica is not None for one in accesses) == (exchanged is not None)
    assert access.replica is None or access.replica.map.is_undefined


def test_a_fusion_stays_exact() -> None:
    root = called(sum_of_shifts(40), "fusion")
    (reads,) = indexing.output_to_input(root)
    assert (len(reads), reads.knowledge) == (40, Knowledge.EXACT)


@pytest.mark.parametrize("opcode", ["conditional", "call"])
def test_a_fusion_in_a_branch(opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fusion of too many maps ends with an error by itself, and is named in every element in a branch or called
    computation."""
    monkeypatch.setattr(analysis, "MAX_ACCESSES", 39)
    with pytest.raises(LimitExceededError, match="more than 39 different ways"):
        indexing.output_to_input(called(sum_of_shifts(40), "fusion"))
    branch = Builder("branch")
    branch.op("fusion", f"f32[{SIZE}]", [branch.parameter(f"f32[{SIZE}]")], calls=[sum_of_shifts(40)])
    root = called(branch, opcode)
    for written in (*indexing.output_to_input(root)[-1:], *indexing.input_to_output(root, len(root.operands) - 1)):
        assert written.knowledge is Knowledge.EVERY_ELEMENT
        assert {e for one in written for e in elements(one, (3,))} == {(i,) for i in range(SIZE)}
    monkeypatch.undo()
    (access,) = indexing.output_to_input(root)[-1]
    assert access.knowledge is Knowledge.EVERY_ELEMENT


def test_hundreds_of_outputs() -> None:
    """Each output reads the array in up to 33 ways; the walks from all outputs share the compositions."""
    count = 200
    body = Builder("body")
    at = body.parameter(f"f32[{SIZE}]")
    outputs = []
    for number in range(count):
        at = body.op("add", f"f32[{SIZE}]", [shifted(body, at, 1 + number % 5), at])
        outputs.append(at)
    shape = f"({', '.join([f'f32[{SIZE}]'] * count)})"
    body.op("tuple", shape, outputs)
    root = called(body, "conditional", shape)
    start = time.monotonic()
    analysis = indexing.Analysis()
    answers = [analysis.output_to_input(root, output) for output in range(count)]
    assert time.monotonic() - start < 30
    assert sum(len(reads) for answer in answers for reads in answer) < 20 * count
    assert answers[0][1].knowledge is Knowledge.EXACT
    assert {(i,) for i in (0, 1, 9)} <= {e for access in answers[3][1] for e in elements(access, (9,))} | {(0,)}
    assert answers[-1][1].knowledge is Knowledge.EVERY_ELEMENT
    # An answer does not depend on the questions before it.
    assert indexing.output_to_input(root, 3) == answers[3]
    assert indexing.output_to_input(root, count - 1) == answers[-1]
