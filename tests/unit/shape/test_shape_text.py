"""The text of shapes: what is read besides the canonical form, and what every mistake is told."""

from __future__ import annotations

import pytest

from xlashape.base.text import Cursor
from xlashape.errors import InvalidArgumentError, ParseError
from xlashape.shape import COMBINE, UNBOUNDED_SIZE, Layout, PrimitiveType, Shape, SplitConfig, Tile
from xlashape.shape.text import shape_text
from xlashape.shape.value.shape import parse_layout, parse_shape

SPELLINGS = [
    ("f32[ ]", "f32[]"),
    ("f32[]{}", "f32[]"),
    ("f32 [2, 3] {1, 0 : T (8, 128) (2,1)}", "f32[2,3]{1,0:T(8,128)(2,1)}"),
    ("f32[2,3]{1,0:}", "f32[2,3]{1,0}"),
    ("f32[02]{00}", "f32[2]{0}"),
    ("/* a */f32/* b */[2,/*c*/3]/* d */{0,1}", "f32[2,3]{0,1}"),
    ("f32[2]\n\t{0}// the end", "f32[2]{0}"),
    ("f32[<= 2,?]", "f32[<=2,?]{1,0}"),
    ("f32[2,3]{1,0:L(1)E(0)S(0)M(0)}", "f32[2,3]{1,0}"),
    ("f32[2,3]{1,0:D(D+~,C)T(8,128)}", "f32[2,3]{1,0:T(8,128)}"),
    ("f32[2,3]{1,0:D()}", "f32[2,3]{1,0}"),
    ("f32[2]{0:T(* , 2)}", "f32[2]{0:T(*,2)}"),
    ("f32[2]{0:T(-9223372036854775808,1)}", "f32[2]{0:T(*,1)}"),
    ("f32[2,3]{1,0:T()}", "f32[2,3]{1,0:T()}"),
    (
        "f32[9]{0:T(8)L(8)#(u8)*(u16)E(8)S(1)SC(0:1)M(8)}",
        "f32[9]{0:T(8)L(8)#(u8)*(u16)E(8)S(1)SC(0:1)M(8)}",
    ),
    ("f32[2]{0:S(-1)}", "f32[2]{0:S(-1)}"),
    ("s2[]{:E(2)}", "s2[]{:E(2)}"),
    ("( )", "()"),
    ("(/*index=0*/f32[2], s32[])", "(f32[2]{0}, s32[])"),
    ("b ( f32[2] )", "b(f32[2]{0})"),
    ("(b(f32[2]), b(f32[]))", "(b(f32[2]{0}), b(f32[]))"),
    ("token []", "token[]"),
    ("f32[9223372036854775807]", "f32[9223372036854775807]{0}"),
    ("f32[0,4294967296,4294967296]", "f32[0,4294967296,4294967296]{2,1,0}"),
    ("f32[?,9223372036854775807]", "f32[?,9223372036854775807]{1,0}"),
]


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_spellings(text: str, canonical: str) -> None:
    shape = Shape.parse(text)
    assert str(shape) == canonical
    assert Shape.parse(canonical) == shape


MISTAKES = [
    ("", 1, 1, "expected a shape, found the end of the text"),
    ("f33[2]", 1, 1, "'f33' is not an element type; did you mean 'f32'?"),
    ("F32[2]", 1, 1, "'F32' is not an element type; did you mean 'f32'?"),
    ("tuple[]", 1, 1, "'tuple' is not an element type"),
    ("invalid[2]", 1, 1, "'invalid' is not an element type"),
    ("f32", 1, 4, "expected '[', found the end of the text"),
    ("f32[2", 1, 6, "expected ',' or ']' of the dimensions, found the end of the text"),
    ("f32[2,]", 1, 7, "expected a dimension's size, found ']'"),
    ("f32[-1]", 1, 5, "a dimension's size is not negative: -1"),
    ("f32[<=-1]", 1, 7, "a dimension's size is not negative: -1"),
    ("f32[<=?]", 1, 7, "expected a dimension's size, found '?'"),
    ("f32[9223372036854775808]", 1, 5, "a dimension's size: 9223372036854775808 does not fit int64"),
    ("f32[2,4294967296,4294967296]", 1, 4, "the sizes multiply to more elements than int64 can count"),
    ("f32[2]{0} f", 1, 11, "expected the end of the text, found 'f'"),
    ("f32[2]{0}{0}", 1, 10, "expected the end of the text, found '{'"),
    ("f32[2,3]{0,0}", 1, 12, "minor_to_major has 0 twice and 1 never"),
    ("f32[2,3]{1,2}", 1, 12, "minor_to_major of 2 dimensions has each of 0 to 1 once, not 2"),
    ("f32[2,3]{-1,0}", 1, 10, "minor_to_major of 2 dimensions has each of 0 to 1 once, not -1"),
    ("f32[2,3]{0}", 1, 9, "the layout is of 1 dimensions, the array has 2"),
    ("f32[2,3]{}", 1, 9, "the layout is of 0 dimensions, the array has 2"),
    ("f32[2,3]{1,0", 1, 13, "expected ',', ':' or '}' of the layout, found the end of the text"),
    ("f32[2,3]{1,0:T(0)}", 1, 16, "a tile size is 1 or more, not 0"),
    ("f32[2,3]{1,0:T(8)(2,-3)}", 1, 21, "a tile size is 1 or more, not -3"),
    ("f32[2,3]{1,0:T(2,*,)}", 1, 20, "expected a tile size, '*' or 'd', found ')'"),
    ("f32[2,3]{1,0:T(d2)}", 1, 17, "expected ',' or ')' of the tile, found '2'"),
    ("f32[2,3]{1,0:T(D,2)}", 1, 16, "expected a tile size, '*' or 'd', found 'D'"),
    ("f32[2,3]{1,0:L(0)}", 1, 16, "tail_padding_alignment_in_elements is 1 or more, not 0"),
    ("f32[2,3]{1,0:E(-4)}", 1, 16, "element_size_in_bits is 0 or more, not -4"),
    ("f32[2,3]{1,0:M(-8)}", 1, 16, "dynamic_shape_metadata_prefix_bytes is 0 or more, not -8"),
    ("f32[2,3]{1,0:#(f32)}", 1, 16, "'f32' is not an integer type"),
    (
        "f32[2,3]{1,0:S(1)T(8)}",
        1,
        18,
        "'T' cannot stand here: the parts of a layout come once each, in the order D T L # * E S SC P M",
    ),
    ("f32[2,3]{1,0:Q(1)}", 1, 14, "expected '}' of the layout or one of D T L # * E S SC P M, found 'Q'"),
    ("f32[2,3]{1,0:S(1)Q(1)}", 1, 18, "expected '}' of the layout or one of SC P M, found 'Q'"),
    ("f32[2,3]{1,0:S}", 1, 15, "expected '(', found '}'"),
    ("f32[2,3]{1,0:S(1", 1, 17, "expected ')' of S, found the end of the text"),
    ("f32[2,3]{1,0:D(X)}", 1, 16, "expected a dimension level type: D, C, S or H, found 'X'"),
    ("f32[2,3]{1,0:SC(2:1)}", 1, 17, "dimension 2 of a split is not one of the layout's 2"),
    ("f32[2,3]{1,0:SC(0:2,1)}", 1, 21, "split indices grow from 0: 1 comes after 2"),
    (
        "f32[2,3]{1,0:P(f32[2]{0})}",
        1,
        14,
        "a physical shape belongs to a sparse array, and this one is dense",
    ),
    ("token[2]", 1, 6, "a token has no dimensions"),
    ("token[]{}", 1, 8, "a token has no layout"),
    ("(opaque[]{})", 1, 10, "an opaque has no layout"),
    ("opaque[3]", 1, 7, "an opaque has no dimensions"),
    ("f32[3]{", 1, 8, "expected a dimension number, ':' or '}' of the layout, found the end of the text"),
    ("(f32[3] { x, s32[])", 1, 11, "expected a dimension number, ':' or '}' of the layout, found 'x'"),
    ("(f32[2],)", 1, 9, "expected a shape, found ')'"),
    ("(f32[2] s32[])", 1, 9, "expected ',' or ')' of the tuple, found 's32'"),
    ("b((f32[2]))", 1, 3, "expected an array, found '('"),
    ("b(token[])", 1, 3, "a buffer holds one array"),
    ("b(b(f32[2]))", 1, 3, "'b' is not an element type"),
    ("f32[2,\n  3}", 2, 4, "expected ',' or ']' of the dimensions, found '}'"),
    ("f32[2] /* open", 1, 8, "this comment is never closed"),
    ("f32\0[2]", 1, 4, "expected '[', found '\\x00'"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), MISTAKES)
def test_mistakes(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        Shape.parse(text)
    assert caught.value.message.startswith(message)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_error_shows_the_line() -> None:
    with pytest.raises(ParseError) as caught:
        Shape.parse("f32[2,3]{0,0}")
    assert str(caught.value).splitlines()[1:] == ["  f32[2,3]{0,0}", "             ^"]


HOSTILE = [
    "(" * 20_000,
    "(" * 20_000 + ")" * 20_000,
    "f32[" + "1," * 20_000 + "1]{",
    "f32[" + "9" * 100_000 + "]",
    "f32[2]{0:T(" + "1" * 5_000 + ")}",
    "f32[2]{0:" + "T(1)" * 1_000 + "}",
    "f" * 100_000,
    "\0" * 1_000,
    "\ud800[2]",
    "f32[\u0662]",
    "f32[２]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        Shape.parse(text)
    assert len(str(caught.value)) < 1_000


def test_no_text() -> None:
    for value in (None, 7, b"f32[2]", ["f32[2]"]):
        with pytest.raises(InvalidArgumentError):
            Shape.parse(value)


def test_deep_tuples() -> None:
    deepest = "(" * 80 + ")" * 80
    assert str(Shape.parse(deepest)) == deepest
    with pytest.raises(ParseError, match="tuples are nested more than 80 deep"):
        Shape.parse(f"({deepest})")


def test_long_tuples() -> None:
    shape = Shape.tuple([Shape.array("f32")] * 12)
    assert str(shape) == (
        "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[], f32[], f32[], f32[], f32[], /*index=10*/f32[], f32[])"
    )
    assert Shape.parse(str(shape)) == shape
    assert Shape.parse(shape_text(shape, layout=False)) == shape


def test_what_is_not_read_is_still_printed() -> None:
    layout = Layout((0,), physical_shape=Shape.parse("(s32[4]{0}, f32[4]{0})"))
    assert str(layout) == "{0:P((s32[4]{0}, f32[4]{0}))}"


def test_every_part() -> None:
    shape = Shape.parse("f32[2,<=7,?]{2,0,1:T(*,2,4)(2,1)L(16)#(u32)*(u64)E(4)S(5)SC(0:3)(2:1)M(8)}")
    assert shape.element_type is PrimitiveType.F32
    assert shape.dimensions == (2, 7, UNBOUNDED_SIZE)
    assert shape.dynamic_dimensions == (False, True, True)
    assert shape.layout == Layout(
        (2, 0, 1),
        (Tile((COMBINE, 2, 4)), Tile((2, 1))),
        16,
        PrimitiveType.U32,
        PrimitiveType.U64,
        4,
        5,
        (SplitConfig(0, (3,)), SplitConfig(2, (1,))),
        None,
        8,
    )


def test_the_cursor_stays_behind_the_shape() -> None:
    cursor = Cursor("  f32[2]{0} parameter(0)")
    assert str(parse_shape(cursor)) == "f32[2]{0}"
    assert cursor.parse_word() == "parameter"
    cursor = Cursor("{1,0:T(8,128)}, x")
    assert str(parse_layout(cursor)) == "{1,0:T(8,128)}"
    cursor.expect(",")


def test_a_body_after_a_shape_is_no_layout() -> None:
    for body in (" {\n  ROOT x", "{ROOT", " { %x = f32[]"):
        cursor = Cursor("f32[2]" + body)
        assert str(parse_shape(cursor)) == "f32[2]{0}"
        assert cursor.looking_at("{")


def test_the_same_text_gives_the_same_object() -> None:
    text = "(f32[17,19]{0,1}, (s32[], token[]))"
    assert Shape.parse(text) is Shape.parse(text)
    assert Shape.parse("(f32[17,19]{0,1})").tuple_shapes[0] is Shape.parse("f32[17,19]{0,1}")
