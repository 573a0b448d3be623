"""Small texts on which the reader or the writer once differed from XLA: tests/vectors/hlo/corpus.jsonl.gz has what jaxlib 0.12.0.1 makes
of each: its proto, its print of the text, and its print of the proto where that is another; or that it refuses the text."""

import base64
import gzip
import json
from pathlib import Path

import pytest

from xlashape.errors import ParseError
from xlashape.hlo import HloModule
from xlashape.proto import xla

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "hlo" / "corpus.jsonl.gz"

# Rows on which this library and jaxlib 0.12.0.1 differ, and why.
WE_ACCEPT = {
    "dot_sp2": "text of an older jaxlib: the newest has no sparsity of a dot",
    "dbg_empty": "XLA writes debug attributes without fields and cannot read them",
    "08_packed_nibble_0.4.30": "text of an older jaxlib: the newest has no packed_nibble",
    "10_parse_no_equals_ENTRYless": "a computation alone is a module of one computation",
    "win_rw2": "the verifier says which parameters the called computation must have",
    "reshape": "the verifier says that the numbers of elements differ",
    "reshape_dyn2": "the verifier says that the numbers of elements differ",
    "reshape_tuple": "the verifier says that an operand must be an array",
    "reshape_tuple2": "the verifier says that the result must be an array",
}
WE_PRINT_OTHERWISE = {
    "while_state": "an async-done of a loop's state is written as async-done",
}
WE_REFUSE = {
    **dict.fromkeys(
        "start_add0_wrong start_add1 start_add3 start_call0 start_calls start_calls1 start_calls_dots start_cc0 start_never "
        "start_rs0 upd_2 upd_alias upd_alias2 upd_other upd_shape upd_shape2 upd_state done_2".split(),
        "operands of an async-update are not read",
    ),
    "async_upd": "operands of an async-update are not read",
    "dot_start()": "a start without its operands is not read",
    "name": "a keyword with a ':' is no name",
    "name_root": "a keyword with a ':' is no name",
}


def rows() -> dict[str, dict]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return {row["name"]: row for row in map(json.loads, lines)}


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
    printed_again = HloModule.from_proto(expected).to_text() == row.get("print_of_proto", row["print"])
    assert (printed, printed_again) == (name not in WE_PRINT_OTHERWISE,) * 2


@pytest.mark.parametrize("name", sorted((REFUSED | WE_REFUSE.keys()) - WE_ACCEPT.keys()))
def test_what_xla_refuses_is_refused(name):
    with pytest.raises(ParseError):
        HloModule.parse(ROWS[name]["text"])


@pytest.mark.parametrize("name", sorted(WE_ACCEPT))
def test_what_the_library_accepts_and_xla_refuses_is_still_accepted(name):
    assert "refused" in ROWS[name]
    HloModule.parse(ROWS[name]["text"]).to_text()
