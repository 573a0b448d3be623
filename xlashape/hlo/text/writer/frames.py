"""The tables of stack frames in a module's header.

XLA makes new tables when it reads a module. It keeps the frames that instructions name and the frames that called those, callers first, in
the order of the computations and, within a computation, of the instructions' ids. It merges equal names, locations and frames. The text has
the numbers of the new tables.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlashape.hlo.tokens.formatting import escape
from xlashape.proto import xla


class FrameTables:
    """The tables as they are written."""

    def __init__(self, index: xla.StackFrameIndexProto, used: Iterable[int]) -> None:
        self._index = index
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._locations: dict[tuple[int, ...], int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._numbers: dict[int, int] = {0: 0}
        if index.stack_frames:
            for frame in used:
                if frame not in self._numbers:
                    self._add(frame)

    def number(self, frame: int) -> int:
        """The new number of a frame of the proto; 0 for a frame that is not in its table."""
        return self._numbers.get(frame, 0)

    def _add(self, frame: int) -> None:
        # Callers first. A frame that is not in the table, or has no location, is dropped, and so are the frames called from it.
        frames = self._index.stack_frames
        chain: list[int] = []
        seen: set[int] = set()
        while frame not in self._numbers and 0 < frame <= len(frames) and frame not in seen:
            chain.append(frame)
            seen.add(frame)
            frame = frames[frame - 1].parent_frame_id
        parent = self._numbers.get(frame, 0)
        is_complete = frame == 0 or parent > 0
        for frame in reversed(chain):
            location = frames[frame - 1].file_location_id
            is_complete = is_complete and self._is_location(location)
            if is_complete:
                parent = self._frames.setdefault((self._location(location), parent), len(self._frames) + 1)
            self._numbers[frame] = parent if is_complete else 0

    def _is_location(self, number: int) -> bool:
        index = self._index
        if not 0 < number <= len(index.file_locations):
            return False
        location = index.file_locations[number - 1]
        has_file = 0 < location.file_name_id <= len(index.file_names)
        return has_file and 0 < location.function_name_id <= len(index.function_names)

    def _location(self, number: int) -> int:
        index = self._index
        location = index.file_locations[number - 1]
        file_name = index.file_names[location.file_name_id - 1]
        function_name = index.function_names[location.function_name_id - 1]
        file = self._files.setdefault(file_name, len(self._files) + 1)
        function = self._functions.setdefault(function_name, len(self._functions) + 1)
        key = (file, function, location.line, location.end_line, location.column, location.end_column)
        return self._locations.setdefault(key, len(self._locations) + 1)

    def lines(self) -> list[str]:
        """The lines of the four tables, each followed by an empty line; none where there are no frames."""
        if not self._frames:
            return []
        locations = [
            f"{{file_name_id={file} function_name_id={function} line={line} end_line={end} column={column} end_column={last}}}"
            for file, function, line, end, column, last in self._locations
        ]
        frames = [f"{{file_location_id={location} parent_frame_id={parent + 1}}}" for location, parent in self._frames]
        lines: list[str] = []
        for title, rows in (
            ("FileNames", [f'"{escape(name)}"' for name in self._files]),
            ("FunctionNames", [f'"{escape(name)}"' for name in self._functions]),
            ("FileLocations", locations),
            ("StackFrames", frames),
        ):
            lines.append(title)
            lines += [f"{number} {row}" for number, row in enumerate(rows, 1)]
            lines.append("")
        return lines
