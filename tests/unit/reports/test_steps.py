"""Reports look for the deadline as often as there are operands, not instructions: those of one may be many."""

from __future__ import annotations

import pytest

from xlashape.hlo import HloModule
from xlashape.limits import budget, set_checkpoint
from xlashape.reports.report import report_of

CONCATENATED, OPERANDS = 30, 200


@pytest.fixture(scope="module")
def wide() -> HloModule:
    operands = ", ".join(["p"] * OPERANDS)
    lines = [f"  c.{i} = f32[{OPERANDS * 4}] concatenate({operands}), dimensions={{0}}" for i in range(CONCATENATED)]
    return HloModule.parse("\n".join([
        "HloModule m", "", "ENTRY e {", "  p = f32[4] parameter(0)", *lines, "  ROOT r = f32[4] negate(p)", "}", "",
    ]))  # fmt: skip


@pytest.mark.parametrize("name", ["map", "reads", "copies", "verify"])
def test_a_report_looks_for_each_512_operands(name: str, wide: HloModule) -> None:
    looks: list[None] = []
    set_checkpoint(lambda: looks.append(None))
    try:
        with budget():
            report_of(name).run(wide).headline()
    finally:
        set_checkpoint(None)
    assert len(looks) >= CONCATENATED * OPERANDS // 512
