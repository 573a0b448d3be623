"""Tables of the command line."""

from __future__ import annotations

import os
import sys
import time

import pytest

from xlashape.cli import output
from xlashape.cli.output import print_table

COLUMNS = ["instruction", "shape", "bytes"]
ROWS = [("add.1", "f32[128,128]{1,0:T(8,128)}", "65,536"), ("a", "≤ (f32[], s32[])", "")]


def test_columns(capsys):
    print_table(COLUMNS, ROWS, right=["bytes"], title="sizes", footer="\n2 arrays")
    assert capsys.readouterr().out == (
        "sizes\n"
        "instruction   shape                         bytes\n"
        "─────────────────────────────────────────────────\n"
        "add.1         f32[128,128]{1,0:T(8,128)}   65,536\n"
        "a             ≤ (f32[], s32[])\n"
        "\n2 arrays\n"
    )


def test_no_rows(capsys):
    print_table(["a", "bb"], [])
    assert capsys.readouterr().out == "a   bb\n──────\n"


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(output, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(COLUMNS, ROWS, right=["bytes"])
    return capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


def test_a_narrow_terminal_has_further_lines(monkeypatch, capsys):
    assert on_a_terminal(monkeypatch, capsys, 40) == [
        "instruction   shape                bytes",
        "────────────────────────────────────────",
        "add.1         f32[128,128]{1,0:   65,536",
        "              T(8,128)}",
        "a             ≤ (f32[], s32[])",
    ]


def test_a_terminal_that_is_too_narrow_gets_the_narrowest_table(monkeypatch, capsys):
    lines = on_a_terminal(monkeypatch, capsys, 10)
    assert "".join(line[14:26].strip() for line in lines[2:5]) == "f32[128,128]{1,0:T(8,128)}"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_large_table_takes_less_than_its_answer(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    rows = [(f"instruction.{i}", f"f32[{i},128]{{1,0}}", f"{i:,}", f"{i:,}", "0", "0.0%") for i in range(20_000)]
    start = time.process_time()
    print_table(["instruction", "shape", "logical", "physical", "padding", "share"], rows, right=["logical"])
    # The answer takes a second; rich took twelve.
    assert time.process_time() - start < 0.8
    assert len(capsys.readouterr().out.splitlines()) == 20_002
