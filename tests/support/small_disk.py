"""A small file system in memory, which tests fill, make read-only, and unmount."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory, mounted at `path`. OSError or CalledProcessError where that is not possible."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.path.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs")
        found = os.statvfs(path)
        if found.f_blocks * found.f_frsize > 2 * size:  # some containers mount it without the bound
            self.unmount()
            raise OSError(f"a file system of {size} bytes has {found.f_blocks * found.f_frsize}")

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(self.path)], check=True, capture_output=True)

    def fill(self) -> Path:
        """Writes a file that takes all the space that is left."""
        path = self.path / "filler"
        with path.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return path

    def set_writable(self, is_writable: bool) -> None:
        self._mount("-o", f"remount,{'rw' if is_writable else 'ro'}")

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)


def small_disk(path: Path, size: int = 1 << 20) -> SmallDisk:
    """Mounts a SmallDisk. The test is skipped where this user cannot mount file systems."""
    if sys.platform != "linux":
        pytest.skip("mounts a tmpfs, which only Linux has")
    try:
        return SmallDisk(path, size)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this user may not mount a file system: {error}")
