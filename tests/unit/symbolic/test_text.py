"""Reading and printing maps: both spellings, older forms, names, mistakes."""

from __future__ import annotations

import pytest

from xlashape.errors import InvalidArgumentError, LimitExceededError, ParseError, SizeOverflowError
from xlashape.symbolic import IndexingMap, Interval, Var, const, dim, maximum, minimum, parse_with_producers, rng

DOMAIN = ", domain: d0 in [0, 99], d1 in [0, 19], s0 in [0, 4], rt0 in [0, 2]"


def expression(text: str) -> str:
    """The expression as it is printed back, read in a map of two dimensions, a range and a runtime variable."""
    return repr(IndexingMap.parse(f"(d0, d1)[s0]{{rt0}} -> ({text}){DOMAIN}").results[0])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2 + d0", "d0 + 2"),
        ("2 * d0", "d0 * 2"),
        ("d0 + (d1 + s0)", "d0 + d1 + s0"),
        ("d0 - d1", "d0 - d1"),
        ("d0 - (d1 - s0)", "d0 - d1 + s0"),
        ("-d0 / 4", "-d0 / 4"),
        ("-(d0 / 4)", "-(d0 / 4)"),
        ("(-d0) mod 4", "-d0 mod 4"),
        ("-(d0 mod 4) mod 3", "-(d0 mod 4) mod 3"),
        ("d0 / 8 mod 4", "(d0 / 8) mod 4"),
        ("d0 mod 4 / 2", "(d0 mod 4) / 2"),
        ("d0 floordiv 4 floordiv 2", "d0 / 4 / 2"),
        ("d0 / 4 / 2", "d0 / 4 / 2"),
        ("d0 mod 8 mod 4", "d0 mod 8 mod 4"),
        ("(d1 mod 2) * 4 + d0", "(d1 mod 2) * 4 + d0"),
        ("d0 * 2 floordiv 4", "(d0 * 2) / 4"),
        ("d0 ceildiv 8", "d0 ceildiv 8"),
        ("(d0 ceildiv 3) floordiv 2", "(d0 ceildiv 3) / 2"),
        ("d0 * d1 * 3", "d0 * d1 * 3"),
        ("d0 * (d1 + 2)", "d0 * (d1 + 2)"),
        ("min(d0 + 1, max(d1, 3)) + 2", "min(d0 + 1, max(d1, 3)) + 2"),
        ("-min(d0, d1)", "-min(d0, d1)"),
        ("min(4, d0) * 3", "min(d0, 4) * 3"),
        ("d0 - (d1 mod 4) * 3", "d0 - (d1 mod 4) * 3"),
        ("- - d0", "d0"),
        ("d0 + -3", "d0 - 3"),
        ("-3 - d0", "-d0 - 3"),
        ("-5 floordiv 2", "-3"),
        ("d0 / -3", "-d0 / 3"),
        ("rt0 + s0", "rt0 + s0"),
        ("((((d0))))", "d0"),
    ],
)
def test_expressions(text, printed):
    assert expression(text) == printed
    assert expression(printed) == printed


def test_affine_style():
    m = IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8, d0 ceildiv 3), domain: d0 in [0, 31], d0 / 2 in [0, 9]")
    assert m.to_text(style="affine") == (
        "(d0) -> (d0 floordiv 8, d0 mod 8, d0 ceildiv 3), domain: d0 in [0, 31], d0 floordiv 2 in [0, 9]"
    )
    with pytest.raises(InvalidArgumentError, match="style is one of affine, xla"):
        m.to_text(style="mlir")


@pytest.mark.parametrize(
    "text",
    [
        "() -> ()",
        "()[] -> ()",
        "  ()  ->  ( )",
    ],
)
def test_scalars(text):
    assert str(IndexingMap.parse(text)) == "() -> ()"
    assert IndexingMap.parse(text).evaluate(()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1)[s0] -> (d0 + s0, d1),\ndomain:\nd0 in [0, 3],\nd1 in [0, 2],\ns0 in [0, 1],\nd0 + s0 in [0, 3]",
        "(d0, d1)[s0] -> (d0 + s0, d1),\n  domain:\n  d0 in [0, 3]\n  d1 in [0, 2]\n  s0 in [0, 1]\n  d0 + s0 in [0, "
        "3]\n",
        "(d0,d1)[s0]->(d0+s0,d1),domain:d0 in[0,3],d1 in[0,2],s0 in[0,1],d0+s0 in[0,3],",
        '#xla.indexing_map<"(d0, d1)[s0] -> (d0 + s0, d1), domain: d0 in [0, 3], d1 in [0, 2], s0 in [0, 1], d0 + s0 '
        'in [0, 3]">',
        "(d0, d1)[s0] -> (d0 + s0, d1), domain: d0 in [0, 3], d1 in [0, 2], s0 in [0, 1], d0 + s0 in [0, 3], "
        "is_simplified: true",
        "(d0, d1)[s0] -> (d0 + s0, d1), domain: s0 in [0, 1], d1 in [0, 2], d0 in [0, 9], d0 in [-1, 3], d0 + s0 in "
        "[0, 3]",
    ],
)
def test_one_map_in_many_spellings(text):
    assert str(IndexingMap.parse(text)) == (
        "(d0, d1)[s0] -> (d0 + s0, d1), domain: d0 in [0, 3], d1 in [0, 2], s0 in [0, 1], d0 + s0 in [0, 3]"
    )


@pytest.mark.parametrize(("text", "printed"), [(" KNOWN EMPTY\n", "KNOWN EMPTY"), ("UNDEFINED", "UNDEFINED")])
def test_maps_without_points(text, printed):
    m = IndexingMap.parse(text)
    assert str(m) == printed
    assert (m.is_known_empty, m.is_undefined) == (printed == "KNOWN EMPTY", printed == "UNDEFINED")


def test_names():
    text = "(th_x, bl_x)[foo]{bar} -> (th_x * 4 + foo), domain: th_x in [0, 3], bl_x in [0, 4], foo in [0, 1], bar in [0, 2], bl_x + foo in [0, 2]"
    m = IndexingMap.parse(text)
    assert str(m) == text
    assert [var.name for var in m.variables] == ["th_x", "bl_x", "foo", "bar"]
    assert m.results == (dim(0) * 4 + rng(0),)
    assert str(IndexingMap.parse("(d1, d0) -> (d1), domain: d1 in [0, 3], d0 in [1, 4]")) == (
        "(d1, d0) -> (d1), domain: d1 in [0, 3], d0 in [1, 4]"
    )


def test_constraints_print_sorted_as_strings():
    m = IndexingMap.parse(
        "(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [0, 0], (d0 * 3) / 2 in [0, 9], d0 + 5 in [5, 7]"
    )
    assert str(m).split("[0, 9], ", 1)[1] == "(d0 * 3) / 2 in [0, 9], d0 + 5 in [5, 7], d0 mod 2 in [0, 0]"


OLDER = """(d0, d1, d2)[s0, s1, s2] -> (d0 + s0, d1 + s1, d2 + s2),
domain:
d0 in [0, 1]
d1 in [0, 2]
d2 in [0, 3]
s0 in [0, 1]
  hlo: of1 = s32[] parameter(1)
  (d0, d1, d2) -> ()
s1 in [0, 7]
s2 in [0, 226]
  hlo: of3 = s32[2]{0} parameter(3)
  (d0, d1, d2) -> (d0, 1)
"""


def test_older_runtime_variables():
    m, producers = parse_with_producers(OLDER)
    assert str(m) == (
        "(d0, d1, d2)[s0]{rt0, rt1} -> (d0 + rt0, d1 + s0, d2 + rt1), domain: "
        "d0 in [0, 1], d1 in [0, 2], d2 in [0, 3], s0 in [0, 7], rt0 in [0, 1], rt1 in [0, 226]"
    )
    assert [p.instruction for p in producers] == ["of1 = s32[] parameter(1)", "of3 = s32[2]{0} parameter(3)"]
    assert str(IndexingMap.from_parts(producers[1].map)) == (
        "(d0, d1, d2) -> (d0, 1), domain: d0 in [0, 1], d1 in [0, 2], d2 in [0, 3]"
    )
    assert IndexingMap.parse(OLDER) == m


def test_trailer_of_runtime_variables():
    text = (
        "(d0){rt0, rt1} -> (d0 + rt1), domain: d0 in [0, 3], rt0 in [0, 2], rt1 in [0, 8]\n"
        "runtime variables:\n\nrt0: parameter(1); (d0) -> (), domain: d0 in [0, 3]\n"
        "rt1: %of = s32[]{:T(128)} copy(p.2); (d0) -> (d0 mod 2), domain: d0 in [0, 3]\n"
    )
    m, producers = parse_with_producers(text)
    assert m.counts == (1, 0, 2)
    assert [p.instruction for p in producers] == ["parameter(1)", "%of = s32[]{:T(128)} copy(p.2)"]
    assert str(IndexingMap.from_parts(producers[1].map)) == "(d0) -> (d0 mod 2), domain: d0 in [0, 3]"
    with pytest.raises(ParseError, match="no runtime variable is named 'rt7'"):
        IndexingMap.parse(text.replace("rt1: %of", "rt7: %of"))
    with pytest.raises(ParseError, match="line 4, column 1: expected a runtime variable"):
        IndexingMap.parse(text.replace("; (d0) -> (),", " (d0) -> (),"))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "",
            1,
            "expected '(' and the names of the dimensions, 'KNOWN EMPTY' or 'UNDEFINED', found the end of the text",
        ),
        ("d0", 1, "expected '('"),
        ("(d0", 4, "expected ',' or ')', found the end of the text"),
        ("(d0, 3)", 6, "expected the name of a variable, found '3'"),
        ("(d0) (d0)", 6, "expected '->', found '('"),
        ("(d0) -> d0", 9, "expected '(', found 'd0'"),
        ("(d0) -> (d0", 12, "expected an operator, ',' or ')', found the end of the text"),
        ("(d0) -> (d0)", 2, "the domain gives no interval for 'd0'"),
        ("(d0) -> (d1), domain: d0 in [0, 3]", 10, "no variable is named 'd1'"),
        ("(d0, d0) -> (d0), domain: d0 in [0, 3]", 6, "two variables are named 'd0'"),
        ("(min) -> ()", 2, "expected the name of a variable, found 'min'"),
        ("(d0) -> (d0 mod 0), domain: d0 in [0, 3]", 13, "a modulus is a positive constant, not 0"),
        ("(d0) -> (d0 mod -3), domain: d0 in [0, 3]", 13, "a modulus is a positive constant, not -3"),
        ("(d0) -> (d0 / 0), domain: d0 in [0, 3]", 13, "a divisor is a positive constant, not 0"),
        ("(d0) -> (4 / d0), domain: d0 in [0, 3]", 12, "a divisor is a positive constant, not an expression"),
        ("(d0) -> (d0 +), domain: d0 in [0, 3]", 14, "expected an expression, found ')'"),
        ("(d0) -> (+d0), domain: d0 in [0, 3]", 10, "expected an expression, found '+'"),
        ("(d0) -> (d0 % 4), domain: d0 in [0, 3]", 13, "expected an operator, ',' or ')', found '%'"),
        ("(d0) -> (min(d0)), domain: d0 in [0, 3]", 16, "expected an operator or ','"),
        ("(d0) -> (min(d0, 1, 2)), domain: d0 in [0, 3]", 19, "expected an operator or ')'"),
        ("(d0) -> (foo(d0)), domain: d0 in [0, 3]", 10, "no variable is named 'foo'"),
        ("(d0) -> ((d0), domain: d0 in [0, 3]", 16, "expected an expression, found 'domain'"),
        ("(d0) -> (d0), domain: d0 in [0 3]", 32, "expected ',', found '3'"),
        ("(d0) -> (d0), domain: d0 [0, 3]", 26, "expected an operator or 'in'"),
        (
            "(d0) -> (d0), domain: d0 in [0, 3] d0 mod 2 in [0, 0]",
            36,
            "expected ',', a new line or the end of the text",
        ),
        ("(d0) -> (d0), domain: d0 in [0, 9223372036854775808]", 33, "9223372036854775808 does not fit int64"),
        ("(d0) -> (99999999999999999999), domain: d0 in [0, 3]", 10, "99999999999999999999 does not fit int64"),
        ("(d0) -> (d0), domain: d0 in [0, 3], é", 37, "expected an expression, found 'é'"),
    ],
)
def test_mistakes(text, column, message):
    with pytest.raises(ParseError) as raised:
        IndexingMap.parse(text)
    assert message in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)


def test_hostile_text():
    nested = "(d0) -> (%s), domain: d0 in [0, 3]"
    assert str(IndexingMap.parse(nested % ("(" * 20_000 + "d0" + ")" * 20_000))) == "(d0) -> (d0), domain: d0 in [0, 3]"
    assert str(IndexingMap.parse(nested % ("-" * 20_001 + "d0"))) == "(d0) -> (-d0), domain: d0 in [0, 3]"
    for deep in ("(" * 20_000, "min(" * 20_000, "-" * 20_000, "d0 mod (" * 20_000):
        with pytest.raises(ParseError):
            IndexingMap.parse(nested % deep)
    with pytest.raises(LimitExceededError, match="expression depth"):
        IndexingMap.parse(nested % ("(" * 20_000 + "d0" + " + 1) / 2" * 20_000))
    long_sum = IndexingMap.parse(nested % " + ".join(["d0"] * 20_000))
    assert long_sum.evaluate((3,)) == (60_000,)
    assert str(long_sum.simplify()) == "(d0) -> (d0 * 20000), domain: d0 in [0, 3]"
    with pytest.raises(InvalidArgumentError, match="expected text"):
        IndexingMap.parse(None)


def test_numbers_beyond_int64_do_not_print():
    m = IndexingMap((Var(Interval(0, 3)),), results=(dim(0) * 2**62 * 4,))
    with pytest.raises(SizeOverflowError, match="does not fit int64"):
        str(m)
    assert m.evaluate((3,)) == (3 * 2**64,)


def test_int64_limits_read_and_print():
    text = "(d0) -> (d0 - 1), domain: d0 in [-9223372036854775808, 9223372036854775807]"
    assert str(IndexingMap.parse(text)) == text
    assert IndexingMap.parse(text).evaluate((-(2**63),)) == (-(2**63) - 1,)


def test_shared_parts_print_everywhere():
    part = minimum(dim(0), 3) % 2
    assert repr(part * 2 + maximum(part, const(1))) == "(min(d0, 3) mod 2) * 2 + max(min(d0, 3) mod 2, 1)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(d0) -> (d0), domain: d0 in [x, 1]", "expected an integer, found 'x'"),
        ("(d0) -> (d0) 7", "expected the end of the text, found '7'"),
        (
            "(d0)[s0] -> (d0), domain: d0 in [0, 1], s0 in [0, 1], s0 + d0 in [0, 1]\nhlo: p\n(d0) -> (0)",
            "'hlo:' follows",
        ),
        ("(d0)[s0] -> (d0), domain: d0 in [0, 1]\nhlo: p\n(d0) -> (0)\ns0 in [0, 1]", "a dimension has no producer"),
        (
            "(d0)[s0] -> (d0), domain: d0 in [0, 1]\ns0 in [0, 1]\nhlo: p\n(d1) -> (0)",
            "expected the dimensions of the map",
        ),
        ("(d0)[s0] -> (d0), domain: d0 in [0, 1]\ns0 in [0, 1]\nhlo: p\n(d0) -> (0) 7", "expected the end of the line"),
    ],
)
def test_mistakes_around_the_domain(text, message):
    with pytest.raises(ParseError, match=message):
        IndexingMap.parse(text)


def test_a_map_of_which_nothing_is_known_before_its_runtime_variables():
    assert IndexingMap.parse("UNDEFINED\nruntime variables:\n").is_undefined
