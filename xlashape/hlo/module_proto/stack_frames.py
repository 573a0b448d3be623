"""Stack frames: the lines of a program that an instruction comes from, and which of them are the user's own.

A module has tables of file names, function names, locations and frames (StackFrameIndexProto). An instruction has the
number of its innermost frame, and each frame has the number of its caller. Numbers begin with 1; 0 stands for no frame.
Broken tables do not raise errors: the frames of an instruction end at a number that is not in the table, and at a frame
that was there already; a frame without a file name is left out.

The kind of a frame follows from the path of its file alone:

    internal   a file of the standard library or of JAX itself
    library    any other file in site-packages or dist-packages
    own        any other file

`Metadata` is the OpMetadata of an instruction with its frames, which `HloInstruction.metadata` returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.hlo.module_proto.shown_frames import checked_frames, shown_frames
from xlashape.limits import spend
from xlashape.proto import parse, xla


class FrameKind(IntEnum):
    """Whose code a frame is in. The lower the value, the more the frame tells the user."""

    OWN = 0
    LIBRARY = 1
    INTERNAL = 2


_JAX: Final = re.compile(r"(?:site|dist)-packages/(?:jax|jaxlib)/|(?:^|/)jax/(?:_src|jax)/")
_PACKAGES: Final = re.compile(r"(?:^|/)(?:site|dist)-packages/")
_STANDARD_LIBRARY: Final = re.compile(
    r"(?:^|/)lib(?:32|64)?/(?:python|pypy)\d+(?:\.\d+)?t?(?:\.zip)?/|(?:^|/)python\d*(?:\.\d+)?t?/lib/|^<frozen ",
    re.IGNORECASE,
)


def kind_of(file: str) -> FrameKind:
    """The kind of the frames of a file, by its path.

    >>> [
    ...     kind_of(file).name
    ...     for file in (
    ...         "train.py",
    ...         "/venv/lib/python3.12/site-packages/flax/linen.py",
    ...         "/usr/lib/python3.12/functools.py",
    ...     )
    ... ]
    ['OWN', 'LIBRARY', 'INTERNAL']
    """
    path = file.replace("\\", "/")
    if _JAX.search(path):
        return FrameKind.INTERNAL
    if _PACKAGES.search(path):
        return FrameKind.LIBRARY
    return FrameKind.INTERNAL if _STANDARD_LIBRARY.search(path) else FrameKind.OWN


class Frame(NamedTuple):
    """A line of a program.

    >>> frame = Frame("/home/user/project/train.py", "step", line=15, column=11)
    >>> frame.source, str(frame), frame.is_own
    ('train.py:15', 'train.py:15 (step)', True)
    """

    file: str
    """The path on the machine where the program was compiled."""
    function: str = ""
    """The name of the function. Empty if the module has only the file and the line, as dumps of JAX before 0.8 do."""
    line: int = 0
    """Counted from 1; 0 if it is not known."""
    column: int = 0
    """Counted from 0, in bytes of UTF-8, as Python counts the columns of its code."""
    end_line: int = 0
    end_column: int = 0

    @property
    def source(self) -> str:
        """The last part of the path, and the line if it is known. Files that many packages have are shown with their
        folder: `flax/__init__.py:3`."""
        parts = self.file.replace("\\", "/").rsplit("/", 2)
        name = "/".join(parts[-2:]) if parts[-1].startswith("__") else parts[-1] or self.file
        return f"{name}:{self.line}" if self.line > 0 else name

    @property
    def kind(self) -> FrameKind:
        """Whose code the frame is in."""
        return kind_of(self.file)

    @property
    def is_own(self) -> bool:
        """Whether the frame is in the user's own code: in no installed package, and in neither the standard library nor
        JAX.
        """
        return kind_of(self.file) is FrameKind.OWN

    def __str__(self) -> str:
        return f"{self.source} ({self.function})" if self.function else self.source


def most_telling(outer: Frame | None, inner: Frame | None) -> Frame | None:
    """The frame that tells the user more: the one of the lower kind, or the inner one if both have the same kind."""
    if outer is None or inner is None:
        return outer or inner
    return inner if inner.kind <= outer.kind else outer


class ModuleFrames:
    """The frames of a module by their number. A frame is read from the tables when it is first asked for."""

    __slots__ = ("_by_location", "_index", "_known")

    def __init__(self, index: xla.StackFrameIndexProto) -> None:
        self._index = index
        self._by_location: dict[int, Frame | None] = {}
        self._known: dict[int, Frame | None] = {}

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frame and its callers, the innermost first. Each frame takes a step of the budget in force."""
        table = self._index.stack_frames
        found: list[Frame] = []
        seen: set[int] = set()
        while 0 < number <= len(table) and number not in seen:
            spend()
            seen.add(number)
            entry = table[number - 1]
            frame = self._frame(entry.file_location_id)
            if frame is not None:
                found.append(frame)
            number = entry.parent_frame_id
        return tuple(found)

    def most_telling(self, number: int) -> Frame | None:
        """Of the frame and its callers, the one that tells the user most: the innermost of the user's own code, or else
        the innermost of a library, or else the innermost. None if there is no frame.

        Results are kept: calls for all frames of a module together take time linear in its table.
        """
        known = self._known
        if number in known:
            return known[number]
        table = self._index.stack_frames
        chain: list[tuple[int, Frame | None]] = []
        while 0 < number <= len(table) and number not in known:
            known[number] = None  # so that frames which call each other in a circle end here
            entry = table[number - 1]
            chain.append((number, self._frame(entry.file_location_id)))
            number = entry.parent_frame_id
        found = known.get(number)
        for each, frame in reversed(chain):
            found = known[each] = most_telling(found, frame)
        return found

    def _frame(self, location: int) -> Frame | None:
        if location not in self._by_location:
            self._by_location[location] = self._read(location)
        return self._by_location[location]

    def _read(self, location: int) -> Frame | None:
        index = self._index
        if not 0 < location <= len(index.file_locations):
            return None
        entry = index.file_locations[location - 1]
        if not 0 < entry.file_name_id <= len(index.file_names):
            return None
        file = index.file_names[entry.file_name_id - 1]
        has_function = 0 < entry.function_name_id <= len(index.function_names)
        function = index.function_names[entry.function_name_id - 1] if has_function else ""
        return Frame(file, function, entry.line, entry.column, entry.end_line, entry.end_column) if file else None


class Metadata(FrozenValue):
    """The operation and the lines of a program that an instruction comes from.

    >>> frames = [
    ...     Frame("/venv/lib/python3.12/site-packages/flax/linen.py", "__call__", 40),
    ...     Frame("/home/user/train.py", "step", 73),
    ... ]
    >>> metadata = Metadata("jit(step)/dense/dot_general", frames=frames)
    >>> metadata.source, metadata.source_line, metadata.source_text("all")
    ('train.py:73', 73, 'linen.py:40 < train.py:73')
    """

    __slots__ = ("_frames", "_number", "_table", "deduplicated_name", "frame", "op_name", "op_type", "scheduling_name")
    _fields = ("op_name", "op_type", "frames", "deduplicated_name", "scheduling_name")

    op_name: str
    """The operation of the program, such as `jit(step)/dense/dot_general`. All text fields are empty if the module has
    no value for them.
    """
    op_type: str
    """The kind of operation, in modules of TensorFlow."""
    deduplicated_name: str
    """The name of the instruction that XLA keeps in place of all equal ones."""
    scheduling_name: str
    """The name that the instruction had when it was scheduled."""
    _frames: tuple[Frame, ...] | None
    _table: ModuleFrames
    _number: int
    frame: Frame | None
    """The innermost frame of the user's own code, or else the innermost of an installed package, or else the innermost.
    None if there is no frame.
    """

    def __init__(
        self,
        op_name: str = "",
        op_type: str = "",
        frames: Iterable[Frame] = (),
        deduplicated_name: str = "",
        scheduling_name: str = "",
    ) -> None:
        """Sets the fields. `frames` begin with the innermost."""
        kept = tuple(frames)
        frame: Frame | None = None
        for each in reversed(kept):
            frame = most_telling(frame, each)
        set_field(self, "op_name", op_name)
        set_field(self, "op_type", op_type)
        set_field(self, "deduplicated_name", deduplicated_name)
        set_field(self, "scheduling_name", scheduling_name)
        set_field(self, "frame", frame)
        set_field(self, "_frames", kept)

    @classmethod
    def of_proto(cls, proto: xla.OpMetadata | bytes, table: ModuleFrames) -> Metadata:
        """The metadata of an instruction, from its OpMetadata or the bytes of that. `table` has the stack frames of its
        module. Broken tables give fewer frames, never an error; broken bytes raise DecodeError.

        The message may have a file and a line itself, as JAX before 0.8 writes them. They count if the tables have no
        frame, or none of the user's own code.
        """
        written: tuple[Frame, ...] = ()
        proto = parse(xla.OpMetadata, proto) if isinstance(proto, bytes) else proto
        if proto.source_file:
            span = (proto.source_line, proto.source_column, proto.source_end_line, proto.source_end_column)
            written = (Frame(proto.source_file, "", *span),)
        metadata = cls(proto.op_name, proto.op_type, written, proto.deduplicated_name, proto.scheduling_name)
        number = proto.stack_frame_id
        found = table.most_telling(number)
        if found is not None:
            set_field(metadata, "frame", most_telling(metadata.frame, found))
            set_field(metadata, "_frames", None)
            set_field(metadata, "_table", table)
            set_field(metadata, "_number", number)
        return metadata

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, the innermost first: the frame of the operation, then its callers."""
        frames = self._frames
        if frames is None:
            frames = self._table.frames(self._number)
            set_field(self, "_frames", frames)
        return frames

    @property
    def source(self) -> str:
        """File and line of `frame`, such as `train.py:73`. Within `showing_frames("all")`, those of all frames."""
        return self.source_text(shown_frames())

    @property
    def source_file(self) -> str:
        """The path of `frame`."""
        return "" if self.frame is None else self.frame.file

    @property
    def source_line(self) -> int:
        """The line of `frame`, counted from 1; 0 if it is not known."""
        return 0 if self.frame is None else self.frame.line

    def source_text(self, frames: str = "own") -> str:
        """File and line of `frame` for "own", and of every frame for "all", the innermost first. Raises
        InvalidArgumentError for another word."""
        if checked_frames(frames) == "own":
            return "" if self.frame is None else self.frame.source
        return " < ".join([each.source for each in self.frames])

    def __repr__(self) -> str:
        parts = [repr(self.op_name), f"source={self.source!r}"] if self.frame else [repr(self.op_name)]
        return f"<Metadata {' '.join(parts)}>"
