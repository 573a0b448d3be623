"""`FrameTables`: the tables of stack frames of a module or of its text, with the frames that instructions name alone.

When XLA reads a module, it makes new tables of stack frames. They have the frames that instructions name and, before
each, the frames that called it. Equal names, locations and frames are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from xlashape.proto import xla

_T = TypeVar("_T")


class Location(NamedTuple):
    """A location in the source of the user's program."""

    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int


class FrameTables:
    """New tables, made of the frames of others. Frames are numbered from 1, each after its parent, in the order of the
    calls of `number`; 0 means no frame.

    >>> tables = FrameTables([Location("a.py", "f", 3, 3, 1, 9)], [(1, 0), (1, 1)])
    >>> tables.number(2), tables.number(1), tables.frames
    (2, 1, {(1, 0): 1, (1, 1): 2})
    """

    def __init__(
        self, old_locations: Sequence[Location | None] = (), old_frames: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._old_locations = old_locations
        """None for a location whose file or function is in no table."""
        self._old_frames = old_frames
        """The stack frames: (number of the location, number of the parent)."""
        self._numbers: dict[int, int] = {0: 0}
        """Old number of a frame → its new number."""
        # The new tables: each entry with its number, in the order of the numbers.
        self.files: dict[str, int] = {}
        self.functions: dict[str, int] = {}
        self.locations: dict[tuple[int, ...], int] = {}
        """(number of the file, number of the function, line, end of line, column, end of column)"""
        self.frames: dict[tuple[int, int], int] = {}
        """(number of the location, number of the parent)"""

    def number(self, frame: int) -> int:
        """The new number of a frame, which is added to the tables if it is not in them. 0 if the old tables lack the
        frame, its location, or one of its ancestors, or if the ancestors form a cycle."""
        numbers, frames = self._numbers, self._old_frames
        if frame in numbers:
            return numbers[frame]
        chain: dict[int, None] = {}
        while frame not in numbers and frame not in chain and 0 < frame <= len(frames):
            chain[frame] = None
            frame = frames[frame - 1][1]
        number = numbers.get(frame, 0)
        is_complete = frame == 0 or number != 0
        for each in reversed(chain):
            location = self._location(frames[each - 1][0]) if is_complete else 0
            is_complete = location != 0
            number = numbers[each] = _number_of((location, number), self.frames) if is_complete else 0
        return number

    def _location(self, number: int) -> int:
        """The new number of a location; 0 if the old tables lack it, its file or its function."""
        location = self._old_locations[number - 1] if 0 < number <= len(self._old_locations) else None
        if location is None:
            return 0
        file, function, *place = location
        return _number_of((_number_of(file, self.files), _number_of(function, self.functions), *place), self.locations)

    def to_proto(self) -> xla.StackFrameIndexProto:
        """The new tables as a message."""
        fields = ("file_name_id", "function_name_id", *Location._fields[2:])
        return xla.StackFrameIndexProto(
            file_names=self.files,
            function_names=self.functions,
            file_locations=[
                xla.StackFrameIndexProto.FileLocation(**dict(zip(fields, location, strict=True)))
                for location in self.locations
            ],
            stack_frames=[
                xla.StackFrameIndexProto.StackFrame(file_location_id=location, parent_frame_id=parent)
                for location, parent in self.frames
            ],
        )


def _number_of(entry: _T, table: dict[_T, int]) -> int:
    return table.setdefault(entry, len(table) + 1)
