"""Reports are asked of text as people have it in hand, and say in their notes what was left out or assumed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xlashape as xs
from xlashape.errors import XlashapeError
from xlashape.reports.maps import maps
from xlashape.reports.size import size
from xlashape.reports.tiles import tiles

MODULE = """HloModule m

ENTRY %e (p.1: bf16[2048]) -> bf16[2048] {
  %p.1 = bf16[2048]{0} parameter(0)
  ROOT %a.4 = bf16[2048]{0} add(bf16[2048]{0} %p.1, bf16[2048]{0} %p.1)
}
"""
LOGGED = "".join([f"I0101 10:00:00.000000  77 dump.cc:72] {line}\n" for line in MODULE.splitlines()])
ASKED: dict[str, Callable[..., Any]] = {
    "memory": xs.memory, "cost": xs.cost, "reads": xs.reads, "copies": xs.copies, "why": xs.why, "size": size, "map": maps,
    "tile": tiles,
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_log_is_answered_like_the_module_in_it(name: str, tmp_path: Path) -> None:
    ask, path = ASKED[name], tmp_path / "log.txt"
    path.write_text(LOGGED, encoding="utf-8")
    right = ask(MODULE)
    note = "Prefixes of log lines, colours and quotation marks were left out."
    for x in (LOGGED, LOGGED.encode(), path, str(path)):
        found = ask(x)
        assert found.headline().splitlines()[0] == right.headline().splitlines()[0] if right.headline() else True
        assert list(found.table()) == list(right.table())
        assert note in found.notes
        assert found.totals["notes"] == list(found.notes)
        assert found.to_text().count(note) == 1
        if name in ("why", "size"):
            assert ask(x, strict=True).kind if name == "why" else ask(x, strict=True).memory.kind == "shapes"
        else:
            with pytest.raises(XlashapeError):
                ask(x, strict=True)
    assert not any(note in each for each in right.notes)


def test_an_open_file_is_read_once() -> None:
    assert xs.cost(io.BytesIO(LOGGED.encode())).bytes == xs.cost(io.StringIO(LOGGED)).bytes == xs.cost(MODULE).bytes


def test_a_few_lines_are_a_program() -> None:
    lines = "  %c = bf16[1024,512]{1,0} convert(f32[1024,512]{1,0} %x)\n  %r = bf16[512,1024]{0,1} transpose(%c), dimensions={1,0}\n"
    found = xs.cost(lines)
    assert [(row.name, row.bytes) for row in found.rows if row.bytes] == [("c", 3 << 20), ("r", 2 << 20)]
    assert found.notes == ("x is not defined: it is a parameter of the shape beside it.",)


def test_the_assignment_that_xla_writes_as_text_is_read_under_any_name(tmp_path: Path) -> None:
    text = (
        "BufferAssignment:\nallocation 0: size 400, parameter 0, shape |f32[100]| at ShapeIndex {}:\n"
        " value: <0 x.1 @0> (size=400,offset=0): f32[100]{0}\n\nBufferAssignment stats:\n"
        "             parameter allocation:        400B\n"
    )
    path = tmp_path / "pasted.txt"
    path.write_text(text, encoding="utf-8")
    assert xs.memory(path).to_dict() == xs.memory(text).to_dict() == xs.memory(text.encode()).to_dict()


def test_a_hash_is_told_as_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(f"# a note\n{MODULE}", encoding="utf-8")
    with pytest.raises(xs.errors.ParseError, match=":1:1: .* found '#', which begins no comment"):
        xs.HloModule.load(path)
    assert xs.cost(path).notes == ("1 line before the module was left out.",)


@pytest.mark.parametrize("text", ["", "f32[3", "nothing", "HloModule m", "\0" * 40 + " = add("])
def test_what_holds_no_program_is_refused_as_before(text: str) -> None:
    with pytest.raises(XlashapeError) as lenient:
        xs.cost(text.encode())
    with pytest.raises(XlashapeError) as strict:
        xs.cost(text.encode(), strict=True)
    assert str(lenient.value) == str(strict.value)


def test_a_part_of_a_program_bounds_nothing() -> None:
    whole = xs.memory(MODULE.replace("HloModule m", "HloModule m, is_scheduled=true"))
    part = xs.memory(MODULE.replace("HloModule m", "HloModule m, is_scheduled=true").removesuffix("}\n"))
    assert (whole.lower_bytes > 0, whole.upper_bytes is not None) == (True, True)
    assert (part.lower_bytes, part.upper_bytes, part.peak_bytes) == (0, None, whole.peak_bytes)
