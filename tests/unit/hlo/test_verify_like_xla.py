"""The verifier against XLA's own: what XLA accepts has no problem, what XLA refuses has one.

`verifier.jsonl` has a module in each row and what XLA says of it: jaxlib 0.12.0.1 reads the text, and XLA's plugin for CPUs of version 0.11.2
loads and verifies the proto. `by` says which of the three refuses: the reader, the loader or the verifier. A row with `missed` is refused by
XLA, and no rule here is known to find its problem.
"""

import gzip
import json
from pathlib import Path

import pytest

from tests.support import xla_versions
from xlashape import HloModule, XlashapeError
from xlashape.hlo.verifier import verify

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def rows_by_rule() -> dict[str, list[dict[str, str]]]:
    rules: dict[str, list[dict[str, str]]] = {}
    with (VECTORS / "verifier.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            rules.setdefault(row["rule"], []).append(row)
    return rules


def problems_of(text: str) -> list[str]:
    """What the verifier says of a module, or why its text cannot be read."""
    try:
        return [str(problem) for problem in verify(HloModule.parse(text))]
    except XlashapeError as error:
        return [error.message]


@pytest.mark.parametrize(("rule", "rows"), rows_by_rule().items(), ids=str)
def test_a_module_has_problems_where_xla_refuses_it(rule: str, rows: list[dict[str, str]]) -> None:
    del rule
    for row in rows:
        problems = problems_of(row["text"])
        if row["xla"] == "accepts":
            assert not problems, f"XLA accepts\n{row['text']}"
        elif not row.get("missed"):
            assert problems, f"XLA's {row['by']} refuses\n{row['text']}"


def whole_modules() -> dict[str, HloModule]:
    modules = {case.name: HloModule.from_proto(case.data) for case in xla_versions.cases()}
    for path in sorted((VECTORS / "hlo").glob("*.pb.gz")):
        modules[path.name] = HloModule.from_proto(gzip.decompress(path.read_bytes()))
    for path in sorted((VECTORS / "hlo").glob("*.hlo")):
        modules[path.name] = HloModule.parse(path.read_text(encoding="utf-8"))
    with (VECTORS / "indexing.jsonl").open(encoding="utf-8") as lines:
        for text in {json.loads(line)["hlo"] for line in lines}:
            modules[text] = HloModule.parse(text)
    return modules


def test_modules_that_xla_made_have_no_problems() -> None:
    modules = whole_modules()
    found = {name: [str(problem) for problem in verify(module)] for name, module in modules.items()}
    assert len(found) > 900
    # An opcode that this library does not know yet has no rule; the instruction is named as unknown.
    wrong = {name: [each for each in said if "unknown opcode" not in each] for name, said in found.items()}
    assert not {name: said for name, said in wrong.items() if said}
