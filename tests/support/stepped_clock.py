"""A clock that a test steps, in processes that it starts: their system's clock is moved, and nobody else's."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

__all__ = ["SteppedClock"]

_SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """Processes with `environment` have the clock. OSError or CalledProcessError, with the reason, where it cannot be
    built.
    """

    def __init__(self, folder: Path) -> None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            raise OSError("it takes Linux and a compiler for C")
        library = folder / "stepped_clock.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(_SOURCE), "-ldl"],
            check=True,
            capture_output=True,
        )
        path = folder / "clock"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._seconds = mmap.mmap(file.fileno(), 8)
        self._variables = {"LD_PRELOAD": str(library), "XLASHAPE_CLOCK": str(path)}

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process, and those that load the clock."""
        return {**os.environ, **self._variables}

    def step(self, seconds: int) -> None:
        """Moves the clock so far from the machine's."""
        self._seconds[:] = struct.pack("@q", seconds)
