"""The files that workers count in: one set for each worker, in prometheus_client's own format.

They have their full size on the disk from the beginning, since writing to a mapped file for which the disk has no room ends the process.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["allocate"]

_FILE_BYTES = 512 << 10  # of each file; with every method, code and limit it holds less than three quarters of that
_KINDS = ("counter", "histogram")


def allocate(directory: Path, workers: int) -> None:
    """Makes the files of all workers, with room for every metric. OSError if the disk has none."""
    for worker in range(workers):
        for kind in _KINDS:
            with (directory / f"{kind}_{worker}.db").open("ab") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, _FILE_BYTES)
                else:
                    file.write(bytes(_FILE_BYTES))
