"""Small texts on which the reader or the writer once differed from XLA, and asynchronous operations whose operands come
in updates or whose state goes through loops. tests/vectors/hlo/corpus.jsonl.gz and async.jsonl.gz have what jaxlib
0.12.0.1 makes of each: its proto, its print of the text, and its print of the proto where that is another, None where
it refuses its own proto; or that it refuses the text."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from xlashape.errors import ParseError
from xlashape.hlo import HloModule
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "hlo"

# Rows on which this library and jaxlib 0.12.0.1 differ, and why.
WE_ACCEPT = {
    "dot_sp2": "text of an older jaxlib: the newest has no sparsity of a dot",
    "dbg_empty": "XLA writes debug attributes without fields and cannot read them",
    "08_packed_nibble_0.4.30": "text of an older jaxlib: the newest has no packed_nibble",
    "06_parse_rhs_reversal_short": "text of an older jaxlib: up to 0.10.2 the window is not reversed in the dimensions that are left out",
    "10_parse_no_equals_ENTRYless": "a computation alone is a module of one computation",
}
WE_PRINT_OTHERWISE = {
    "t5_14": "an empty origin of the wrapped operation is written",
    "late_ragged-dot_0": "lhs_ragged_dims is written where it is empty",
    "late_ragged-dot_0never": "lhs_ragged_dims is written where it is empty",
    "late_ragged-dot_1": "lhs_ragged_dims is written where it is empty",
    "late_ragged-dot_1never": "lhs_ragged_dims is written where it is empty",
    "late_ragged-dot_3": "lhs_ragged_dims is written where it is empty",
}
WE_PRINT_OTHERWISE |= dict.fromkeys(
    [f"late_triangular-solve_{which}" for which in ("0", "0never", "1", "1never", "2")],
    "transpose_a is written where the proto has the value that says nothing",
)
WE_PRINT_PROTOS_OTHERWISE = {
    "loop_asyncasync": "XLA forgets the computation that an async-done of an unknown state calls",
    "loop_callsq": "XLA forgets the computation that an async-update of an unknown state calls",
}
WE_REFUSE: dict[str, str] = {}


def rows() -> dict[str, dict]:
    found: dict[str, dict] = {}
    for name in ("corpus.jsonl.gz", "async.jsonl.gz"):
        with gzip.open(VECTORS / name, "rt", encoding="utf-8") as lines:
            found |= {row["name"]: row for row in map(json.loads, lines)}
    return found


ROWS = rows()
REFUSED = {name for name, row in ROWS.items() if "refused" in row}


@pytest.mark.parametrize("name", sorted(ROWS.keys() - REFUSED - WE_REFUSE.keys()))
def test_a_text_gives_the_proto_and_the_prints_that_xla_gives(name):
    row = ROWS[name]
    expected = xla.HloModuleProto.FromString(base64.b64decode(row["proto"]))
    expected.id = 0
    for entry in expected.original_value_recovery_table.entries:
        if entry.HasField("recovery_module"):
            entry.recovery_module.id = 0
    module = HloModule.parse(row["text"])
    assert module.proto == expected
    printed = module.to_text() == row["print"]
    again = row.get("print_of_proto", row["print"])
    printed_again = HloModule.from_proto(expected).to_text() == again if again is not None else printed
    differs = name in WE_PRINT_OTHERWISE
    assert (printed, printed_again) == (not differs, not (differs or name in WE_PRINT_PROTOS_OTHERWISE))


@pytest.mark.parametrize("name", sorted((REFUSED | WE_REFUSE.keys()) - WE_ACCEPT.keys()))
def test_what_xla_refuses_is_refused(name):
    with pytest.raises(ParseError):
        HloModule.parse(ROWS[name]["text"])


@pytest.mark.parametrize("name", sorted(WE_ACCEPT))
def test_what_the_library_accepts_and_xla_refuses_is_still_accepted(name):
    assert "refused" in ROWS[name]
    HloModule.parse(ROWS[name]["text"]).to_text()


@pytest.mark.parametrize(("short", "whole"), [("1", "1x0"), ("0", "0x0"), ("1x1", "1x1")])
def test_a_short_rhs_reversal_means_what_jaxlib_0_10_2_reads(short, whole):
    text = ROWS["06_parse_rhs_reversal_short"]["text"]
    modules = [HloModule.parse(text.replace("rhs_reversal=1", f"rhs_reversal={numbers}")) for numbers in (short, whole)]
    assert modules[0].proto == modules[1].proto
    with pytest.raises(ParseError, match="rhs_reversal has 3 numbers where size has 2"):
        HloModule.parse(text.replace("rhs_reversal=1", "rhs_reversal=1x1x1"))
