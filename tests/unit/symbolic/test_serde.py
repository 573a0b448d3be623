"""Maps as protos and back: nothing is lost, shared parts are one node, and what cannot be is refused by the path of its
field.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xlashape.errors import DecodeError, InvalidMapError, LimitExceededError, SizeOverflowError
from xlashape.proto import v1
from xlashape.symbolic import Add, IndexingMap, Interval, Max, Min, Var, const, dim, rng

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "maps.jsonl"
K = v1.Expression


def texts() -> list[str]:
    rows = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    return [row[key] for row in rows for key in ("map", "first", "second") if key in row]


def test_every_map_of_the_vectors_comes_back() -> None:
    for text in texts():
        here = IndexingMap.parse(text)
        assert IndexingMap.from_proto(here.to_proto()) == here
        assert IndexingMap.from_proto(here.to_proto().SerializeToString()) == here


@pytest.mark.parametrize(
    "text",
    [
        "UNDEFINED",
        "KNOWN EMPTY",
        "() -> ()",
        "(th_x)[s0]{offset} -> (th_x + s0 * 4 + offset, min(s0, 3), max(th_x, 1), th_x ceildiv 2), domain: th_x in [0, "
        "9], s0 in [0, 3], offset in [0, 1], th_x + s0 in [2, 7]",
        "(d0) -> (d0), domain: d0 in [-9223372036854775808, 9223372036854775807]",
    ],
)
def test_every_kind_of_map_comes_back(text: str) -> None:
    here = IndexingMap.parse(text)
    back = IndexingMap.from_proto(here.to_proto())
    assert back == here
    assert (back.is_undefined, back.is_known_empty) == (here.is_undefined, here.is_known_empty)


def test_a_map_that_is_known_to_be_empty_keeps_variables_and_results() -> None:
    here = IndexingMap.from_sizes([3, 0], [2], [dim(0), dim(1), rng(0)])
    assert here.is_known_empty
    proto = here.to_proto()
    assert (proto.state, len(proto.dimensions), len(proto.results)) == (v1.IndexingMap.STATE_KNOWN_EMPTY, 2, 3)
    assert IndexingMap.from_proto(proto) == here


def test_nodes_stand_behind_their_operands_and_shared_ones_once() -> None:
    shared = dim(0) * 3
    here = IndexingMap.from_sizes([4], results=[shared + 1, shared % 2])
    proto = here.to_proto()
    assert sum(one.kind == K.KIND_MULTIPLY for one in proto.expressions) == 1
    for i, one in enumerate(proto.expressions):
        assert all(place < i for place in one.operands)


def test_what_is_huge_as_text_is_short_as_nodes() -> None:
    expr = dim(0)
    for i in range(15):
        expr = Max(Add(expr, const(i)), Min(expr, const(-i)))
    here = IndexingMap([Var(Interval(0, 3))], results=[expr])
    proto = here.to_proto()
    assert len(proto.expressions) < 100
    assert IndexingMap.from_proto(proto) == here


def test_what_would_be_endless_as_text_is_refused() -> None:
    proto = v1.IndexingMap(
        dimensions=[v1.Variable(bounds=v1.Interval(upper=3))], expressions=[K(kind=K.KIND_DIMENSION)]
    )
    for i in range(1000):
        proto.expressions.add(kind=K.KIND_MINIMUM, operands=[i, i])
    proto.results.append(1000)
    with pytest.raises(LimitExceededError):
        IndexingMap.from_proto(proto)


def test_more_than_two_operands_are_taken_from_left_to_right() -> None:
    proto = IndexingMap.from_sizes([4], [5], [0]).to_proto()
    del proto.expressions[:]
    proto.expressions.extend([K(kind=K.KIND_DIMENSION), K(kind=K.KIND_RANGE), K(kind=K.KIND_CONSTANT, value=7)])
    proto.expressions.add(kind=K.KIND_ADD, operands=[0, 1, 2])
    proto.results[:] = [3]
    assert IndexingMap.from_proto(proto).results == (Add(Add(dim(0), rng(0)), const(7)),)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("(d0) -> (d0 * 4), domain: d0 in [0, 2305843009213693951]", True),
        ("(d0) -> (d0 * 4), domain: d0 in [0, 2305843009213693952]", False),
        ("(d0) -> ((d0 * 4) mod 7), domain: d0 in [0, 2305843009213693952]", False),
        ("(d0) -> (d0), domain: d0 in [0, 9223372036854775807], d0 + 1 in [0, 9]", False),
        ("(d0)[s0] -> (d0 - s0), domain: d0 in [-9223372036854775808, 0], s0 in [0, 0]", True),
        ("(d0)[s0] -> (d0 - s0), domain: d0 in [-9223372036854775808, 0], s0 in [0, 1]", False),
        ("(d0) -> (d0 * d0 * d0), domain: d0 in [0, 9223372036854775807], d0 in [0, 9]", True),
        ("KNOWN EMPTY", True),
        ("UNDEFINED", False),
    ],
)
def test_a_map_says_whether_its_values_fit_int64(text: str, fits: bool) -> None:
    given = IndexingMap.parse(text)
    message = given.to_proto()
    assert message.fits_int64 is fits
    message.fits_int64 = not fits  # which nobody reads
    assert IndexingMap.from_proto(message) == given


def test_numbers_beyond_int64_are_refused() -> None:
    with pytest.raises(SizeOverflowError):
        IndexingMap.from_sizes([4], results=[dim(0) * 2**70]).to_proto()
    with pytest.raises(SizeOverflowError):
        IndexingMap([Var(Interval(0, 2**63))]).to_proto()


ONE = [v1.Variable(bounds=v1.Interval(lower=0, upper=3))]
D0 = K(kind=K.KIND_DIMENSION)


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        (v1.IndexingMap(state=17), "state", "there is no state 17"),
        (v1.IndexingMap(results=[0]), "results[0]", "there is no expression 0"),
        (
            v1.IndexingMap(constraints=[v1.Constraint(expression=3)]),
            "constraints[0].expression",
            "there is no expression 3",
        ),
        (v1.IndexingMap(dimensions=ONE, expressions=[K()]), "expressions[0]", "there is no kind 0"),
        (v1.IndexingMap(dimensions=ONE, expressions=[K(kind=99)]), "expressions[0]", "there is no kind 99"),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[K(kind=K.KIND_DIMENSION, value=1)]),
            "expressions[0]",
            "there is no variable 1",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[K(kind=K.KIND_RANGE)]),
            "expressions[0]",
            "there is no variable 0",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[K(kind=K.KIND_DIMENSION, value=-1)]),
            "expressions[0]",
            "there is no variable -1",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[K(kind=K.KIND_DIMENSION, operands=[0])]),
            "expressions[0]",
            "only operations have operands",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[K(kind=K.KIND_ADD, operands=[0, 0])]),
            "expressions[0]",
            "a node before this one, not 0",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[D0, K(kind=K.KIND_ADD, operands=[0, 7])]),
            "expressions[1]",
            "a node before this one, not 7",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[D0, K(kind=K.KIND_ADD, operands=[0])]),
            "expressions[1]",
            "two or more operands, found 1",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[D0, K(kind=K.KIND_MODULO, operands=[0] * 3)]),
            "expressions[1]",
            "two operands, found 3",
        ),
        (
            v1.IndexingMap(dimensions=ONE, expressions=[D0, K(kind=K.KIND_MODULO, operands=[0, 0])]),
            "expressions[1]",
            "a positive constant",
        ),
        (
            v1.IndexingMap(
                dimensions=ONE, expressions=[D0, K(kind=K.KIND_CONSTANT), K(kind=K.KIND_FLOOR_DIVIDE, operands=[0, 1])]
            ),
            "expressions[2]",
            "a positive constant, not 0",
        ),
        (v1.IndexingMap(dimensions=[v1.Variable(name="a b")]), None, "not a name"),
    ],
)
def test_what_cannot_be_is_named(wrong: v1.IndexingMap, field: str | None, said: str) -> None:
    with pytest.raises(InvalidMapError, match=said) as caught:
        IndexingMap.from_proto(wrong)
    assert caught.value.field == field


def test_bytes_that_are_no_map() -> None:
    with pytest.raises(DecodeError, match=r"not a xlashape\.v1\.IndexingMap"):
        IndexingMap.from_proto(b"\xff")
