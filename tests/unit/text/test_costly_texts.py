"""Texts that strangers choose: each is read or refused in time that grows with its length, and no other exceptions than
the library's are raised.
"""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from xlashape.errors import ParseError, SizeOverflowError
from xlashape.symbolic import IndexingMap
from xlashape.symbolic.map.parts import map_text, parse_map_parts

READ_ALL = """
import sys
import resource
import xlashape as xs
from xlashape.errors import XlashapeError
from xlashape.symbolic import IndexingMap

names = [f"s{i}" for i in range(4000)]
dims = ", ".join(f"d{i}" for i in range(4000))
runtime = "(d0){" + ", ".join(names) + "} -> (d0), domain: d0 in [0, 1]\\n" + "\\n".join(f"{n} in [0, 1]" for n in names)
older = "(d0)[" + ", ".join(names) + "] -> (d0), domain: d0 in [0, 1]\\n"
N = 100_000
ATTACKS = {
    IndexingMap.parse: [
        "hlo:x\\n->" + " " * N + "x",
        "hlo:x\\n" + "->" * N + ",x",
        "hlo:x\\n" * N,
        "hlo:x\\n->\\n" * N,
        "#xla.indexing_map<" + "> " * N + "x",
        "#xla.indexing_map<" + '"' * N + " " * N + "x",
        " " * N + "KNOWN" + " " * N + "x",
        "runtime variables:" * N,
        "\\n  runtime variables:  x" * N,
        "() -> (0)\\nruntime variables:\\n" + "x:" * N,
        "() -> (0)\\nruntime variables:\\n" + "x:;" * N,
        runtime + "\\nruntime variables:\\n" + "\\n".join(f"{n}: x; (d0) -> (d0), domain: d0 in [0, 1]" for n in names),
        older + "\\n".join(f"{n} in [0, 1]\\nhlo: x\\n(d0) -> (d0)" for n in names),
        older + "\\n".join(f"{n} in [0, 1]\\nhlo: x\\n(d0) -> (d0)" for n in names).replace("d0", "d1"),
        f"({dims})[" + ", ".join(names) + "] -> (0), domain: " + ", ".join(f"d{i} in [0, 1]" for i in range(4000))
        + "\\n" + "\\n".join(f"{n} in [0, 1]\\nhlo: x\\n() -> (0)" for n in names),
        "(d0) -> (" + "-" * N,
        "(d0) -> (d0), domain: d0 in [0, 1]" + ", is_simplified:" * N,
        "(d0) -> (" + "0" * N + "1), domain: d0 in [0, 1]",
        "(d0) -> (" + "9" * N + "), domain: d0 in [0, 1]",
    ],
    xs.Shape.parse: ["(" * N, "f32[" * N, "f32[" + "1," * N, "f32[3]{0:" + "T(8)" * N, "f32[3]{0:T(" + " " * N + "x", "f32[<=" + "9" * N,
        "unknown_" + "9" * N, "(" + "/*index=5*/" * N, "f32[]{" + " " * N + "0"],
    xs.HloModule.parse: [
        "=" + "/**/" * 32 + "!",
        "=" + "/**/" * N + "!",
        "= //=\\n" * N + "!",
        "HloModule m, x={" + " " * N + "x",
        "HloModule m\\nENTRY e {\\n  a = f32[] add(" + "\\t" * N + "x",
        "HloModule m\\nENTRY e {\\n  a = f32[] add(" + "/*" * N,
        "HloModule m\\nENTRY e {\\n  a = f32[] add(" + "a, " * N + "!",
        "HloModule m\\nENTRY e {\\n  a = f32[] parameter(0), metadata={op_name=\\"" + "\\\\" * N,
        "HloModule m\\n\\ne (" + "a: (" * N,
        "HloModule m\\n\\ne (" + "a: f32[], " * N,
        "HloModule m\\nENTRY e {\\n  a = f32[] constant({" + "-" * N,
        "HloModule m\\nENTRY e {\\n  a = f32[] x(), window={size=" + "1x" * N,
    ],
    xs.why: [
        "Allocation type: HLO temp\\nSize: " + "9" * N,
        "Size: 1.0M\\n" + "Exceeded" * N,
        "Size: 1.0M\\n" + "Buffer  " * N,
        "Size: 1.0M\\n" + "1." + " " * N + "x",
        "Size: 1.0M\\nShape: " + "f32[" * N,
        "Size: 1.0M\\nShape: f32[" + "1," * N,
        "Size: " * N,
        "\\x1b[" * N,
        "\\x1b]" * N,
        "> " * N + "Size: 1.0M",
        "Used1.0Mof" * N + "Size: 1.0M\\nShape: f32[3]",
    ],
}
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
for read, texts in ATTACKS.items():
    for text in texts:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        try:
            read(text)
        except XlashapeError:
            pass
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_utime - before:.2f} s, {len(text)}: {text[:50]!r}", flush=True)
print("all")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processor time are POSIX's")
def test_no_text_takes_longer_than_it_grows() -> None:
    """All of them in 60 seconds of the processor; a text whose time grows with its square takes minutes."""
    arguments = [sys.executable, "-c", READ_ALL, "60"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all\n")


VALID = (
    "(d0, d1)[s0]{rt0} -> (d0 + s0 * 2 - 1, d1 mod 4 floordiv 2, min(d0, rt0)), domain: d0 in [0, 3], d1 in [0, 4], s0 "
    "in [-2, 1],"
    " rt0 in [0, 7], d0 + s0 in [0, 4], is_simplified: true\nruntime variables:\nrt0: %p = s32[] parameter(0); (d0, "
    "d1) -> (), domain: d0 in"
    " [0, 3], d1 in [0, 4]\n",
    "(d0)[s0] -> (d0, s0), domain:\nd0 in [0, 3]\ns0 in [0, 4]\n  hlo: p = s32[2]{0} parameter(1)\n  (d0) -> (d0 / "
    "2),\n",
    '#xla.indexing_map<"(d0) -> (-9223372036854775808), domain: d0 in [-9223372036854775808, 9223372036854775807]">',
    "KNOWN EMPTY\nruntime variables:\n",
)
WORDS = (*"()[]{}<>+-*/,:;\n\"'", "->", "d0", "s0", "rt0", " in ", "domain", "is_simplified", "min", "mod", "hlo:", "runtime variables:", "0",
    "-9223372036854775808", "9223372036854775808", "KNOWN EMPTY", "UNDEFINED", "#xla.indexing_map<", " ", "é", "\0")  # fmt: skip


def test_changed_maps_are_read_or_refused() -> None:
    """Texts of maps with words taken out, put in and cut off."""
    draw = random.Random(23)
    read = refused = 0
    for _ in range(6_000):
        text = draw.choice(VALID)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice((draw.choice(WORDS), "")) + text[at + draw.choice((0, 0, 1, 2, 8, 400)) :]
        try:
            parts = parse_map_parts(text)
        except ParseError:  # any other error is one of the reader
            refused += 1
            continue
        read += 1
        try:
            printed = map_text(parts)
        except SizeOverflowError:  # two constants whose sum does not fit
            continue
        assert map_text(parse_map_parts(printed)) == printed, text
    assert read > 500
    assert refused > 500


@pytest.mark.parametrize(
    "end", ["is_simplified:", "is_simplified: ", "is_simplified", "is_simplified: ]", "is_simplified: 1"]
)
def test_the_word_after_is_simplified_is_read(end: str) -> None:
    with pytest.raises(ParseError, match=r"expected (true or false|':'), found"):
        IndexingMap.parse(f"(d0) -> (d0), domain: d0 in [0, 4], {end}")
    assert IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 4], is_simplified: false").results


@pytest.mark.parametrize(
    "result",
    [
        "-9223372036854775808",
        "d0 + -9223372036854775808",
        "d0 * -9223372036854775808",
        "d0 mod 3 + d0 * -9223372036854775808 + -9223372036854775808",
    ],
)
def test_the_least_integer_is_read_and_written(result: str) -> None:
    text = f"(d0) -> ({result}), domain: d0 in [-9223372036854775808, 9223372036854775807]"
    parts = parse_map_parts(text)
    assert parse_map_parts(map_text(parts)) == parts
    assert "-9223372036854775808" in map_text(parts).partition("domain")[0]


@pytest.mark.parametrize(
    "result", ["9223372036854775808", "d0 - 9223372036854775808", "-9223372036854775809", "(9223372036854775808)"]
)
def test_numbers_beyond_the_least_integer_are_refused(result: str) -> None:
    with pytest.raises(ParseError, match="does not fit int64"):
        IndexingMap.parse(f"(d0) -> ({result}), domain: d0 in [0, 4]")
