"""The verifier against XLA's own: what XLA accepts has no problem, what XLA refuses has one.

`verifier.jsonl` has a module in each row and what XLA says of it: jaxlib 0.12.0.1 reads the text, and its HloVerifier,
with the options that hold for any target, verifies the module. `by` says which of the two refuses. A row with `differs`
is refused by XLA and accepted here, for the reason that it gives.
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


RULES = rows_by_rule()


@pytest.mark.parametrize("rule", RULES)
def test_a_module_has_problems_where_xla_refuses_it(rule: str) -> None:
    for row in RULES[rule]:
        problems = problems_of(row["text"])
        if row["xla"] == "accepts" or "differs" in row:
            assert not problems, f"XLA accepts\n{row['text']}"
        else:
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
    # XLA's verifier refuses them, too: a fused computation has a parameter that it does not use.
    unused = "nothing in its fusion uses it"
    wrong = {name: [each for each in said if not each.endswith(unused)] for name, said in wrong.items()}
    assert not {name: said for name, said in wrong.items() if said}
