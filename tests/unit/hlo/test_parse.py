"""The parser against XLA's own answers: real programs, every opcode and attribute form, and what XLA refuses."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxlib_versions import Jaxlib
from optional import SHARED, shared

from xlashape.errors import ParseError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.text.reader import body
from xlashape.proto import xla

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors" / "hlo"
MODELS = sorted(SHARED.glob("hlo/models/*.hlo"))

# Texts that this parser and XLA's treat differently on purpose. Each entry: a part of the text, and the reason.
WE_ACCEPT = {
    "a = f32[] {} constant(1)": "a scalar's layout is {}; written with a space before it, it says the same",
    "add(f32[]{} a, a)": "a scalar's layout is {}, before an operand too",
    "device_ids=(0,1,2,3,4,5,6,7)": "XLA aborts on device ids in their natural order, which say nothing wrong",
}
WE_REFUSE = {
    "{devices=[3,1]0,1}": "two devices for three tiles: XLA reads past the end of the list",
    "dim_labels=b01f_01io->b01\n": "no feature dimension: XLA takes dimension 0",
    "dim_labels=b02f_01io->b01f": "no spatial dimension 1: XLA takes dimension 0",
    "a = f32[2]{1} negate": "minor_to_major is not a permutation",
    "a = f32[2,2]{0,0} negate": "minor_to_major is not a permutation",
    "p0 = f32[3] parameter(0)\n  ROOT root = broadcast(p0)": "the shape that XLA infers for a broadcast without one has dimensions as sizes",
    "p0 = f32[3,4]{0,1} parameter(0)\n  ROOT root = broadcast(p0)": "the shape that XLA infers for a broadcast without one has dimensions as sizes",
    'origin={({"a" {0}} {"b"})}': "the parts of an original value without a comma between them",
    "f32[-2]": "a size below 0",
    "f32[9999999999999999999]": "a size beyond int64",
}


def forms():
    with gzip.open(VECTORS / "forms.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def without_ids(module):
    """Module ids count the modules that a process has made."""
    module.id = 0
    for entry in module.original_value_recovery_table.entries:
        entry.recovery_module.id = 0
    return module


def excused(text, reasons):
    return any(piece in text for piece in reasons)


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.hlo")), ids=lambda path: path.name)
def test_real_programs_give_the_proto_that_xla_makes(path):
    packed = path.with_name(f"{path.name}.pb.gz")
    expected = without_ids(xla.HloModuleProto.FromString(gzip.decompress(packed.read_bytes())))
    assert HloModule.load(path).proto == expected


def test_every_form_gives_the_proto_that_xla_makes():
    different = []
    for row in forms():
        if "proto" not in row or excused(row["text"], WE_REFUSE):
            continue
        expected = xla.HloModuleProto.FromString(base64.b64decode(row["proto"]))
        try:
            made = HloModule.parse(row["text"]).proto
        except XlashapeError as error:
            made = error
        if made != expected:
            different.append((row["text"], made if isinstance(made, XlashapeError) else "another proto"))
    assert not different


def test_what_xla_refuses_or_aborts_on_is_refused():
    accepted = []
    for row in forms():
        if "proto" in row or excused(row["text"], WE_ACCEPT):
            continue
        try:
            HloModule.parse(row["text"])
        except ParseError:
            continue
        accepted.append((row["text"], row.get("error", "XLA aborts")))
    assert not accepted


def test_every_deviation_from_xla_is_listed_and_every_listed_deviation_occurs():
    rows = forms()
    for piece in WE_ACCEPT:
        found = [row for row in rows if piece in row["text"]]
        assert found, piece
        assert all("proto" not in row for row in found)
        for row in found:
            HloModule.parse(row["text"])
    for piece in WE_REFUSE:
        found = [row for row in rows if piece in row["text"]]
        assert found, piece
        for row in found:
            with pytest.raises(ParseError):
                HloModule.parse(row["text"])


def test_the_modules_of_the_indexing_vectors_parse():
    path = ROOT / "tests" / "vectors" / "indexing.jsonl"
    count = 0
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "hlo" in row:
            count += 1
            module = HloModule.parse(row["hlo"])
            assert module.entry.root is module.instruction(module.entry.root.name)
    assert count > 500


@pytest.mark.parametrize("path", MODELS or [None], ids=lambda path: path.name if path else "none")
def test_whole_models_give_the_proto_that_xla_makes(path):
    if path is None:
        path = shared("hlo", "models", "gemma2_2b_keras_jax.hlo")
    jaxlib = Jaxlib()
    text = path.read_text()
    theirs = jaxlib.hlo.hlo_module_from_text(text)
    expected = jaxlib.newest_proto(xla.HloModuleProto.FromString(theirs.as_serialized_hlo_module_proto()))
    assert HloModule.parse(text).to_text() == jaxlib.newest_text(theirs.to_string())
    made = without_ids(HloModule.parse(text).proto)
    if "{...}" in text:
        # The values in place of elided constants depend on what the process has parsed before.
        for module in (made, expected):
            for computation in module.computations:
                for one in computation.instructions:
                    one.ClearField("literal")
    assert made == without_ids(expected)


def test_headers_with_a_token_more_or_less() -> None:
    """What XLA accepts of the headers of modules and computations, with each token left out, doubled or replaced."""
    parse = Jaxlib().hlo.hlo_module_from_text
    body = " {\n  p = f32[3] parameter(0)\n  ROOT q = (s32[], f32[2]) parameter(1)\n}\n"
    texts = {
        f"{before}{changed}{after}{body}"
        for before, header, after in [
            ("HloModule m\n\nENTRY ", "%e (p: f32[3], q: (s32[], f32[2])) -> (s32[], f32[2]{0})", ""),
            (
                "HloModule m, ",
                "buffer_donor={ (0, {}) }, input_output_alias={ {1}: (1, {1}, may-alias) }",
                "\n\nENTRY e",
            ),
            (
                "HloModule m, ",
                "entry_computation_layout={(f32[3], (s32[], f32[2]))->(s32[], f32[2]{0})}",
                "\n\nENTRY e",
            ),
        ]
        for changed in _with_a_token_changed(header)
    }
    different: list[str] = []
    for text in sorted(texts):
        # No order of dimensions, an entry that does not say which parameter it means, an index of no array.
        if any(piece in text for piece in ("{1})", "{10})", "{01})", "(, {", "( , {", "{11}", "{1 1}")):
            continue
        outcomes: list[bool] = []
        for read in (parse, HloModule.parse):
            try:
                read(text)
                outcomes.append(True)
            except Exception:  # jaxlib has a class of its own
                outcomes.append(False)
        if outcomes[0] != outcomes[1]:
            different.append(f"jaxlib {'accepts' if outcomes[0] else 'refuses'} {text}")
    assert len(texts) > 900
    assert not different, different


def _with_a_token_changed(header: str) -> Iterator[str]:
    tokens = re.findall(r"%?[A-Za-z_][A-Za-z0-9_\-]*[:=]?|->|[0-9]+|.", header)
    for i, token in enumerate(tokens):
        for changed in ("", " ", token * 2, f"{token} {token}", ":", ",", "%p", "p", "f32", "{", ")"):
            yield "".join([*tokens[:i], changed, *tokens[i + 1 :]])
            yield "".join([*tokens[:i], token, " ", changed, *tokens[i + 1 :]])


def test_a_line_of_many_instructions_is_looked_at_once(monkeypatch):
    """Else the time grows with the square of its length."""
    tried = []

    class Counted:
        def match(self, text, at):
            tried.append(at)
            return pattern.match(text, at)

    pattern = body._LINE
    monkeypatch.setattr(body, "_LINE", Counted())
    lines = [f"v{i} = f32[{i % 7}]{{0}} negate(v{i - 1})" for i in range(1, 300)]
    first = "v0 = f32[0]{0} parameter(0)"
    for end in ("", "\n", "\n}\n\nENTRY f {\n  p = f32[] parameter(0)\n"):
        tried.clear()
        text = f"HloModule m\n{'' if 'ENTRY' in end else 'ENTRY '}e {{ {first} {' '.join(lines)}{end}}}\n"
        module = HloModule.parse(text.replace("negate", "exponential"))
        assert len(module.computation("e")) == 300
        assert len(tried) < 8
