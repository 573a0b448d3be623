"""Literals both ways: tests/vectors/hlo_literals.jsonl holds XLA's protos and texts, and texts that XLA rejects."""

import base64
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlashape.base import caches
from xlashape.base.text import Source
from xlashape.errors import InvalidArgumentError, InvalidModuleError, LimitExceededError, ParseError, XlashapeError
from xlashape.hlo.literal import from_numpy, from_raw, literal_text, parse_literal, raw, to_numpy
from xlashape.hlo.literal.number import ELEMENT_TYPES
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def rows() -> list[dict]:
    with (VECTORS / "hlo_literals.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def parse(text: str, shape: str) -> xla.LiteralProto:
    source = Source(f"constant({text})")
    literal, end = parse_literal(source, 9, Shape.parse(shape).to_proto())
    if not source.text[end:].startswith(")"):
        raise source.error(end, "expected ')'")
    return literal


def test_every_literal_prints_as_xla_prints_it():
    wrong = [
        row["print"]
        for row in rows()
        if "print" in row and literal_text(base64.b64decode(row["literal"])) != row["print"]
    ]
    assert not wrong


def test_every_text_reads_as_xla_reads_it():
    wrong, count = [], 0
    for row in rows():
        if "text" not in row or "literal" not in row or row["text"].endswith("*/"):
            continue
        count += 1
        expected = xla.LiteralProto.FromString(base64.b64decode(row["literal"]))
        if parse(row["text"], row["shape"]).SerializeToString() != expected.SerializeToString():
            wrong.append((row["shape"], row["text"]))
    assert count > 900
    assert not wrong


def test_every_text_that_xla_rejects_is_rejected():
    accepted = []
    for row in rows():
        if "literal" in row:
            continue
        try:
            parse(row["text"], row["shape"])
        except XlashapeError:
            continue
        accepted.append((row["shape"], row["text"]))
    assert not accepted


def test_what_is_printed_reads_back_to_the_same_bits():
    """Except -0, which XLA too reads as the integer 0, and a complex nan, which loses its other part."""
    for row in rows():
        if not row.get("print"):
            continue
        literal = xla.LiteralProto.FromString(base64.b64decode(row["literal"]))
        element = ELEMENT_TYPES.get(literal.shape.element_type)
        if element is None or literal.dynamic_sizes or not all(literal.shape.dimensions):
            continue
        if "-0" in row["print"] or (element.kind == "complex" and "nan" in row["print"]):
            continue
        again, _ = parse_literal(Source(row["print"] + ")"), 0, literal.shape)
        if element.name in ("s2", "s4", "u2", "u4", "f4e2m1fn"):
            assert np.array_equal(to_numpy(again), to_numpy(literal))
        elif element.kind != "float" or element.name in ("f32", "f64", "f16", "bf16"):
            assert raw(again) == raw(literal), row["print"][:80]


@pytest.mark.parametrize(
    ("shape", "text", "message", "column"),
    [
        ("f32[2]", "{1, 2, 3}", "expected 2 elements in this dimension, found more", 17),
        ("f32[2]", "{1}", "expected 2 elements in this dimension, found 1", 12),
        ("f32[2,2]", "{1, 2}", "expected an array of rank 2, found 1 braces before this number", 11),
        ("f32[]", "{1}", "expected a number of type f32, found '{'", 10),
        ("s8[]", "128", "128 is out of range for s8, which is [-128, 127]", 10),
        ("s32[]", "1.5", "expected an integer, found '1.5'", 10),
        ("f16[]", "1e5", "1e5 is out of range for f16", 10),
        ("f32[]", "nan(0x800000)", "the payload is at most 0x7fffff", 10),
        ("c64[]", "(1)", "expected ',' between the parts of a complex number, found ')'", 12),
        ("(f32[])", "1", "expected '(' before the elements of a tuple, found '1'", 10),
        ("f32[2]", "{1, x}", "expected a number of type f32, found 'x'", 14),
        ("f32[2]", "{1, /* 2}", "this comment is never closed", 14),
        ("token[]", "1", "a literal cannot have element type token", 10),
        ("f32[?]", "{}", "unbounded", 10),
    ],
)
def test_errors_say_what_and_where(shape, text, message, column):
    with pytest.raises(ParseError) as caught:
        parse(text, shape)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_elided_constants_do_not_ask_for_all_of_memory():
    with pytest.raises(LimitExceededError, match="elided constant"):
        parse("{...}", "f32[1000000,1000000]")


def test_hostile_text_is_an_error():
    for text in (
        "{" * 20_000,
        "(" * 20_000,
        "1" * 100_000,
        "1e" + "9" * 5_000,
        "-",
        "{1,\0}",
        "{٣}",
        "\x00",
        "{1" + " " * 10_000,
    ):
        for shape in ("f32[2]", "s32[2,2]", "f64[]", "c64[1]", "((f32[]))", "pred[2]", "u64[]"):
            with pytest.raises(ParseError):
                parse(text, shape)


NUMPY_TYPES = [t for t in ELEMENT_TYPES if PrimitiveType(t).text not in ("s1", "u1", "s2", "u2")]


@pytest.mark.parametrize("number", NUMPY_TYPES, ids=lambda number: PrimitiveType(number).text)
def test_numpy_round_trip_keeps_bits_and_layouts(number):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    element = ELEMENT_TYPES[number]
    rng = np.random.default_rng(7)
    dtype = PrimitiveType(number).numpy_dtype()
    bits = rng.integers(0, 256, 24 * element.width, np.uint8)
    if element.kind == "pred":
        bits &= 1
    elif PrimitiveType(number).bit_width < 8 and element.kind != "pred":
        bits &= (1 << PrimitiveType(number).bit_width) - 1
    for order in ([2, 1, 0], [0, 1, 2], [1, 2, 0]):
        shape = xla.ShapeProto(element_type=number, dimensions=[2, 3, 4], layout={"minor_to_major": order})
        literal = from_raw(shape, bits.tobytes())
        assert raw(literal) == bits.tobytes()
        array = to_numpy(literal)
        assert array.shape == (2, 3, 4)
        assert array.dtype == dtype
        again = from_numpy(array, shape)
        assert to_numpy(again).tobytes() == array.tobytes()
        # Element [i,j,k] lies where the layout says.
        strides = {order[0]: 1, order[1]: [2, 3, 4][order[0]], order[2]: [2, 3, 4][order[0]] * [2, 3, 4][order[1]]}
        flat = to_numpy(from_raw(xla.ShapeProto(element_type=number, dimensions=[24]), bits.tobytes()))
        place = 1 * strides[0] + 2 * strides[1] + 3 * strides[2]
        assert array[1, 2, 3].tobytes() == flat[place].tobytes()


def test_numpy_tuples_and_mistakes():
    literal = from_numpy((np.float32(1.5), np.array([True, False])))
    assert literal_text(literal) == "( 1.5, {1, 0} )"
    one, two = to_numpy(literal)
    assert one == 1.5
    assert two.tolist() == [True, False]
    with pytest.raises(InvalidArgumentError, match="no element type like NumPy's datetime64"):
        from_numpy(np.array(["2020-01-01"], "datetime64[ns]"))
    with pytest.raises(InvalidArgumentError, match=r"an array of float64\[2\] for a literal of f32\[2\]"):
        from_numpy(np.zeros(2), Shape.parse("f32[2]").to_proto())
    with pytest.raises(InvalidModuleError, match="holds 1 elements, not 2"):
        to_numpy(xla.LiteralProto(shape=Shape.parse("f32[2]").to_proto(), f32s=[1]))
    with pytest.raises(InvalidArgumentError, match="3 bytes for a literal of 8"):
        from_raw(Shape.parse("f32[2]").to_proto(), b"abc")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8))
def test_any_f32_bits_survive_text(bits):
    data = struct.pack(f"<{len(bits)}I", *bits)
    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[len(bits)])
    text = literal_text(from_raw(shape, data))
    back = np.frombuffer(raw(parse_literal(Source(text), 0, shape)[0]), np.uint32)
    expected = np.where(np.array(bits, np.uint32) == 0x80000000, 0, bits)
    assert back.tolist() == expected.tolist()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6))
def test_any_f64_bits_survive_text(bits):
    data = struct.pack(f"<{len(bits)}Q", *bits)
    shape = xla.ShapeProto(element_type=xla.F64, dimensions=[len(bits)])
    text = literal_text(from_raw(shape, data))
    back = np.frombuffer(raw(parse_literal(Source(text), 0, shape)[0]), np.uint64)
    assert back.tolist() == [0 if one == 1 << 63 else one for one in bits]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.text(alphabet="{}(),. \n-+0123456789eEinfatrux/*", max_size=40),
    st.sampled_from(["f32[2]", "s8[2,1]", "pred[]", "c64[2]", "(f32[],s4[2])"]),
)
def test_any_text_is_a_literal_or_a_parse_error(text, shape):
    try:
        literal = parse(text, shape)
    except ParseError:
        return
    assert literal_text(literal)


@pytest.mark.parametrize(
    ("text", "shape", "shown"),
    [
        ("5", "s32[1]", "{5}"),
        ("nan", "f32[2]", "{nan, 0}"),
        ("7", "u64[2,2]{0,1}", "{ { 7, 0 }, { 0, 0 } }"),
        ("(3, true)", "(f32[2], pred[1])", "( {3, 0}, {1} )"),
    ],
)
def test_a_number_without_braces_is_the_first_element_as_xla_has_it(text, shape, shown):
    assert literal_text(parse(text, shape)) == shown


@pytest.mark.parametrize(("text", "shape"), [("1", "f32[0]"), ("1", "c64[1]"), ("(1, 2)", "c64[1]"), ("1,2", "f32[2]")])
def test_braces_are_missed_where_xla_misses_them(text, shape):
    with pytest.raises(ParseError):
        parse(text, shape)


def test_a_number_that_stands_for_too_many_elements_is_refused():
    with pytest.raises(LimitExceededError):
        parse("1", "f32[1000000,1000000]")


@pytest.mark.parametrize("separator", [", ", ",", " ", " , "])
@pytest.mark.parametrize("shape", ["s32[70000]", "f32[70000]", "u8[2,35000]", "f32[1,70000]"])
def test_long_rows_are_read_in_pieces(shape, separator):
    sizes = Shape.parse(shape).dimensions
    numbers = [str(i % 100) for i in range(sizes[-1])]
    row = f"{{{separator.join(numbers)}}}"
    text = row if len(sizes) == 1 else f"{{{', '.join([row] * sizes[0])}}}"
    values = to_numpy(parse(text, shape))
    assert values.shape == sizes
    assert (values == np.arange(sizes[-1]) % 100).all()
    with pytest.raises(ParseError):
        parse(text[: len(text) // 2], shape)
    with pytest.raises(ParseError, match="found more"):
        parse(text.replace("{0", "{0, 0"), shape)
    with pytest.raises(ParseError, match="found 69999|found 34999"):
        parse(text.replace("{0,", "{").replace("{0 ", "{"), shape)


def test_what_is_not_plain_in_a_long_row_is_read_too():
    numbers = ["1.5"] * 100_000
    numbers[60_000], numbers[70_000], numbers[99_999] = "nan", "/* here */ -inf", "-0.0"
    values = to_numpy(parse(f"{{{', '.join(numbers)}}}", "f32[100000]"))
    assert np.isnan(values[60_000])
    assert values[70_000] == -np.inf
    assert np.signbit(values[99_999])
    assert (values == 1.5).sum() == 99_997
    numbers[80_000] = "1e999"
    with pytest.raises(ParseError, match="out of range"):
        parse(f"{{{', '.join(numbers)}}}", "f32[100000]")


def test_the_texts_that_are_kept_are_bounded_and_can_be_cleared():
    values = np.arange(100_000, dtype=np.float32) / 7
    text = literal_text(from_numpy(values))
    usages = [usage for usage in caches.report() if usage.owner == "texts of f32 elements"]
    assert len(usages) == 1
    assert 0 < usages[0].bytes <= usages[0].max_bytes < 8 << 20
    caches.clear()
    assert literal_text(from_numpy(values)) == text
