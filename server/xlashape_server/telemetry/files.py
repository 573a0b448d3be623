"""The files that workers count in: one set for each worker, in prometheus_client's own format.

They have their full size on the disk from the beginning, since writing to a mapped file for which the disk has no room ends the process.
"""

from __future__ import annotations

import os
from pathlib import Path

_FILE_BYTES = 512 << 10  # of each file; with every method, code and limit it holds less than three quarters of that
_KINDS = ("counter", "histogram")


def allocate(directory: Path, worker: int) -> None:
    """Makes the files of a worker where it has none, with room for every metric. OSError if the disk has none."""
    for path in paths(directory, worker):
        with path.open("ab") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
            elif not file.tell():
                file.write(bytes(_FILE_BYTES))


def begin_anew(directory: Path, worker: int) -> None:
    """Replaces the files of a worker, whose content cannot be used, by empty ones."""
    for path in paths(directory, worker):
        path.unlink(missing_ok=True)
    allocate(directory, worker)


def paths(directory: Path, worker: int) -> list[Path]:
    """The files of a worker."""
    return [directory / f"{kind}_{worker}.db" for kind in _KINDS]
