"""Files that are replaced as a whole: a reader finds the old content or the new content, never a part."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_NEW_FILE_MODE: Final = 0o666


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], None]) -> None:
    """Lets `write` fill a new file beside `path` and renames it to `path`. If an error is raised, by `write` or as
    OSError or ValueError of the file system, the old file stays.

    A link stays a link: the file that it leads to is replaced. An existing file keeps its mode. A path that is not a
    regular file, such as /dev/stdout or a pipe, is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            write(stream)
        return
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    # If others may not read the old file, they may not read the new file before the renaming either.
    handle, new = _create_beside(target, _NEW_FILE_MODE if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        if mode is not None:
            new.chmod(mode)
        new.replace(target)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def _create_beside(target: Path, mode: int) -> tuple[int, Path]:
    """A descriptor of a new file in the directory of `target`, and its path. The system applies the umask to `mode`,
    which tempfile does not.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        new = target.parent / f".{target.name[:100]}.{os.urandom(8).hex()}"
        with suppress(FileExistsError):
            return os.open(new, flags, mode), new


def file_exists(name: str) -> bool:
    """Whether text is the name of a file or a directory."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # the text cannot be the name of a file
        return False
