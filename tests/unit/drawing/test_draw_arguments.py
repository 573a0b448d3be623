"""Arguments of `xs.draw`: what it takes, and the errors for the rest."""

from __future__ import annotations

import numpy as np
import pytest

import xlashape as xs
from xlashape.drawing import draw
from xlashape.errors import (
    InvalidArgumentError,
    InvalidIndexError,
    InvalidMapError,
    InvalidShapeError,
    LimitExceededError,
    ParseError,
    UnsupportedError,
    XlashapeError,
)
from xlashape.shape import Layout, Shape


def test_an_array_that_has_no_shape_is_told_why():
    with pytest.raises(InvalidArgumentError, match="no element type corresponds to NumPy's <U1"):
        draw(np.array(["a"]))


def test_one_element_is_in_the_singular():
    assert "\n1 element of f32, 32 bits.\n" in draw("f32[]").text()
    assert "\n1 × 3 elements of f32, 32 bits each." in draw("f32[1,3]").text()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ("f32[?]", {}, InvalidShapeError, "unbounded"),
        ("f32[3", {}, ParseError, "line 1"),
        ("(d0) -> (d1)", {}, XlashapeError, "d1"),
        ("f32[3]", {"at": (3,)}, InvalidIndexError, "outside dimension 0"),
        ("f32[3]", {"at": (1, 2)}, InvalidIndexError, "takes an index of 1 number"),
        ("f32[3]", {"at": "12"}, InvalidArgumentError, "at takes an index"),
        ("f32[3]", {"at": 7}, InvalidArgumentError, "at takes an index"),
        (
            "f32[3]",
            {"color": "rainbow"},
            InvalidArgumentError,
            "color: expected memory, tile, row, bank or segment, found 'rainbow'",
        ),
        ("f32[3]", {"color": 3}, InvalidArgumentError, "color: expected memory"),
        ("f32[3]", {"label": "indx"}, InvalidArgumentError, "did you mean 'index'"),
        ("f32[3]", {"rows": "0:2"}, InvalidArgumentError, "an array of one axis has no rows"),
        ("f32[3,4]", {"rows": "9:12"}, InvalidArgumentError, "rows 9:12 lie outside the axis, which has 3"),
        ("f32[3,4]", {"banks": 0}, InvalidArgumentError, "banks: expected a number from 1"),
        ("f32[3,4]", {"segment_bytes": True}, InvalidArgumentError, "segment_bytes"),
        ("f32[3,4]", {"theme": "blue"}, InvalidArgumentError, "theme: expected auto, light or dark"),
        ("f32[3,4]", {"tile": (1, 2)}, InvalidArgumentError, "tile is for maps and instructions"),
        ("f32[0,3]", {"at": (0, 0)}, InvalidIndexError, "outside dimension 0"),
        ("(f32[3], f32[4])", {"at": (0,)}, InvalidArgumentError, "at is for arrays"),
        ("(f32[3], f32[4])", {"rows": "0:1"}, InvalidArgumentError, "rows is for arrays"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"columns": "0:1"}, InvalidArgumentError, "columns is for shapes"),
        ("f32[3,4]", {"after": 3}, InvalidArgumentError, "after takes a shape"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"after": "f32[3]"}, InvalidArgumentError, "only a shape"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"tile": (2,), "warp": 3}, InvalidArgumentError, "a tile or a warp"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"warp": 0}, InvalidArgumentError, "1 output or more"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"tile": (0,)}, InvalidArgumentError, "sizes of 1 or more"),
        ("(d0) -> (d0), domain: d0 in [0, 9]", {"operand": "f32[3,3]"}, InvalidMapError, "operand has 1 dimensions"),
        (
            "(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [0, 99999], s0 mod 3 in [0, 1]",
            {},
            LimitExceededError,
            "reads that are drawn: 100000 is more than 16384, and they form no tile",
        ),
        (
            "(d0) -> (d0), domain: d0 in [0, 999999]",
            {"warp": 999999},
            LimitExceededError,
            "of the output that are drawn",
        ),
    ],
)
def test_what_is_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        draw(arguments, **options)


@pytest.mark.parametrize("subject", [3, None, b"f32[3]", object(), {1, 2}])
def test_other_subjects_are_refused(subject):
    with pytest.raises(
        InvalidArgumentError, match="draw takes a shape, a layout, an array, an indexing map or an instr"
    ):
        draw(subject)


def test_a_module_is_no_subject_and_its_instructions_are():
    module = xs.HloModule.parse("ENTRY e { ROOT p = f32[4] parameter(0) }")
    with pytest.raises(InvalidArgumentError, match=r"not HloModule: name one of its instructions, `module.instruction"):
        draw(module)
    assert draw(module.entry.root).title == "p (parameter)"


def test_arrays_are_drawn_by_their_shapes():
    assert draw(np.zeros((3, 5), np.float32)).title == "f32[3,5]{1,0}"
    assert draw(("bf16", (8, 128))).title == "bf16[8,128]{1,0}"


def test_sparse_and_unknown_types_are_refused():
    with pytest.raises(UnsupportedError, match="sparse: only dense arrays can be drawn"):
        draw(Shape.array("f32", [4, 4], Layout((1, 0), physical_shape=Shape.parse("f32[9]"))))
    with pytest.raises(UnsupportedError):
        draw(Shape.from_proto(b"\x10\x4d\x1a\x01\x04"))
