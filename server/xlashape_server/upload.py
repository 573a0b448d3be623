"""Content that is being uploaded to a store, in a file of its own that is locked while the upload lasts.

The system releases the lock when a process ends, so a file without a lock is abandoned, and `store` removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from xlashape.errors import LimitExceededError
from xlashape_server.stored_file import Blocks, Stored, ending, faults


class Upload:
    """Content that is being uploaded. Use it in a `with` block, which discards at its end what has not been stored.

    `keep` takes over the file: its path, the digest, the size, the facts and the time of creation.
    """

    def __init__(
        self,
        incoming: Path,
        keep: Callable[[Path, str, int, dict[str, str | int], float], tuple[Stored, bool]],
        *,
        max_bytes: int,
        is_durable: bool,
    ) -> None:
        self._keep = keep
        self._max_bytes = max_bytes
        self._is_durable = is_durable
        self._digest = hashlib.sha256()
        self._blocks = Blocks()
        with faults():
            descriptor, name = tempfile.mkstemp(dir=incoming)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:
                os.close(descriptor)
                Path(name).unlink(missing_ok=True)
                raise
        # Unbuffered: closing a buffered file would write the rest of its buffer to a full disk a second time.
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._path = Path(name)
        self.size_bytes = 0

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Adds the next bytes. LimitExceededError as soon as the content is larger than the whole store."""
        self.size_bytes += len(data)
        if self.size_bytes > self._max_bytes:
            raise LimitExceededError(
                f"the store holds at most {self._max_bytes} bytes",
                limit="store_bytes",
                maximum=self._max_bytes,
                value=self.size_bytes,
            )
        self._digest.update(data)
        self._blocks.write(data)
        self._write(data)

    @property
    def sha256(self) -> str:
        """The digest of what was written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def content(self) -> bytes:
        """The bytes that were written so far."""
        with faults():
            return self._path.read_bytes()

    def copy(self, pieces: Iterable[bytes]) -> Path:
        """Writes a whole file of a module, as it was stored elsewhere, and returns its path. The caller checks the
        file.
        """
        for piece in pieces:
            self._write(piece)
        return self._path

    def store(self, facts: dict[str, str | int]) -> tuple[Stored, bool]:
        """Stores the content with `facts` about it. Returns the module, and whether the store had it already. Nothing
        can be written afterwards.
        """
        created = time.time()
        self._write(ending(facts, created, self._blocks.digests()))
        with faults():
            if self._is_durable:
                os.fsync(self._file.fileno())
        return self._keep(self._path, self.sha256, self.size_bytes, facts, created)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        with faults():
            while view:
                view = view[self._file.write(view) :]


def remove_unlocked(folder: Path) -> None:
    """Removes the files in `folder` of uploads whose processes have ended. The caller holds a lock that keeps uploads
    from beginning.
    """
    for path in folder.iterdir():
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
