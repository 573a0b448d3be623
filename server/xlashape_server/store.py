"""Modules by the SHA-256 of their content, in a directory that the workers share.

    modules/3f/3fa9…        the file of a module: `stored_file` describes it
    incoming/…              uploads that have not ended; those of a process that was killed are removed
    damaged/3fa9…           files whose content was damaged, kept for diagnosis; they are removed first to make room

A file is written in `incoming` and then renamed, so it is complete or absent. Digests are checked whenever content is
read. The modification time of a file is the time of its last use. A lock on the directory orders uploads, deletions and
evictions, but not reads.

If the directory was removed, it is made again, and its modules are lost. If another file system is in its place,
because a file system is no longer mounted there, nothing is written. Faults of the file system are errors of the
library: see `faults` in `stored_file`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from xlashape.errors import FieldPath, InvalidArgumentError, LimitExceededError, NotFoundError, UnavailableError
from xlashape_server.config import Config
from xlashape_server.scratch import is_scratch
from xlashape_server.stored_file import (
    DamagedError,
    ModuleFile,
    Stored,
    check_whole,
    fault,
    faults,
    module_name,
    read_file,
)
from xlashape_server.upload import Upload, remove_unlocked

_log = logging.getLogger("xlashape_server.store")

_NAME = re.compile(r"modules/([0-9a-f]{64})")
_PROBE_BYTES = 4096


class Store:
    """Modules in `directory`. `max_bytes` bounds all modules together, without uploads that have not ended; `max_age`
    is in seconds since the last use.

    `is_durable`: acknowledged uploads survive a power failure, which makes each upload some milliseconds slower.
    OSError if the directory cannot be made.
    """

    def __init__(self, directory: str | Path, *, max_bytes: int, max_age: float, is_durable: bool = False) -> None:
        self._root = Path(directory)
        self._modules = self._root / "modules"
        self._incoming = self._root / "incoming"
        self._damaged = self._root / "damaged"
        self._lock_path = self._root / "lock"
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.is_durable = is_durable
        self.evicted = {"age": 0, "space": 0}
        """How many modules this process has removed, by the reason. Counted under the lock of the directory."""
        self.damaged = 0
        """How many files this process has set aside."""
        self._make_directories()
        self._device = self._root.stat().st_dev

    @classmethod
    def of(cls, config: Config) -> Store:
        """The store that `config` describes, whose directory is given."""
        return cls(
            config.store_directory,
            max_bytes=config.store_bytes,
            max_age=config.store_age_seconds,
            is_durable=not is_scratch(config.store_directory),
        )

    def upload(self) -> Upload:
        """Begins an upload. Use it in a `with` block, which discards at its end what has not been stored."""
        # Under the lock, so that the file of an upload is locked before `remove_unlocked` sees it.
        with self._locked():
            return Upload(self._incoming, self.keep, max_bytes=self.max_bytes, is_durable=self.is_durable)

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        """The facts about a module. This counts as a use of the module. NotFoundError if the store does not have it, or
        no longer.
        """
        with self._opened(name, field) as (_, stored, _):
            return stored

    def read(
        self, name: str, *, offset: int = 0, limit: int | None = None, field: str | FieldPath | None = None
    ) -> bytes:
        """The content from `offset` on, at most `limit` bytes. Damaged content is never returned: NotFoundError, as in
        `find`.
        """
        with self._opened(name, field) as (file, stored, about):
            return about.content(file, stored.sha256, offset, limit)

    def delete(self, name: str, *, field: str | FieldPath | None = None) -> None:
        """Removes a module. NotFoundError if the store does not have it."""
        sha256 = self.digest_of(name, field=field)
        with self._locked():
            with self._opened(name, field):
                pass
            try:
                self._path(sha256).unlink()
            except FileNotFoundError:
                raise self._missing(name, field) from None

    def evict(self, room_for: int = 0) -> None:
        """Removes modules that are too old, then the least recently used ones until `room_for` more bytes fit, and
        uploads of processes that have ended.
        """
        with self._locked():
            self._evict(room_for)

    def total_bytes(self) -> int:
        """Bytes of all modules together, as they count against `max_bytes`."""
        with self._locked():
            return sum(size for _, size, _ in self._files())

    def usage(self) -> tuple[int, int]:
        """How many modules there are, and their bytes; without the lock, so that it need not wait. OSError if the
        directory cannot be read.
        """
        sizes = [size for _, size, _ in self._files()]
        return len(sizes), sum(sizes)

    def check(self) -> None:
        """Raises the UnavailableError or LimitExceededError that an upload would raise now; returns if an upload can be
        stored.
        """
        with self.upload() as upload:
            upload.write(bytes(_PROBE_BYTES))

    def check_shared(self) -> None:
        """Checks the storage that this store shares with other servers, if there is any, as `check`."""

    def keep(
        self, temporary: Path, sha256: str, size: int, facts: dict[str, str | int], created: float
    ) -> tuple[Stored, bool]:
        """Takes over the file of an upload: content of `size` bytes, then `facts` and footer. Says whether the store
        had it already.
        """
        with faults():
            whole = temporary.stat().st_size
        if whole > self.max_bytes:
            raise LimitExceededError(
                f"the store holds at most {self.max_bytes} bytes",
                limit="store_bytes",
                maximum=self.max_bytes,
                value=whole,
            )
        path = self._path(sha256)
        self._check_stored(sha256)
        with self._locked():
            with contextlib.suppress(NotFoundError), self._opened(module_name(sha256)) as (_, stored, _):
                return stored, True
            now = self._take_over(temporary, path, whole)
        return Stored(sha256, size, facts, created, now), False

    def _take_over(self, temporary: Path, path: Path, size: int) -> float:
        """Makes room, and then gives a file its name. The caller holds the lock. Returns the time of use."""
        self._evict(size)
        path.parent.mkdir(exist_ok=True)
        now = time.time()
        os.utime(temporary, (now, now))
        temporary.replace(path)
        if self.is_durable:
            _synchronize(path.parent)
        return now

    def _check_stored(self, sha256: str) -> None:
        """Moves a damaged file away, so that an upload of the same content can replace it."""
        with contextlib.suppress(NotFoundError), self._opened(module_name(sha256)) as (file, _, about):
            check_whole(file, about, sha256)

    @contextlib.contextmanager
    def _opened(
        self, name: str, field: str | FieldPath | None = None
    ) -> Generator[tuple[IO[bytes], Stored, ModuleFile]]:
        """The file of a module. A file that turns out to be damaged is moved to `damaged`."""
        sha256 = self.digest_of(name, field=field)
        path = self._path(sha256)
        try:
            with path.open("rb") as file:
                try:
                    about = read_file(file)
                    now = time.time()
                    if about.used + self.max_age < now:
                        raise self._missing(name, field)
                    # Where the store can only be read, the time of the last use cannot be written.
                    with contextlib.suppress(OSError):
                        os.utime(file.fileno(), (now, now))
                    yield file, Stored(sha256, about.size_bytes, about.facts, about.created, now), about
                except DamagedError as damage:
                    self._set_aside(path, file, damage)
                    raise self._missing(name, field, "its file was damaged; upload it again") from None
        except FileNotFoundError:
            self._check_directory()
            raise self._missing(name, field) from None
        except OSError as error:
            raise fault(error) from error

    def _set_aside(self, path: Path, file: IO[bytes], damage: DamagedError) -> None:
        """Moves a damaged file away, which is open as `file`. A whole file that has taken its place stays."""
        damaged = os.fstat(file.fileno())
        kept = self._damaged / path.name
        try:
            if not os.path.samestat(damaged, path.stat()):
                return
            self._damaged.mkdir(exist_ok=True)
            path.replace(kept)
            if not os.path.samestat(damaged, kept.stat()):  # it was replaced between the comparison and the move
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(kept)
                kept.unlink()
                return
            os.utime(kept)
            self.damaged += 1
        except FileNotFoundError:
            return  # another process did so
        except OSError as error:
            _log.error("%s is damaged: %s; it cannot be set aside: %s", path, damage, error)
        else:
            _log.error("%s is damaged: %s; it was moved to %s", path, damage, kept)

    def _make_directories(self) -> None:
        self._modules.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)

    def _check_directory(self) -> None:
        """Makes the directory again if it was removed. UnavailableError if it cannot be made, or another file system
        took its place.
        """
        with faults():
            if not self._root.exists():
                self._make_directories()
                _log.error("%s was removed, and is made again; its modules are lost", self._root)
            if self._root.stat().st_dev != self._device:
                raise UnavailableError(
                    "another file system is in the place of the store's directory: is the store's file system mounted?"
                )
            if not (self._modules.is_dir() and self._incoming.is_dir()):
                self._make_directories()

    def _evict(self, room_for: int) -> None:
        now = time.time()
        kept: list[tuple[float, int, Path]] = []
        for used, size, path in self._files():
            if used + self.max_age < now:
                path.unlink(missing_ok=True)
                self.evicted["age"] += 1
            else:
                kept.append((used, size, path))
        total = sum(size for _, size, _ in kept)
        damaged: list[tuple[float, int, Path]] = []
        for path in self._damaged.glob("*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if status.st_mtime + self.max_age < now:
                    path.unlink()
                else:
                    damaged.append((status.st_mtime, status.st_size, path))
        total += sum(size for _, size, _ in damaged)
        for _, size, path in [*sorted(damaged), *sorted(kept)]:
            if total + room_for <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
            self.evicted["space"] += path.parent != self._damaged
        remove_unlocked(self._incoming)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, bytes and path of every module."""
        for path in self._modules.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    def _path(self, sha256: str) -> Path:
        return self._modules / sha256[:2] / sha256

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        # The lock belongs to the opened file, so threads of one process exclude each other as processes do, and a crash
        # releases it.
        self._check_directory()
        with faults(), self._lock_path.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @staticmethod
    def digest_of(name: str, *, field: str | FieldPath | None = None) -> str:
        """The digest in the name of a module. InvalidArgumentError if `name` is not the name of a module."""
        match = _NAME.fullmatch(name)
        if match is None:
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise InvalidArgumentError(
                f"expected modules/ and 64 digits of lower-case hexadecimal, found {shown!r}", field=field
            )
        return match.group(1)

    @staticmethod
    def _missing(
        name: str,
        field: str | FieldPath | None,
        reason: str = "it was never uploaded, was deleted, or made room for others",
    ) -> NotFoundError:
        return NotFoundError(
            f"there is no module {name!r}: {reason}",
            kind="module",
            name=name,
            field=field,
        )


def _synchronize(folder: Path) -> None:
    """Writes the names in a folder to the disk (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
