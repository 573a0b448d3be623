"""What a text or a file is."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest

from xlashape.errors import DecodeError, InvalidArgumentError, ParseError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.files.convert import encode
from xlashape.proto import xla
from xlashape.recognition import recognize

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
HLO = "HloModule m\n\nENTRY e {\n  ROOT p = f32[4] parameter(0)\n}\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f32[3,5]{1,0:T(2,2)}", "shape"),
        ("  (f32[2], s32[])\n", "shape"),
        ("{1,0:T(8,128)}", "layout"),
        ("(d0) -> (d0 mod 4), domain: d0 in [0, 9]", "map"),
        ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [0, 0]", "map"),
        ("%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)", "instruction"),
        ("ROOT %add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)", "instruction"),
        ("p = f32[8] parameter(0)\nROOT n = f32[8] negate(p)", "instruction"),
        ("p = f32[8] parameter(0)\nn = f32[8] negate(p)\nROOT a = f32[8] abs(n)", "module"),
        (HLO, "module"),
        (f"// a comment\n/* and\nanother */ {HLO}", "module"),
        ("ENTRY e { ROOT p = f32[4] parameter(0) }", "module"),
        ("%fusion.3 = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused", "instruction"),
        ("1. Size: 2.00G\n   Shape: f32[32,4096,4096]{1,2,0}", "report"),
        ("the buffers f32[3,4] and bf16[128]", "report"),
        ('{"traceEvents": []}', "profile"),
    ],
)
def test_texts(text: str, kind: str) -> None:
    assert recognize(text.encode()).kind == kind


@pytest.mark.parametrize("path", sorted((VECTORS / "profiles").glob("*.xplane.pb")), ids=lambda path: path.name)
def test_profiles(path: Path) -> None:
    assert recognize(path.read_bytes()).kind == "profile"
    trace = path.with_name(path.name.replace(".xplane.pb", ".trace.json.gz"))
    assert recognize(gzip.decompress(trace.read_bytes())).kind == "profile"


@pytest.mark.parametrize("path", sorted((VECTORS / "versions").glob("*.[pt][bx]*.gz")), ids=lambda path: path.name)
def test_modules_of_all_versions(path: Path) -> None:
    data = path.read_bytes()
    assert recognize(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).kind == "module"


@pytest.mark.parametrize("kind", ["pbtxt", "json"])
def test_a_module_in_another_form_comes_as_text(kind: str) -> None:
    module = HloModule.parse(HLO)
    found = recognize(encode(module, kind))
    assert (found.kind, found.text) == ("module", module.to_text())


def test_the_module_of_a_line_computes_it() -> None:
    found = recognize(b"%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)")
    root = HloModule.parse(found.text).instruction(found.instruction)
    assert [operand.name for operand in root.operands] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("f32[3,", 7, "expected a dimension's size, found the end of the text"),
        ("(d0) -> (d0 +), domain: d0 in [0, 3]", 14, "expected an expression, found ')'"),
        ("%a = f32[8] add(f32[8 %x, f32[8] %y)", 23, "expected ',' or ']' of the dimensions, found '%'"),
        ("hello", 1, "'hello' is not an element type"),
        ("{1,0:Q}", 6, "expected"),
    ],
)
def test_a_mistake_is_reported_as_one_of_what_was_meant(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        recognize(text.encode())
    assert caught.value.column == column
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["f32[3]\0", "bf16[3]\x01", "\nf32[3]\0", "  f32[3]\x02", "\tf32[3]\0", "(d0) -> (d0)\0, domain: d0 in [0, 9]"],
)
def test_a_control_character_in_text_is_a_mistake_in_it(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        recognize(text.encode())
    assert "found '\\x0" in caught.value.message


@pytest.mark.parametrize("text", ["x" * 200_000, "x" * 1000])
def test_letters_are_text_though_they_are_fields_of_a_proto(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        recognize(text.encode())
    assert (caught.value.line, caught.value.column) == (1, 1)


def test_zeros_are_no_module() -> None:
    with pytest.raises(XlashapeError):
        recognize(b"\0" * 100_000)


@pytest.mark.parametrize("size", [1, 3, 10, 30, 32, 33, 90, 127, 128, 300])
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_proto_is_told_whatever_the_length_of_its_name(size: int, *, is_whole: bool) -> None:
    module = HloModule.parse(HLO.replace("HloModule m", f"HloModule {'m' * size}")).proto
    data = xla.HloProto(hlo_module=module).SerializeToString() if is_whole else module.SerializeToString()
    assert recognize(data).summary == "a module as a proto"


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"\xef\xbb\xbf"])
def test_nothing_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        recognize(content)


def test_other_programs_are_told_what_to_pass() -> None:
    with pytest.raises(DecodeError, match="this is StableHLO or other MLIR"):
        recognize(b"module @jit_f {\n  func.func public @main() {\n  }\n}")
    with pytest.raises(DecodeError, match="this is StableHLO or other MLIR"):
        recognize(b"ML\xefR\rStableHLO_v1.0.0\0" + bytes(50))
    with pytest.raises(DecodeError, match="this is a jaxpr"):
        recognize(b"{ lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) }")
    with pytest.raises(DecodeError, match="this is the buffer assignment of a module as text; open the module"):
        recognize(b"BufferAssignment:\nallocation 0: size 16, output shape is |f32[4]|, maybe-live-out:\n")
    with pytest.raises(InvalidArgumentError):
        recognize(b"(" * 20_000)


@pytest.mark.parametrize(
    "part",
    [
        " ",
        "\n",
        "//",
        "//\n",
        "/**/",
        "/*",
        "\n \t",
        "{",
        "(",
        "[",
        "{[(",
        "ENTRY ",
        "HloModule",
        "=(",
        "->",
        "%a = ",
        '"',
        "f32[",
    ],
)
def test_repeated_parts_take_time_in_proportion(part: str) -> None:
    """A regular expression with repetitions within repetitions would not end within years."""
    for end in ("", "x", "f32[3]", "(", "\n}"):
        with suppress(XlashapeError):
            recognize((part * (20_000 // len(part)) + end).encode())
