"""Tables of the command line."""

from __future__ import annotations

import os
import sys
import time

import pytest

from xlashape.cli import rows
from xlashape.cli.rows import Heading, TableWriter, print_table

HEADINGS = [Heading("instruction"), Heading("shape", importance=2), Heading("bytes", is_right=True, importance=1)]
ROWS = [("add.1", "f32[128,128]{1,0:T(8,128)}", "65,536"), ("a", "≤ (f32[], s32[])", "")]


def test_columns(capsys):
    print_table(HEADINGS, ROWS)
    assert capsys.readouterr().out == (
        "instruction   shape                         bytes\n"
        "─────────────────────────────────────────────────\n"
        "add.1         f32[128,128]{1,0:T(8,128)}   65,536\n"
        "a             ≤ (f32[], s32[])\n"
    )


def test_no_rows(capsys):
    print_table([Heading("a"), Heading("bb")], [])
    assert capsys.readouterr().out == "a   bb\n──────\n"


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(rows, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(HEADINGS, ROWS)
    return capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


def test_a_narrow_terminal_leaves_out_the_least_important_columns(monkeypatch, capsys):
    assert on_a_terminal(monkeypatch, capsys, 48) == [
        "instruction   shape",
        "────────────────────────────────────────",
        "add.1         f32[128,128]{1,0:T(8,128)}",
        "a             ≤ (f32[], s32[])",
        "",
        "The terminal is too narrow for: bytes.",
    ]


def test_a_name_is_whole_on_any_terminal(monkeypatch, capsys):
    lines = on_a_terminal(monkeypatch, capsys, 4)
    assert lines[2:4] == ["add.1", "a"]
    assert lines[-1] == "The terminal is too narrow for: shape, bytes."


def test_a_later_row_widens_its_column(capsys):
    writer = TableWriter([Heading("name"), Heading("n", is_right=True)])
    for _ in range(1_000):
        writer.add(("a", 1))
    assert len(capsys.readouterr().out.splitlines()) == 1_002  # shown, before the table is at its end
    writer.add(("a" * 30, 1_000))
    writer.end()
    assert capsys.readouterr().out == f"{'a' * 30}   1000\n"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_large_table_takes_less_than_its_answer(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    rows = [(f"instruction.{i}", f"f32[{i},128]{{1,0}}", f"{i:,}", f"{i:,}", "0", "0.0%") for i in range(20_000)]
    start = time.process_time()
    print_table([Heading(text) for text in ("instruction", "shape", "logical", "physical", "padding", "share")], rows)
    # The answer takes a second; a library that draws tables took twelve.
    assert time.process_time() - start < 0.8
    assert len(capsys.readouterr().out.splitlines()) == 20_002
