"""Logs and parts of dumps that are made to be slow, or are cut off in the worst place: each is answered or refused with
one error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from xlashape.base import pasted
from xlashape.errors import ParseError, XlashapeError
from xlashape.recognition import recognize
from xlashape.reports.program import program

LINE = "%a.2 = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %x)"
STEP = 'HloModule step, is_scheduled=true\n\nENTRY %main {\n  %a = f32[64]{0} parameter(0)\n  ROOT %n = f32[64]{0} negate(%a)\n}\n'  # fmt: skip
PREFIXES = (
    "I0101 10:00:00.000000  77 dump.cc:72] ",
    "2026-01-01 10:00:00.123456: I xla/service/dump.cc:72] ",
    "(train pid=12, ip=10.0.0.1) ",
    "[rank0]: ",
    "> ",
    "2026-01-01T10:00:00.1234567Z ",
    "INFO:absl:",
    "worker-0: ",
    "\x1b[32mINFO\x1b[0m 06-03 07:41:11 [core.py:1184] ",
    "12:00:07.5 <job 7> trainer says ",
    "[2026-01-01 10:00:00,123][train] ",
    "app | ",
)
PIECES = (
    "\x1b[31m", "\x1b[", "\x1b]", "\x1b", "[31m", "[1;1;", "[", "[a", "(", "((a pid=", "{", '"', '\\"', "/*", "//", "#", "=", "%a=",
    ",", "\\n", "\r", "\t", " ", "```", "[a: ", " 2026-01-01 10:00:00: A ", "(a pid=1) I0101 10:00:00 1 ", "%a = f32[4] add(",
    "ROOT ", "HloModule ", "ENTRY e {", "metadata={", "%x, ", ", calls=%a", ", control-predecessors={%a", "f32[4]{", "%a = (f32[4], ",
)  # fmt: skip


def texts(size: int) -> Iterator[str]:
    """Texts of about `size` characters."""
    for prefix in PREFIXES:
        yield prefix * (size // len(prefix)) + LINE
        yield (prefix * 20 + LINE + "\n") * (size // (20 * len(prefix) + len(LINE)))
        yield f"{prefix}step 1 of f32[3] took {{x}} (y)\n" * (size // (len(prefix) + 30)) + STEP
        yield prefix[: len(prefix) // 2] * (2 * size // len(prefix)) + LINE
    for piece in PIECES:
        yield piece * (size // len(piece)) + LINE
        yield STEP + LINE + piece * (size // len(piece))
        yield f"{piece}\n" * (size // (len(piece) + 1)) + LINE
        yield "HloModule m\nENTRY e {\n  %a = f32[4] add(" + piece * (size // len(piece))


def recognized(text: str) -> Any:
    return recognize(text.encode())


@pytest.mark.parametrize("ask", [xs.cost, recognized])
def test_any_text_is_answered_or_refused_with_one_error(ask: Callable[[str], Any]) -> None:
    for text in texts(20_000):
        with suppress(XlashapeError):
            ask(text)


WHOLE = """HloModule step

ENTRY %main {
  %p = s32[4]{0} parameter(0)
  %c = s32[4]{0} constant({1, 2, 3, 4})
  %a = s32[4]{0} add(%p, %c), metadata={op_name="jit(f)/add \\"x\\"" source_file="a}b.py" source_line=3}
  %k = s32[4]{0} custom-call(%a), custom_call_target="k", backend_config={"tile":[8,{"x":"}\\"{"}]}
  %k2 = s32[4]{0} custom-call(%k), custom_call_target="k", backend_config="\\"}{"
  ROOT %n = s32[4]{0} negate(%k2)
}
"""


@pytest.mark.parametrize("at", range(WHOLE.index("%c"), WHOLE.index("  ROOT"), 2))
def test_a_cut_anywhere_keeps_the_instructions_before_it(at: int) -> None:
    """In a string, a literal, metadata or a configuration too."""
    before = WHOLE[:at].rpartition("\n")[0]
    kept = [line.split(" = ")[0].strip(" %") for line in before.split("\n") if " = " in line]
    found = program(WHOLE[:at])
    assert any("rest is missing" in note for note in found.notes)
    assert [each.name for each in found.entry.instructions][: len(kept)] == kept


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasted, "_MOST_SEARCHED", 4_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("prefix", PREFIXES)
def test_of_a_long_log_the_module_is_read(prefix: str, tmp_path: Path) -> None:
    log = [f"{prefix}step {number} of f32[3] took 3 s" for number in range(1_000)]
    lines = [f"{prefix}{line}" for line in STEP.splitlines()]
    text = "\n".join(log + lines)
    path = tmp_path / "train.log"
    path.write_text(text)
    forms: list[Any] = [text, text.encode(), path, str(path)]
    answers = [xs.cost(given) for given in forms]
    assert [each.flops for each in answers] == [64] * 4
    [note] = {each.notes[0] for each in (*answers, xs.why(path))}
    assert note.endswith(" were read, from line 1,001 on.")


@pytest.mark.usefixtures("small")
def test_of_a_long_log_without_a_module_the_end_is_read(tmp_path: Path) -> None:
    log = "".join([f"I0101 10:00:00.000000  77 train.py:72] step {number}\n" for number in range(1_000)])
    report = "E0101 10:00:00.000000  77 a.cc:7] RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.\n"
    path = tmp_path / "train.log"
    path.write_text(log + report)
    about: list[Any] = [path, report]
    found, alone = [xs.why(x).to_dict()["totals"] for x in about]
    assert found | {"unread": [], "notes": []} == alone
    assert found["unread"][0].startswith("step 9")
    assert " were read, from line 9" in found["notes"][0]
    with pytest.raises(ParseError, match="expected an instruction"):
        xs.cost(log)
