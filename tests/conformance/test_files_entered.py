"""How many files of the library a question passes through: what an engineer has to read to follow it. Run with `-s` to
see their names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import xlashape as xs

LIBRARY = Path(xs.__file__).parent
TEXT = """HloModule m

fused {
  q = f32[8,16]{1,0} parameter(0)
  t = f32[16,8]{1,0} transpose(q), dimensions={1,0}
  ROOT n = f32[16,8]{1,0} negate(t)
}

ENTRY e {
  p = f32[8,16]{1,0} parameter(0), metadata={op_name="jit(f)/x" source_file="/src/train.py" source_line=73}
  c = f32[8,16]{1,0} copy(p)
  ROOT f = f32[16,8]{1,0} fusion(c), kind=kLoop, calls=fused
}
"""


def entered(question: Callable[[], Any]) -> list[str]:
    """The files of the library whose functions are called, apart from what runs when a file is imported."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    question()  # imports what it needs
    sys.setprofile(note)
    try:
        question()
    finally:
        sys.setprofile(None)
    inside = [Path(file) for file in files if not file.startswith("<")]
    return sorted(str(file.relative_to(LIBRARY)) for file in inside if file.is_relative_to(LIBRARY))


def a_map() -> None:
    module = xs.HloModule.parse(TEXT)
    xs.indexing.output_to_input(module.entry.root)[0].simplify()


def a_memory_report() -> None:
    xs.memory(xs.HloModule.parse(TEXT)).to_text()


_LOADED = xs.HloModule.parse(TEXT).to_bytes()


def an_edit() -> None:
    module = xs.HloModule.from_proto(_LOADED)
    module.instruction("c").replace_uses("p")


@pytest.mark.parametrize(("question", "most"), [(a_map, 33), (a_memory_report, 60), (an_edit, 22)])
def test_few_files_are_entered(question: Callable[[], None], most: int) -> None:
    files = entered(question)
    print(f"\n{question.__name__}: {len(files)} files\n  " + "\n  ".join(files))
    assert len(files) <= most
