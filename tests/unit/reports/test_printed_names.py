"""Names of a module reach a terminal without characters that control it."""

from collections.abc import Callable

import pytest

import xlashape as xs
from xlashape.base.tables import Column, ColumnKind
from xlashape.hlo import HloModule
from xlashape.reports.report import Answer
from xlashape.reports.size import size
from xlashape.reports.text import cell_text

HOSTILE = "\x1b[2J\u202egnp"


def hostile_module() -> HloModule:
    proto = HloModule.parse("HloModule m ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }").to_proto()
    proto.name = f"m{HOSTILE}"
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.name += HOSTILE
            instruction.metadata.op_name = HOSTILE
    return HloModule.from_proto(proto)


@pytest.mark.parametrize("make", [size, xs.memory])
def test_the_text_of_a_report_has_no_control_characters(make: Callable[[HloModule], Answer]) -> None:
    answer = make(hostile_module())
    for text in (str(answer), answer.to_text(), answer.headline()):
        assert all(each.isprintable() or each == "\n" for each in text)


def test_cells_have_no_control_characters() -> None:
    assert cell_text(Column("name", ColumnKind.TEXT, ""), HOSTILE) == "�[2J�gnp"
    assert cell_text(Column("names", ColumnKind.TEXTS, ""), [HOSTILE, "a"]) == "�[2J�gnp, a"
