"""Tokens, spaces, comments, and errors that show where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlashape import limits
from xlashape.base.text import Cursor, Source
from xlashape.errors import InvalidArgumentError, LimitExceededError, ParseError


def test_tokens_with_spaces_and_comments_between():
    cursor = Cursor(" /* a * b ** */ word // to the end\n  -12 /**/ (")
    assert cursor.parse_word() == "word"
    assert cursor.parse_int() == -12
    assert cursor.looking_at("(")
    assert cursor.accept("(")
    assert not cursor.accept("(")
    assert cursor.at_end()
    cursor.expect_end()


def test_an_error_shows_the_line_and_a_caret():
    cursor = Cursor(Source("one\ntwo ?\nthree", "x.txt"))
    assert (cursor.parse_word(), cursor.parse_word()) == ("one", "two")
    with pytest.raises(ParseError) as caught:
        cursor.expect("]")
    assert str(caught.value) == "x.txt:2:5: expected ']', found '?'\n  two ?\n      ^"
    assert (caught.value.expected, caught.value.found) == ("']'", "'?'")


def test_the_end_of_the_text_is_named():
    with pytest.raises(ParseError, match="expected an integer, found the end of the text"):
        Cursor("  ").parse_int()
    with pytest.raises(ParseError, match="expected the end of the text, found 'x'"):
        Cursor("x").expect_end()


def test_long_lines_are_shown_around_the_mistake():
    with pytest.raises(ParseError) as caught:
        Cursor(Source("a" * 10_000 + "!" + "b" * 10_000), at=10_000).expect("]")
    error = caught.value
    assert len(error.source_line) < 120
    assert error.source_line[error.caret] == "!"
    assert error.column == 10_001


def test_control_characters_are_not_printed_raw():
    with pytest.raises(ParseError) as caught:
        Cursor("\0\x1b[31m").expect("]")
    assert "\x1b" not in str(caught.value)
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize("text", ["/*", "/* *", "/*/", "x/*" + "*" * 100_000])
def test_a_comment_never_closed(text):
    with pytest.raises(ParseError, match="never closed"):
        Cursor(text, at=text.index("/")).at_end()


@given(st.integers(-(2**70), 2**70))
def test_integers_are_int64(value):
    cursor = Cursor(f"000{value}" if value >= 0 else str(value))
    if limits.INT64_MIN <= value <= limits.INT64_MAX:
        assert cursor.parse_int() == value
        assert cursor.at_end()
    else:
        with pytest.raises(ParseError, match="does not fit int64"):
            cursor.parse_int()


def test_a_million_digits_are_an_error_at_once():
    with pytest.raises(ParseError, match="does not fit int64"):
        Cursor("9" * 1_000_000).parse_int()


@given(st.text(alphabet="ab\n \té", max_size=40), st.data())
def test_positions_count_lines_and_characters(text, data):
    offset = data.draw(st.integers(0, len(text)))
    line, column = Source(text).position(offset)
    before = text[:offset].split("\n")
    assert (line, column) == (len(before), len(before[-1]) + 1)


def test_only_text_is_text():
    with pytest.raises(InvalidArgumentError, match="expected text, found bytes"):
        Source(b"f32[]")


def test_text_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_TEXT_CHARACTERS", 3)
    with pytest.raises(LimitExceededError, match="text characters: 4 is more than 3"):
        Source("abcd")
