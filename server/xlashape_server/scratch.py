"""The temporary directories in which servers keep modules. A server removes its directory when it stops. If it was
killed, the next server removes the directory.

A directory holds a file `owner`, which the server and its workers keep locked: the system releases the lock when the
last of these processes has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

_log = logging.getLogger("xlashape_server.app")

_PREFIX = "xlashape-store-"
_OWNER = "owner"


class ScratchDirectory:
    """A new temporary directory, locked until it is removed. OSError if the directory cannot be made."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # The file gets its name once it is locked, so that no other server finds it unlocked.
        descriptor, name = tempfile.mkstemp(dir=self.path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        Path(name).rename(self.path / _OWNER)
        self.lock = descriptor
        """The descriptor of the locked file. Child processes inherit it, and so the lock."""

    def remove(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self.lock)


def is_scratch(directory: str | Path) -> bool:
    """Whether a directory is one of these temporary directories."""
    return (Path(directory) / _OWNER).exists()


def remove_orphans() -> None:
    """Removes the temporary directories of servers that ended without removing them."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            with (path / _OWNER).open("rb") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            _log.info("removed %s, which an earlier server left", path)
        except OSError:
            continue  # its server is running, or the directory is being made or was removed meanwhile
