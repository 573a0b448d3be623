"""Modules by the SHA-256 of their content, in a directory that the workers share.

    modules/3f/3fa9…        the content, then its facts as JSON, then _FOOTER: the facts' size and a mark
    incoming/…              uploads that have not ended; what a crash leaves there is removed later

A file is written in `incoming` and then renamed, so it is complete or absent. A file that was damaged later does not match its digest, and
counts as absent. The time of modification of a file is the time of its last use. A lock on the directory orders uploads, deletions and
evictions, but not reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import struct
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from xlashape.errors import FieldPath, InvalidArgumentError, LimitExceededError, NotFoundError

__all__ = ["Store", "Stored", "Upload", "module_name"]

_FOOTER = struct.Struct("<I12s")
_MARK = b"xlashape.v1\n"
_NAME = re.compile(r"modules/([0-9a-f]{64})")
_STALE_SECONDS = 3600.0  # after its last write, an upload counts as abandoned


def module_name(sha256: str) -> str:
    """The resource name of a digest."""
    return f"modules/{sha256}"


class Stored(NamedTuple):
    """A module in the store. Times are seconds since 1970; `used` is that of the last use."""

    sha256: str
    size_bytes: int
    facts: dict[str, str | int]
    created: float
    used: float

    @property
    def name(self) -> str:
        """The resource name."""
        return module_name(self.sha256)


class Store:
    """Modules in `directory`. `max_bytes` bounds all modules together, without uploads that have not ended; `max_age` is in seconds since the last use."""

    def __init__(self, directory: str | Path, *, max_bytes: int, max_age: float) -> None:
        self._modules = Path(directory) / "modules"
        self._incoming = Path(directory) / "incoming"
        self._lock_path = Path(directory) / "lock"
        self.max_bytes = max_bytes
        self.max_age = max_age
        self._modules.mkdir(parents=True, exist_ok=True)
        self._incoming.mkdir(exist_ok=True)

    def upload(self) -> Upload:
        """Begins an upload. Use it in a `with` block, which discards at its end what has not been stored."""
        return Upload(self, self._incoming)

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        """What is known of a module; counts as a use of it. NotFoundError if the store does not have it, or no longer."""
        sha256 = self.digest_of(name, field=field)
        path = self._path(sha256)
        try:
            with path.open("rb") as file:
                stored = self._stat(sha256, file)
                if stored is None or stored.used + self.max_age < time.time():
                    raise FileNotFoundError
                now = time.time()
                os.utime(file.fileno(), (now, now))
        except OSError:
            raise self._missing(name, field) from None
        return Stored(sha256, stored.size_bytes, stored.facts, stored.created, now)

    def read(
        self, name: str, *, offset: int = 0, limit: int | None = None, field: str | FieldPath | None = None
    ) -> bytes:
        """The content from `offset` on, at most `limit` bytes. The digest is checked if that is the whole content. NotFoundError as in `find`."""
        stored = self.find(name, field=field)
        path = self._path(stored.sha256)
        size = max(0, stored.size_bytes - offset)
        try:
            with path.open("rb") as file:
                file.seek(min(offset, stored.size_bytes))
                content = file.read(size if limit is None else min(size, limit))
        except OSError:
            raise self._missing(name, field) from None
        if len(content) == stored.size_bytes and hashlib.sha256(content).hexdigest() != stored.sha256:
            self._remove(stored.sha256)
            raise self._missing(name, field)
        return content

    def delete(self, name: str, *, field: str | FieldPath | None = None) -> None:
        """Removes a module. NotFoundError if the store does not have it."""
        self.find(name, field=field)
        if not self._remove(self.digest_of(name, field=field)):
            raise self._missing(name, field)

    def evict(self, room_for: int = 0) -> None:
        """Removes modules that are too old, then the least recently used until `room_for` bytes more fit, and abandoned uploads."""
        with self._locked():
            self._evict(room_for)

    def total_bytes(self) -> int:
        """Bytes of all modules together, as they count against `max_bytes`."""
        with self._locked():
            return sum(size for _, size, _ in self._files())

    def keep(
        self, temporary: Path, sha256: str, size: int, facts: dict[str, str | int], created: float
    ) -> tuple[Stored, bool]:
        """Takes over the file of an upload: content of `size` bytes, then `facts` and footer. Says whether the store had it already."""
        whole = temporary.stat().st_size
        if whole > self.max_bytes:
            raise LimitExceededError(
                f"the store holds at most {self.max_bytes} bytes",
                limit="store_bytes",
                maximum=self.max_bytes,
                value=whole,
            )
        path = self._path(sha256)
        with self._locked():
            with contextlib.suppress(NotFoundError):
                return self.find(module_name(sha256)), True
            self._evict(whole)
            path.parent.mkdir(exist_ok=True)
            now = time.time()
            os.utime(temporary, (now, now))
            temporary.replace(path)
        return Stored(sha256, size, facts, created, now), False

    def _evict(self, room_for: int) -> None:
        now = time.time()
        kept: list[tuple[float, int, Path]] = []
        for used, size, path in self._files():
            if used + self.max_age < now:
                path.unlink(missing_ok=True)
            else:
                kept.append((used, size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total + room_for <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
        for path in self._incoming.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime + _STALE_SECONDS < now:
                    path.unlink()

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, bytes and path of every module."""
        for path in self._modules.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    def _stat(self, sha256: str, file: IO[bytes]) -> Stored | None:
        status = os.fstat(file.fileno())
        if status.st_size < _FOOTER.size:
            return None
        file.seek(status.st_size - _FOOTER.size)
        facts_size, mark = _FOOTER.unpack(file.read(_FOOTER.size))
        size = status.st_size - _FOOTER.size - facts_size
        if mark != _MARK or size < 0:
            return None
        file.seek(size)
        try:
            about = json.loads(file.read(facts_size))
            return Stored(sha256, size, about["facts"], float(about["created"]), status.st_mtime)
        except (ValueError, TypeError, KeyError):
            return None

    def _path(self, sha256: str) -> Path:
        return self._modules / sha256[:2] / sha256

    def _remove(self, sha256: str) -> bool:
        with self._locked():
            try:
                self._path(sha256).unlink()
            except OSError:
                return False
        return True

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        # The lock belongs to the opened file, so threads of one process exclude each other as processes do, and a crash releases it.
        with self._lock_path.open("ab") as lock:
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
    def _missing(name: str, field: str | FieldPath | None) -> NotFoundError:
        return NotFoundError(
            f"there is no module {name!r}: it was never uploaded, was deleted, or made room for others",
            kind="module",
            name=name,
            field=field,
        )


class Upload:
    """Content that is being uploaded."""

    def __init__(self, store: Store, incoming: Path) -> None:
        self._store = store
        self._digest = hashlib.sha256()
        self._file = tempfile.NamedTemporaryFile(dir=incoming, delete=False)  # noqa: SIM115  # closed by __exit__, kept by `store`
        self._path = Path(self._file.name)
        self.size_bytes = 0

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Adds the next bytes. LimitExceededError as soon as the store could not hold them even if it were empty."""
        self.size_bytes += len(data)
        if self.size_bytes > self._store.max_bytes:
            raise LimitExceededError(
                f"the store holds at most {self._store.max_bytes} bytes",
                limit="store_bytes",
                maximum=self._store.max_bytes,
                value=self.size_bytes,
            )
        self._digest.update(data)
        self._file.write(data)

    @property
    def sha256(self) -> str:
        """The digest of what was written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def content(self) -> bytes:
        """What was written so far."""
        self._file.flush()
        return self._path.read_bytes()

    def store(self, facts: dict[str, str | int]) -> tuple[Stored, bool]:
        """Stores the content with `facts` about it, and says whether the store had it already. Nothing can be written afterwards."""
        created = time.time()
        encoded = json.dumps({"facts": facts, "created": created}).encode()
        self._file.write(encoded)
        self._file.write(_FOOTER.pack(len(encoded), _MARK))
        self._file.close()
        return self._store.keep(self._path, self.sha256, self.size_bytes, facts, created)
