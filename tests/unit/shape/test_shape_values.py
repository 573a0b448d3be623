"""Shapes, layouts and tiles as values: frozen, equal by content, hashable, copied, pickled; and what cannot be one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from xlashape.errors import InvalidArgumentError, InvalidShapeError, LimitExceededError, ParseError, SizeOverflowError
from xlashape.shape import COMBINE, UNBOUNDED_SIZE, Layout, PrimitiveType, Shape, SplitConfig, Tile

VALUES = [
    Tile((8, 128)),
    SplitConfig(0, (3, 5)),
    Layout((1, 0), [(8, 128), (2, 1)], memory_space=1),
    Layout((0,), unknown_fields=b"\x98\x06\x01"),
    Shape.parse("f32[3,<=5]{0,1:T(2,2)}"),
    Shape.parse("(f32[], (token[], opaque[]), b(s4[8]{0:E(4)}))"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values(value: Any) -> None:
    for same in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), value.replace()):
        assert same == value
        assert hash(same) == hash(value)
        assert repr(same) == repr(value)
    assert value != "something else"
    assert not hasattr(value, "__dict__")
    with pytest.raises(FrozenInstanceError):
        value.unknown_fields = b""
    with pytest.raises(FrozenInstanceError):
        del value.unknown_fields
    with pytest.raises(AttributeError):
        value.something_new = 1
    with pytest.raises(TypeError, match="has no field 'nothing'"):
        value.replace(nothing=1)


def test_a_pickle_carries_no_hash() -> None:
    shape = Shape.parse("f32[2]")
    before = pickle.dumps(shape)
    hash(shape), str(shape)
    assert pickle.dumps(shape) == before


def test_repr() -> None:
    assert repr(Shape.parse("f32[2,3]")) == "Shape('f32[2,3]{1,0}')"
    assert repr(Layout((1, 0))) == "Layout('{1,0}')"
    assert repr(Tile((COMBINE, 2))) == "Tile('(*,2)')"
    assert repr(SplitConfig(1, (4,))) == "SplitConfig('(1:4)')"
    assert len(repr(Shape.tuple([Shape.array("f32", (2, 3))] * 1_000))) < 450


def test_constructors() -> None:
    assert Shape.array("f32", (2, 3)) == Shape.parse("f32[2,3]{1,0}")
    assert Shape.array(PrimitiveType.F32, [np.int64(2), 3], Layout((0, 1))) == Shape.parse("f32[2,3]{0,1}")
    assert Shape.array(11, (2,), dynamic_dimensions=(True,)) == Shape.parse("f32[<=2]")
    assert Shape.array("f32", (UNBOUNDED_SIZE, 2)) == Shape.parse("f32[?,2]")
    assert Shape.array("f32") == Shape.parse("f32[]")
    assert Shape.tuple() == Shape.parse("()")
    assert Shape.tuple([Shape.token()]) == Shape.parse("(token[])")
    assert Shape.opaque() == Shape.parse("opaque[]")
    assert Shape.buffer(Shape.array("f32", (2,))) == Shape.parse("b(f32[2])")


def test_a_shape_may_have_no_layout() -> None:
    bare = Shape("f32", (2, 3))
    assert str(bare) == "f32[2,3]"
    assert bare.layout is None
    assert bare != Shape.parse("f32[2,3]")
    assert bare.with_default_layout() == Shape.parse("f32[2,3]")
    assert Shape.parse("(f32[2,3], b(s32[4]{0:S(1)}))").without_layout() == Shape.tuple(
        [bare, Shape.buffer(Shape("s32", (4,)))]
    )


def test_predicates() -> None:
    array, scalar, buffer = Shape.parse("f32[2]"), Shape.parse("f32[]"), Shape.parse("b(f32[<=2])")
    nothing = Shape.tuple()
    assert (array.is_array, array.is_scalar, scalar.is_scalar, nothing.is_scalar) == (True, False, True, False)
    assert (nothing.is_tuple, Shape.token().is_token, Shape.opaque().is_opaque, buffer.is_buffer) == (True,) * 4
    assert (array.rank, nothing.rank, buffer.rank) == (1, 0, 0)
    assert buffer.buffer_shape == Shape.parse("f32[<=2]")
    assert (array.is_static, buffer.is_static, Shape.tuple([buffer]).is_static) == (True, False, False)
    assert Shape.parse("(f32[?])").is_unbounded_dynamic
    assert not buffer.is_unbounded_dynamic
    with pytest.raises(InvalidShapeError):
        _ = array.buffer_shape


def test_match() -> None:
    match Shape.parse("f32[2,3]{0,1}"):
        case Shape(PrimitiveType.F32, (rows, columns), Layout((0, 1))):
            assert (rows, columns) == (2, 3)
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize(
    ("make", "error", "field"),
    [
        (lambda: Shape("f32", (2, -1)), InvalidShapeError, "dimensions[1]"),
        (lambda: Shape("f32", (2**63,)), InvalidShapeError, "dimensions[0]"),
        (lambda: Shape("f32", (2.5,)), InvalidShapeError, "dimensions[0]"),
        (lambda: Shape("f32", "23"), InvalidShapeError, "dimensions"),
        (lambda: Shape("f32", 7), InvalidShapeError, "dimensions"),
        (lambda: Shape("f32", (2**32, 2**32)), SizeOverflowError, "dimensions"),
        (lambda: Shape("f32", (2,), (True, False)), InvalidShapeError, "dynamic_dimensions"),
        (lambda: Shape("f32", (UNBOUNDED_SIZE,), (False,)), InvalidShapeError, "dynamic_dimensions[0]"),
        (lambda: Shape("f32", (2,), layout=Layout((1, 0))), InvalidShapeError, "layout.minor_to_major"),
        (lambda: Shape("f32", (2,), layout="{0}"), InvalidShapeError, "layout"),
        (lambda: Shape("f32", (), tuple_shapes=[Shape.token()]), InvalidShapeError, "tuple_shapes"),
        (lambda: Shape("tuple", (2,)), InvalidShapeError, "dimensions"),
        (lambda: Shape("token", layout=Layout()), InvalidShapeError, "layout"),
        (lambda: Shape("token", tuple_shapes=[Shape.token()]), InvalidShapeError, "tuple_shapes"),
        (lambda: Shape("buffer"), InvalidShapeError, "tuple_shapes"),
        (lambda: Shape.buffer(Shape.token()), InvalidShapeError, "tuple_shapes"),
        (lambda: Shape(0), InvalidShapeError, "element_type"),
        (lambda: Shape(99), InvalidArgumentError, "element_type"),
        (lambda: Shape.array("token"), InvalidShapeError, "element_type"),
        (lambda: Layout((0, 0)), InvalidShapeError, "minor_to_major[1]"),
        (lambda: Layout((1,)), InvalidShapeError, "minor_to_major[0]"),
        (lambda: Layout((0,), [(8, 0)]), InvalidShapeError, "tiles[0].dimensions[1]"),
        (
            lambda: Layout((0,), tail_padding_alignment_in_elements=0),
            InvalidShapeError,
            "tail_padding_alignment_in_elements",
        ),
        (lambda: Layout((0,), element_size_in_bits=-1), InvalidShapeError, "element_size_in_bits"),
        (lambda: Layout((0,), index_primitive_type="f32"), InvalidShapeError, "index_primitive_type"),
        (lambda: Layout((0,), memory_space=2**63), InvalidShapeError, "memory_space"),
        (lambda: Layout((0,), split_configs=[SplitConfig(1, (1,))]), InvalidShapeError, "split_configs[0].dimension"),
        (lambda: Layout.default(-1), InvalidShapeError, "rank"),
        (lambda: Tile((8, COMBINE + 2)), InvalidShapeError, "dimensions[1]"),
        (lambda: SplitConfig(-1), InvalidShapeError, "dimension"),
        (lambda: SplitConfig(0, (-1,)), InvalidShapeError, "split_indices[0]"),
        (lambda: Shape("f33"), ParseError, None),
    ],
)
def test_what_cannot_be(make: Any, error: type[Exception], field: str | None) -> None:
    with pytest.raises(error) as caught:
        make()
    assert caught.value.field == field


def test_depth() -> None:
    shape = Shape.tuple()
    for _ in range(79):
        shape = Shape.tuple([shape])
    assert hash(shape) == hash(pickle.loads(pickle.dumps(shape)))
    with pytest.raises(LimitExceededError) as caught:
        Shape.tuple([shape])
    assert (caught.value.limit, caught.value.maximum, caught.value.value) == ("shape_depth", 80, 81)


def test_equality_counts_unknown_fields() -> None:
    plain, marked = Layout((0,)), Layout((0,), unknown_fields=b"\x98\x06\x01")
    assert plain != marked
    assert str(plain) == str(marked)
    assert len({plain, marked, Layout((0,))}) == 2
