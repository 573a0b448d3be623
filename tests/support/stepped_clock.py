"""A system clock that a test can step for the processes that it starts. Other processes keep the machine's clock."""

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
    """The clock of all processes that are started with `environment`: a library that they preload shifts the time.
    OSError or CalledProcessError, with the reason, where the library cannot be built.
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
        """The environment variables of this process, and those that preload the library."""
        return {**os.environ, **self._variables}

    def step(self, seconds: int) -> None:
        """Sets the clock to `seconds` after the machine's clock."""
        self._seconds[:] = struct.pack("@q", seconds)
