"""Finds and reads the files of a profile: one file, or those of the newest run in a directory that JAX's profiler
wrote.

DIR/plugins/profile/2026_11_23_04_47_27/HOST.xplane.pb         a file for each host of a run
DIR/plugins/profile/2026_11_23_04_47_27/HOST.trace.json.gz     the same, shortened, for trace viewers
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError
from xlashape.limits import check
from xlashape.reports.profile.events import Tally
from xlashape.reports.profile.spans import Spans
from xlashape.reports.profile.trace_json import read_trace
from xlashape.reports.profile.xplane import HeldProgram, read_xspace

_GZIP: Final = b"\x1f\x8b"
_TRACES: Final = (".trace.json.gz", ".trace.json")
PLANES: Final = (".xplane.pb", ".xplane.pb.gz")
"""The ends of the names of serialized profiles."""
_MOST_FILES: Final = 100_000
_MOST_MODULES: Final = 1 << 16


class Sources:
    """The sums of all files of a profile, and the modules in them. Files stay open until `close`."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.programs: list[HeldProgram] = []
        """The modules in the files. A module that several files or planes have counts once."""
        self._known: set[tuple[str, int | None, bytes]] = set()
        self.name = ""
        self._files: list[BinaryIO] = []

    def close(self) -> None:
        """Closes the files. Modules cannot be read from then on."""
        for file in self._files:
            file.close()

    def read(self, file: BinaryIO, name: str) -> None:
        """Adds the events and modules of a file of either format, with or without gzip. `close` closes the file."""
        self._files.append(file)
        start = file.read(2)
        file.seek(0)
        if start == _GZIP:
            with gzip.open(file) as unpacked:
                try:
                    is_json = unpacked.read(1) == b"{"
                except (OSError, EOFError, zlib.error) as error:
                    raise DecodeError(f"{name} cannot be decompressed: {error}") from None
                unpacked.seek(0)
                if is_json:
                    read_trace(cast("BinaryIO", unpacked), name, self.tally)
                    return
                plain = _unpacked(cast("BinaryIO", unpacked), name)
                self._files.append(plain)
                self._read_planes(plain, name)
        elif start[:1] == b"{":
            read_trace(file, name, self.tally)
        elif not start:
            raise DecodeError(f"{name} is empty: a profile has at least one plane")
        else:
            self._read_planes(file, name)

    def _read_planes(self, file: BinaryIO, name: str) -> None:
        size = file.seek(0, os.SEEK_END)
        tally = Tally()
        programs = list(islice(read_xspace(Spans(file, size, name), tally), _MOST_MODULES + 1))
        ids = self._clashes(programs)
        tally.give_ids(ids)
        self.tally.take(tally)
        self.tally.planes |= tally.planes
        self.tally.teraflops = max(self.tally.teraflops, tally.teraflops)
        self.tally.gigabytes = max(self.tally.gigabytes, tally.gigabytes)
        for program in programs:
            program_id = ids.get((program.name, program.program_id), program.program_id)
            key = program.name, program_id, program.digest()
            if key not in self._known:
                self._known.add(key)
                self.programs.append(program._replace(program_id=program_id))
                check("modules of a profile", len(self.programs), _MOST_MODULES)

    def _clashes(self, programs: Sequence[HeldProgram]) -> dict[tuple[str, int | None], int]:
        """The programs of a file whose name and id another program of an earlier file has, as files of different
        processes do, each with an id of its own. Hosts of one run have the same programs.
        """
        earlier: dict[tuple[str, int | None], HeldProgram] = {
            (each.name, each.program_id): each for each in self.programs if each.program_id is not None
        }
        free = 1 + max([each.program_id or 0 for each in (*self.programs, *programs)], default=0)
        found: dict[tuple[str, int | None], int] = {}
        for program in programs:
            key = program.name, program.program_id
            other = earlier.get(key)
            if key not in found and other is not None and other.digest() != program.digest():
                found[key] = free + len(found)
        return found


def _unpacked(file: BinaryIO, name: str) -> BinaryIO:
    """The content of a compressed file as a file on disk, which can be read at any offset."""
    made = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the profile
    try:
        shutil.copyfileobj(file, made, 1 << 20)
    except (OSError, EOFError, zlib.error) as error:
        made.close()
        raise DecodeError(f"{name} cannot be decompressed: {error}") from None
    return made


@contextmanager
def opened(x: Any) -> Generator[Sources]:
    """A context with the profile in a path, a directory, bytes, an XSpace or an open file, whose files are open within
    it.

    Raises NotFoundError for a path without a profile, DecodeError for content that is no profile, InvalidArgumentError
    for another x.
    """
    sources = Sources()
    if callable(getattr(x, "SerializeToString", None)):
        x = x.SerializeToString()
    try:
        if isinstance(x, (bytes, bytearray, memoryview)):
            sources.name = "the profile"
            sources.read(BytesIO(bytes(cast("bytes", x))), sources.name)
        elif callable(getattr(x, "read", None)):
            sources.name = str(getattr(x, "name", "the profile"))
            content = x.read()
            if not isinstance(content, bytes):
                raise InvalidArgumentError("the file is not binary: open it with mode 'rb'", field="x")
            sources.read(BytesIO(content), sources.name)
        elif isinstance(x, (str, os.PathLike)):
            path = os.fspath(cast("str | os.PathLike[str]", x))
            sources.name = path
            for file in files_of(path):
                _read_path(sources, file)
        else:
            raise InvalidArgumentError(
                f"a profile is a path, a directory, bytes, an XSpace or an open file, not {type(x).__name__}", field="x"
            )
        yield sources
    finally:
        sources.close()


def _read_path(sources: Sources, path: Path) -> None:
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotFoundError(f"cannot read {str(path)!r}: {reason}", kind="file", name=str(path)) from None
    sources.read(file, str(path))


def files_of(path: str) -> list[Path]:
    """The files of a profile: `path` itself, or for a directory the `*.xplane.pb` of its newest run, or the traces of
    that run if it has none."""
    place = Path(path)
    try:
        is_directory = place.is_dir()
    except (OSError, ValueError):
        is_directory = False
    if not is_directory:
        return [place]
    found: list[Path] = []
    for each in place.rglob("*"):
        if each.name.endswith((*PLANES, *_TRACES)) and each.is_file():
            found.append(each)
            if len(found) > _MOST_FILES:
                raise InvalidArgumentError(f"{path!r} has more than {_MOST_FILES:,} profiles", field="x")
    if not found:
        raise NotFoundError(
            f"{path!r} has no profile: JAX's profiler writes plugins/profile/TIME/HOST.xplane.pb",
            kind="profile",
            name=path,
        )
    # Runs are named by their time.
    newest = max(each.parent for each in found)
    run = sorted([each for each in found if each.parent == newest])
    return [each for each in run if each.name.endswith(PLANES)] or run
