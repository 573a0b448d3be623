"""The table of stack frames that a module gets: the frames of the text's tables that its instructions name, and their parents."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from xlashape.proto import xla


class Location(NamedTuple):
    """A place in a program."""

    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int


class StackFrames:
    """Numbers the frames in the order in which `number` is first asked for them. All numbers begin with 1; 0 means no frame."""

    __slots__ = (
        "_files",
        "_frames",
        "_functions",
        "_locations",
        "_numbers",
        "_text_frames",
        "_text_locations",
        "index",
    )

    def __init__(
        self, text_locations: Sequence[Location | None] = (), text_frames: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._text_locations = text_locations
        """The text's file locations; None for a location whose file or function the text's tables do not have."""
        self._text_frames = text_frames
        """The text's stack frames: (number of the location, number of the parent)."""
        self._numbers: dict[int, int] = {}
        """Number in the text → number in the module."""
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._locations: dict[Location, int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self.index = xla.StackFrameIndexProto()
        """The module's table so far."""

    def number(self, text_frame: int) -> int:
        """The module's number of a frame of the text. 0 if the text lacks the frame, its location, or one of its ancestors."""
        chain: list[int] = []
        seen: set[int] = set()
        while text_frame != 0 and text_frame not in self._numbers:
            chain.append(text_frame)
            if text_frame in seen or not 0 < text_frame <= len(self._text_frames):
                # The ancestors form a cycle, or one of them is not in the table.
                self._numbers.update(dict.fromkeys(chain, 0))
                return 0
            seen.add(text_frame)
            text_frame = self._text_frames[text_frame - 1][1]
        number = self._numbers.get(text_frame, 0)
        is_complete = text_frame == 0 or number != 0
        for descendant in reversed(chain):
            location = self._location(self._text_frames[descendant - 1][0]) if is_complete else 0
            is_complete = location != 0
            number = self._numbers[descendant] = self._frame(location, number) if is_complete else 0
        return number

    def _location(self, text_location: int) -> int:
        """The module's number of a location of the text; 0 if the text lacks the location, its file or its function."""
        location = self._text_locations[text_location - 1] if 0 < text_location <= len(self._text_locations) else None
        if location is None:
            return 0
        number = self._locations.get(location)
        if number is None:
            number = self._locations[location] = len(self._locations) + 1
            self.index.file_locations.add(
                file_name_id=_number_of(location.file, self._files, self.index.file_names),
                function_name_id=_number_of(location.function, self._functions, self.index.function_names),
                line=location.line,
                end_line=location.end_line,
                column=location.column,
                end_column=location.end_column,
            )
        return number

    def _frame(self, location: int, parent: int) -> int:
        number = self._frames.get((location, parent))
        if number is None:
            number = self._frames[location, parent] = len(self._frames) + 1
            self.index.stack_frames.add(file_location_id=location, parent_frame_id=parent)
        return number


def _number_of(name: str, numbers: dict[str, int], table: MutableSequence[str]) -> int:
    number = numbers.get(name)
    if number is None:
        table.append(name)
        number = numbers[name] = len(table)
    return number
