"""What checkers of types know of answers: totals, rows, columns and sections, of the library and from a server.

The type checker checks this file as strictly as the package; a suppression below asserts that its line is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from typing_extensions import assert_type

import report_types
import xlashape as xs
from xlashape.reports.memory.answer import LiveBuffer, ProgramMemory, Step
from xlashape.reports.report import REPORTS, report_of
from xlashape_client import AsyncClient, Client
from xlashape_client.answers import ReceivedMemory, ReceivedMemoryRow, ReceivedMemoryTimelineRow, ReceivedReads
from xlashape_server import Config, Server

MODULE = b"HloModule tiny\n\nENTRY main {\n  p = f32[3,5] parameter(0)\n  ROOT n = f32[3,5] negate(p)\n}\n"


def test_the_library() -> None:
    memory = xs.memory(MODULE)
    assert_type(memory, ProgramMemory)
    assert_type(memory.peak_bytes, int)
    assert_type(memory[0], LiveBuffer)
    assert_type(memory[:1], Sequence[LiveBuffer])
    assert_type([row.source for row in memory], list[str | None])
    assert_type(memory.timeline[0], Step)
    assert_type([row.flops for row in xs.cost(MODULE)], list[int | None])
    assert [row.name for row in memory] == ["n", "p"]
    with pytest.raises(AttributeError):
        print(memory.no_such_total)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
    with pytest.raises(AttributeError):
        print(memory[0].no_such_column)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Config(address="127.0.0.1:0", workers=1, log_level="error")) as server:
        yield server.address


def test_the_clients(address: str) -> None:
    with Client(address) as client:
        memory = client.memory(MODULE, sections=("", "timeline"))
        assert_type(memory, ReceivedMemory)
        assert_type(memory.peak_bytes, int)
        assert_type(memory[0], ReceivedMemoryRow)
        assert_type(memory[0].source, str | None)
        assert_type(memory.timeline[0], ReceivedMemoryTimelineRow)
        assert_type([row.bytes for row in memory.timeline], list[int])
        assert_type(memory.to_text(), str)
        assert isinstance(memory, ReceivedMemory)
        assert isinstance(memory[0], ReceivedMemoryRow)
        with pytest.raises(AttributeError):
            print(memory.no_such_total)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
        with pytest.raises(AttributeError):
            print(memory[0].no_such_column)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]

    async def scenario() -> None:
        async with AsyncClient(address) as client:
            reads = await client.reads(MODULE)
            assert_type(reads, ReceivedReads)
            assert_type([row.operand_name for row in reads], list[str | None])

    asyncio.run(scenario())


def test_the_stub_is_that_of_the_declarations() -> None:
    assert report_types.FILE.read_text() == report_types.types_text() + "\n", "run python protos/report_types.py"


@pytest.mark.parametrize("name", REPORTS)
def test_answers_of_the_library_have_typed_attributes(name: str) -> None:
    """Each total has an annotation, from which the stub tells whether it may be None."""
    answers = report_types.answers_of(name)
    assert answers
    for column in report_of(name).totals:
        assert all(report_types.annotation(answer, column.name) for answer in answers), column.name
