"""Stack frames have the numbers that jaxlib gives them: by computation, then by the ids of the instructions that name
them, callers first."""

from __future__ import annotations

import pytest
from xla_versions import Case, cases

from xlashape import HloModule
from xlashape.proto import xla

WITH_FRAMES = [case for case in cases() if "\nFileNames\n" in (case.print_of_proto or "")]


def tables(text: str) -> str:
    """The four tables between a module's header and its computations."""
    return text[text.index("\nFileNames\n") : text.index("\n\n\n", text.index("\nStackFrames\n"))]


def test_there_are_modules_with_frames():
    assert len(WITH_FRAMES) > 20


@pytest.mark.parametrize("case", WITH_FRAMES, ids=lambda case: case.name)
def test_printed_tables(case: Case):
    assert case.print_of_proto is not None
    assert tables(HloModule.from_proto(case.data).to_text()) == tables(case.print_of_proto)


@pytest.mark.parametrize("case", [case for case in WITH_FRAMES if case.proto_of_text], ids=lambda case: case.name)
def test_parsed_tables_and_numbers(case: Case):
    ours = HloModule.parse(case.text).to_proto()
    theirs = xla.HloModuleProto.FromString(case.proto_of_text or b"")
    assert ours.stack_frame_index == theirs.stack_frame_index
    for mine, other in zip(ours.computations, theirs.computations, strict=True):
        assert [one.metadata.stack_frame_id for one in mine.instructions] == [
            one.metadata.stack_frame_id for one in other.instructions
        ]
