"""Modules by the SHA-256 of their content, in a directory that the workers share.

    modules/3f/3fa9…    the file of a module
    refused             a file of as many bytes as the upload had that there was no room for last, but without blocks
    incoming/…          files that are being written, each locked; a file without a lock was left by a killed process

A file is written in `incoming` and then renamed, so it is complete or absent. The modification time of a file is the
time of its last use. Processes and threads that add files or evict modules exclude each other by a lock on the
directory. Reading needs no lock.

The file of a module is a line, and then the content as it was uploaded. The line is the version of this format, the
SHA-256 of its own JSON, and the JSON:

    xlashape.v3 5f0c… {"facts": {…}, "created": seconds since 1970, "size_bytes": bytes of the content}

The facts are checked whenever they are read, and the content, by the SHA-256 that is the name of the module, whenever
it is read from its beginning. A caller who reads it in parts has the name to check the whole by. A damaged file is
removed.

If the directory was removed, it is made again, and its modules are lost. If another file system is in its place,
because a file system is no longer mounted there, nothing is written. Faults of the file system are raised as errors of
the library:

    EMFILE, ENFILE           LimitExceededError "open_files"     too many calls at the same time; try again later
    ENOSPC, EDQUOT, EFBIG    LimitExceededError "store_space"    the disk is full; stored modules can still be read
    EROFS, EACCES, EPERM     UnavailableError                    the store is read-only
    ENOENT, ENOTDIR          UnavailableError                    the directory is gone
    any other                UnavailableError                    such as EIO and ESTALE
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from xlashape.errors import (
    FieldPath,
    InvalidArgumentError,
    LimitExceededError,
    NotFoundError,
    UnavailableError,
    XlashapeError,
)
from xlashape_server.config import Config

_log = logging.getLogger("xlashape_server.store")

_NAME = re.compile(r"modules/([0-9a-f]{64})")
_NAMED = re.compile(rb"modules/([0-9a-f]{64})")
_MARK = b"xlashape.v3 "  # the beginning of each file: the version of its format
_BLOCK_BYTES = 1 << 20  # bytes that are read at once to check a file
_PROBE_BYTES = 4096  # bytes of the file by which `Store.check` sees whether the directory can be written
_MOST_FOUND = 100_000  # modules whose facts are remembered


def fault(error: OSError) -> XlashapeError:
    """The error of the library for an error of the file system.

    >>> fault(OSError(28, "No space left on device"))
    LimitExceededError('the store has no space left: No space left on device')
    """
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return LimitExceededError(f"the server can open no more files now: {reason}", limit="open_files")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return LimitExceededError(f"the store has no space left: {reason}", limit="store_space")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return UnavailableError(f"the store cannot be written: {reason}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UnavailableError("the store's directory is gone")
    return UnavailableError(f"the store cannot be used: {reason}")


@contextlib.contextmanager
def faults() -> Generator[None]:
    """Converts errors of the file system within the `with` block to errors of the library, by `fault`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, XlashapeError):
            raise  # DeadlineExceededError is an OSError too, since it is a TimeoutError
        raise fault(error) from error


def digests_in(data: bytes) -> tuple[str, ...]:
    """The digests of the modules that serialized bytes name."""
    return tuple([found.decode() for found in _NAMED.findall(data)])


def module_name(sha256: str) -> str:
    """The resource name of the module with a digest."""
    return f"modules/{sha256}"


class Stored(NamedTuple):
    """Facts about a module in the store. `created` and `used`, the time of the last use, are seconds since 1970."""

    sha256: str
    size_bytes: int
    facts: dict[str, str | int]
    created: float
    used: float

    @property
    def name(self) -> str:
        """The resource name."""
        return module_name(self.sha256)


class DamagedError(Exception):
    """The file of a module is damaged. The text of the error says how."""


class ModuleFile:
    """The opened file of the module with the digest `sha256`. DamagedError if the facts in it are damaged."""

    def __init__(self, file: IO[bytes], sha256: str) -> None:
        self.file = file
        status = os.fstat(file.fileno())
        self.inode = status.st_ino
        if file.read(len(_MARK)) != _MARK:
            raise DamagedError("it does not begin as the file of a module does")
        digest, _, encoded = file.readline().partition(b" ")
        self._begin = file.tell()
        if hashlib.sha256(encoded).hexdigest().encode() != digest:
            raise DamagedError("the facts about the module do not have their digest")
        about = json.loads(encoded)
        size = status.st_size - self._begin
        if size != about["size_bytes"]:
            raise DamagedError(f"it has {size} bytes of content, not {about['size_bytes']}")
        self.stored = Stored(sha256, size, about["facts"], float(about["created"]), status.st_mtime)

    def content(self, offset: int = 0, limit: int | None = None) -> bytes:
        """The content from `offset` on, at most `limit` bytes."""
        self.file.seek(self._begin + offset)
        return self.file.read(-1 if limit is None else limit)

    def check(self) -> None:
        """DamagedError if the whole content does not have its digest. Reads it in little memory."""
        digest = hashlib.sha256()
        self.file.seek(self._begin)
        while data := self.file.read(_BLOCK_BYTES):
            digest.update(data)
        if digest.hexdigest() != self.stored.sha256:
            raise DamagedError("the content does not have the digest that is its name")


class Store:
    """Modules in `directory`. `max_bytes` bounds all modules together, without uploads that have not ended; `max_age`
    is in seconds since the last use.

    With `is_durable`, acknowledged uploads survive a power failure, and each upload takes some milliseconds more.
    OSError if the directory cannot be made.
    """

    def __init__(self, directory: str | Path, *, max_bytes: int, max_age: float, is_durable: bool = False) -> None:
        self._root = Path(directory)
        self._modules = self._root / "modules"
        self.incoming = self._root / "incoming"
        """The directory of files that are being written."""
        self._refused = self._root / "refused"
        self._lock_path = self._root / "lock"
        self.max_bytes = max_bytes
        self.max_age = max_age
        self.is_durable = is_durable
        self._make_directories()
        self._device = self._root.stat().st_dev
        self._found: dict[str, tuple[str, int, Stored]] = {}  # digest → path and inode of the file, facts

    @classmethod
    def of(cls, config: Config) -> Store:
        """The store in `config.store_directory`, which must be set."""
        return cls(
            config.store_directory,
            max_bytes=config.store_bytes,
            max_age=config.store_age_seconds,
            is_durable=config.store_is_durable,
        )

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        """The facts about a module. This counts as a use of the module. NotFoundError if the store does not have the
        module, or has removed it.
        """
        sha256 = self.digest_of(name, field=field)
        stored = self._touched(sha256)
        if stored is None:
            with self._opened(sha256, field) as module:
                stored = module.stored
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[sha256] = str(self._path(sha256)), module.inode, stored
        return stored

    def _touched(self, sha256: str) -> Stored | None:
        """The facts about a module that were read before, if its file is still the same; None if the file has to be
        read. Notes the use of the module.

        Reading the file again takes four times as long, about as long as everything else in a small call.
        """
        found = self._found.get(sha256)
        if found is None:
            return None
        path, inode, stored = found
        try:
            status = os.stat(path)  # noqa: PTH116  # making a Path takes longer
            now = time.time()
            if status.st_ino != inode or status.st_mtime + self.max_age < now:
                return None
            os.utime(path, (now, now))
        except OSError:
            return None
        return Stored(*stored[:4], now)

    def read(
        self, name: str, *, offset: int = 0, limit: int | None = None, field: str | FieldPath | None = None
    ) -> bytes:
        """The content from `offset` on, at most `limit` bytes. NotFoundError as in `find`, and for damaged content."""
        with self._opened(self.digest_of(name, field=field), field) as module:
            if not offset:
                module.check()
            return module.content(offset, limit)

    def delete(self, name: str, *, field: str | FieldPath | None = None) -> None:
        """Removes a module. NotFoundError if the store does not have it."""
        sha256 = self.digest_of(name, field=field)
        with self._opened(sha256, field):
            self._path(sha256).unlink(missing_ok=True)

    def evict(self, room_for: int = 0) -> None:
        """Removes modules that are too old, then the least recently used ones until `room_for` more bytes fit. Also
        removes unfinished files of processes that have ended.
        """
        with self._locked():
            self._evict(room_for)

    def usage(self) -> tuple[int, int]:
        """How many modules there are, and their bytes. Does not wait for the lock. OSError if the directory cannot be
        read.
        """
        sizes = [size for _, size, _ in _files(self._modules.glob("??/*"))]
        return len(sizes), sum(sizes)

    def check(self) -> None:
        """Raises the UnavailableError or LimitExceededError that an upload would raise now; returns if an upload can be
        stored.
        """
        with self._new_file() as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
        with contextlib.suppress(FileNotFoundError):
            missing, disk = self._refused.stat().st_size, os.statvfs(self._root)
            if disk.f_bavail * disk.f_frsize < missing:
                raise LimitExceededError(
                    f"the store had no space for an upload of {missing} bytes, and has not got it since",
                    limit="store_space",
                )
            self._refused.unlink()

    @contextlib.contextmanager
    def noting_space(self, size: int) -> Generator[None]:
        """As `faults`. If there is no space for an upload of `size` bytes, `check` fails in all workers until there
        is.
        """
        try:
            with faults():
                yield
        except LimitExceededError as error:
            if error.limit == "store_space":
                with contextlib.suppress(OSError), self._refused.open("ab") as file:
                    file.truncate(size)  # the file has a hole, and takes no space
            raise

    def keep(self, content: bytes, sha256: str, facts: dict[str, str | int]) -> tuple[Stored, bool]:
        """Stores `content`, whose digest is `sha256`, with `facts` about it. Returns the module, and whether the store
        had it already.
        """
        created = time.time()
        encoded = json.dumps({"facts": facts, "created": created, "size_bytes": len(content)}).encode() + b"\n"
        line = _MARK + hashlib.sha256(encoded).hexdigest().encode() + b" " + encoded
        size = len(line) + len(content)
        if size > self.max_bytes:
            text = f"the store holds at most {self.max_bytes} bytes"
            raise LimitExceededError(text, limit="store_bytes", maximum=self.max_bytes, value=size)
        with contextlib.suppress(NotFoundError), self._opened(sha256) as module:
            module.check()  # removes a damaged file, so that this upload replaces it
            return module.stored, True
        with self.noting_space(len(content)), self._new_file() as file:
            file.writelines((line, content))
            file.flush()
            self._take_over(file, sha256)
            return Stored(sha256, len(content), facts, created, created), False

    @contextlib.contextmanager
    def _new_file(self) -> Generator[IO[bytes]]:
        """A file in `incoming`, which is removed unless it is taken over."""
        # Under the directory's lock, so that `_evict` of another process does not find the file before it is locked.
        with self._locked():
            file = tempfile.NamedTemporaryFile(dir=self.incoming, delete=False)  # noqa: SIM115  # closed below
            fcntl.flock(file, fcntl.LOCK_EX)
        with faults(), file:
            try:
                yield file
            finally:
                with contextlib.suppress(OSError):
                    Path(file.name).unlink(missing_ok=True)

    def _take_over(self, file: IO[bytes], sha256: str) -> None:
        """Makes room for a file of `incoming` whose content is complete, and moves it to `modules`."""
        path = self._path(sha256)
        if self.is_durable:
            os.fsync(file.fileno())
        with self._locked():
            self._evict(os.fstat(file.fileno()).st_size)
            path.parent.mkdir(exist_ok=True)
            Path(file.name).replace(path)
            if self.is_durable:
                _synchronize(path.parent)

    @contextlib.contextmanager
    def _opened(self, sha256: str, field: str | FieldPath | None = None) -> Generator[ModuleFile]:
        """Opens the file of a module, and notes the use of the module. A file that turns out to be damaged within the
        `with` block is removed. NotFoundError if there is no file, or it is too old or damaged.
        """
        path = self._path(sha256)
        with faults():
            try:
                file = path.open("rb")
            except FileNotFoundError:
                self._check_directory()
                raise self._missing(sha256, field) from None
            with file:
                try:
                    module = ModuleFile(file, sha256)
                    now = time.time()
                    if module.stored.used + self.max_age < now:
                        raise self._missing(sha256, field)
                    # Where the store can only be read, the time of the last use cannot be written.
                    with contextlib.suppress(OSError):
                        os.utime(file.fileno(), (now, now))
                    module.stored = module.stored._replace(used=now)
                    yield module
                except DamagedError as damage:
                    _log.error("%s is damaged: %s; it is removed", path, damage)
                    with contextlib.suppress(OSError, XlashapeError), self._locked():  # it may be read only
                        if path.stat().st_ino == os.fstat(file.fileno()).st_ino:  # another process may have replaced it
                            path.unlink()
                    raise self._missing(sha256, field, "its file was damaged; upload it again") from None

    def _make_directories(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)  # others on this machine have no part in the modules
        self._modules.mkdir(mode=0o700, exist_ok=True)
        self.incoming.mkdir(mode=0o700, exist_ok=True)

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
            self._make_directories()

    def _evict(self, room_for: int) -> None:
        """`evict`, under the lock."""
        now = time.time()
        files = sorted(_files(self._modules.glob("??/*")))
        total = sum(size for _, size, _ in files)
        for used, size, path in files:
            if used + self.max_age >= now and total + room_for <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
        for path in self.incoming.iterdir():
            with contextlib.suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()

    def _path(self, sha256: str) -> Path:
        return self._modules / sha256[:2] / sha256

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """Holds the lock of the directory."""
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
        sha256: str,
        field: str | FieldPath | None,
        reason: str = "it was never uploaded, was deleted, or made room for others",
    ) -> NotFoundError:
        name = module_name(sha256)
        return NotFoundError(f"there is no module {name!r}: {reason}", kind="module", name=name, field=field)


def _files(paths: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    """Time of last use, bytes and path of every file."""
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            yield status.st_mtime, status.st_size, path


def _synchronize(folder: Path) -> None:
    """Writes the file names of a folder to the disk (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
