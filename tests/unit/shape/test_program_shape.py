"""Program shapes and shape indices as values and text."""

from __future__ import annotations

import copy
import pickle

import pytest

from xlashape.errors import DecodeError, InvalidIndexError, InvalidShapeError, ParseError
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.value.program_shape import ProgramShape, program_shape_text
from xlashape.shape.value.shape_index import ShapeIndex

TEXTS = [
    "() -> ()",
    "(p0: f32[2]{0}) -> f32[]",
    "(p0: f32[2,3]{0,1:T(8,128)}, p1.2: (s32[], token[])) -> (f32[2,3]{0,1:T(8,128)}, s32[])",
    "((unknown): f32[2]{0}) -> f32[2]{0}",
    "((unknown): f32[2]{0}, second: f32[]) -> f32[2]{0}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_round_trips(text: str) -> None:
    program = ProgramShape.parse(text)
    assert str(program) == text
    assert repr(program) == f"ProgramShape('{text}')"
    assert ProgramShape.from_proto(program.to_proto()) == program
    assert ProgramShape.from_proto(program.to_proto().SerializeToString()) == program
    assert pickle.loads(pickle.dumps(program)) == copy.deepcopy(program) == program
    assert hash(ProgramShape.parse(text)) == hash(program)


def test_as_xla_prints_it() -> None:
    program = ProgramShape(
        [Shape.parse("f32[2,3]{0,1}"), Shape.parse("(s32[], token[])")], Shape.parse("f32[2,3]"), ["p0"]
    )
    assert program_shape_text(program, layout=False) == "(p0: f32[2,3], (unknown): (s32[], token[])) -> f32[2,3]"
    assert ProgramShape.parse("(%p0 : f32[2] ) -> f32[]").parameter_names == ("p0",)
    assert ProgramShape.parse("((unknown): f32[2]) -> f32[]").parameter_names == ()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected '('"),
        ("(p0 f32[2]) -> f32[]", 5, "expected ':'"),
        ("(p0: f32[2],) -> f32[]", 13, "expected a parameter's name"),
        ("(p0: f32[2] f32[]", 13, "expected ',' or ')' of the parameters"),
        ("(p0: f32[2])", 13, "expected '->'"),
        ("() -> f32", 10, "expected '['"),
        ("() -> f32[] x", 13, "expected the end of the text"),
        ("(p: f32[2]{1}) -> f32[]", 12, "minor_to_major of 1 dimension has the number 0, not 1"),
    ],
)
def test_mistakes(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        ProgramShape.parse(text)
    assert caught.value.column == column
    assert caught.value.message.startswith(message)


def test_protos() -> None:
    message = xla.ProgramShapeProto()
    message.parameters.add(element_type=xla.F32, dimensions=[2], is_dynamic_dimension=[False])
    message.result.element_type = xla.F32
    message.MergeFromString(b"\x98\x06\x05")
    program = ProgramShape.from_proto(message)
    assert str(program) == "((unknown): f32[2]) -> f32[]"
    assert program.to_proto().SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)
    message.parameters[0].dimensions[0] = -1
    with pytest.raises(InvalidShapeError) as caught:
        ProgramShape.from_proto(message)
    assert caught.value.field == "parameters[0].dimensions[0]"
    with pytest.raises(InvalidShapeError) as caught:
        ProgramShape.from_proto(xla.ProgramShapeProto())
    assert caught.value.field == "result.element_type"
    with pytest.raises(DecodeError):
        ProgramShape.from_proto(b"\xff")


def test_what_cannot_be() -> None:
    scalar = Shape.parse("f32[]")
    with pytest.raises(InvalidShapeError, match="2 names for 1 parameters"):
        ProgramShape([scalar], scalar, ["a", "b"])
    with pytest.raises(InvalidShapeError, match="result takes a Shape, not str"):
        ProgramShape([scalar], "f32[]")
    assert ProgramShape([scalar], scalar).map_shapes(lambda shape: Shape.tuple([shape])) == ProgramShape.parse(
        "((unknown): (f32[])) -> (f32[])"
    )


def test_shape_indices() -> None:
    index = ShapeIndex((1, 2))
    assert index == (1, 2)
    assert (str(index), str(ShapeIndex())) == ("{1,2}", "{}")
    assert repr(index) == "ShapeIndex('{1,2}')"
    assert ShapeIndex.parse(" { 1, 2 } ") == index
    assert ShapeIndex.parse("{}") == ()
    assert index.child(0) == (1, 2, 0)
    assert pickle.loads(pickle.dumps(index)) == copy.copy(index) == index
    assert len({index, (1, 2)}) == 1
    for wrong in ((-1,), (2**63,), ("1",), (1.5,), 7, None):
        with pytest.raises(InvalidIndexError):
            ShapeIndex(wrong)
    for text in ("", "{", "{1", "{1,}", "{-1}", "{1} 2", "1"):
        with pytest.raises(ParseError):
            ShapeIndex.parse(text)
