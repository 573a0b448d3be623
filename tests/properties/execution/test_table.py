"""Every opcode that has rules is judged by execution, in both directions, or is listed with the reason why not."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import execution.families  # noqa: F401  # importing them registers them
import pytest
from execution import replicas
from execution.case import FAMILIES

from xlashape.hlo.ops.registry import operation_of
from xlashape.indexing.ops import register

REGISTERED = sorted({*register.OUTPUT_TO_INPUT, *register.INPUT_TO_OUTPUT, *register.CALLS})

# Without operands there is nothing that a result could depend on.
NOT_JUDGED = {opcode for opcode in REGISTERED if operation_of(opcode).operands.most == 0}
JUDGED_ELSEWHERE = {
    "ragged-all-to-all": "tests/unit/indexing/test_ragged.py",
    "ragged-dot": "tests/unit/indexing/test_ragged.py",
    "scan": "tests/unit/indexing/test_scans.py",
}
"""Opcodes that other tests judge, which run them with NumPy."""

TESTS = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def judged() -> tuple[dict[str, int], dict[str, str]]:
    """(how many modules NumPy or XLA judges, why XLA does not) by opcode. A judge asks for both directions of each."""
    modules: dict[str, int] = {}
    not_by_xla: dict[str, str] = {}
    by_xla: set[str] = set()
    for family in FAMILIES.values():
        for case in family.cases():
            opcode = str(case.root.opcode)
            modules[opcode] = modules.get(opcode, 0) + 1
            assert case.judged(), f"{family.name}: {opcode} has no parameter to change"
            if family.not_by_xla:
                not_by_xla[opcode] = family.not_by_xla
            else:
                by_xla.add(opcode)
    for opcode in replicas.OPCODES:
        modules[opcode] = modules.get(opcode, 0) + 1
        if opcode in replicas.NOT_BY_XLA:
            not_by_xla[opcode] = replicas.NOT_BY_XLA[opcode]
        else:
            by_xla.add(opcode)
    return modules, {opcode: reason for opcode, reason in not_by_xla.items() if opcode not in by_xla}


@pytest.mark.parametrize("opcode", REGISTERED)
def test_every_opcode_is_judged_in_both_directions_or_listed(opcode: str) -> None:
    modules, _ = judged()
    places = [opcode in modules, opcode in NOT_JUDGED, opcode in JUDGED_ELSEWHERE]
    assert places.count(True) == 1, (
        f"{opcode} is judged {places}: by a family, not at all, elsewhere. Add it to a family in "
        "tests/support/execution/families"
    )
    if opcode in modules:
        rules = (opcode in register.OUTPUT_TO_INPUT, opcode in register.INPUT_TO_OUTPUT)
        assert opcode in register.CALLS or rules == (True, True), "a direction has no rule"
    if opcode in NOT_JUDGED:
        assert opcode not in register.INPUT_TO_OUTPUT, "there is no operand to come from"
    if opcode in JUDGED_ELSEWHERE:
        assert f'"{opcode}"' in (TESTS.parent / JUDGED_ELSEWHERE[opcode]).read_text(encoding="utf-8")


def test_nothing_else_is_listed() -> None:
    modules, not_by_xla = judged()
    assert set(JUDGED_ELSEWHERE) <= {*REGISTERED, *register.UNKNOWN}
    assert set(modules) <= set(REGISTERED)
    assert all(len(reason) > 20 for reason in not_by_xla.values())


def test_what_xla_does_not_judge() -> None:
    """The opcodes that NumPy judges and XLA does not. When XLA can judge one, it must leave this list."""
    assert sorted(judged()[1]) == NOT_BY_XLA


NOT_BY_XLA = sorted(
    """
    acos acosh add-dependency after-all all-gather-done all-gather-start all-reduce-done all-reduce-start asin asinh async-done async-start
    async-update atanh bitcast collective-broadcast collective-permute-done collective-permute-start collective-reduce copy-done copy-start cosh custom-call exp2
    infeed log2 mulhi outfeed recv recv-done rng scaled-dot send send-done set-dimension-size sinh
    """.split()
)
