"""Files that are replaced as a whole: whoever reads one finds the old content or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["replace_file"]

_NEW_FILE_MODE: Final = 0o666


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], None]) -> None:
    """Lets `write` fill a new file beside `path` and renames it to `path`. Raises OSError or ValueError; the old file is there then.

    A link stays a link: the file that it leads to is replaced. An existing file keeps its mode. What is not a regular file, such as
    /dev/stdout or a pipe, is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            write(stream)
        return
    mode = target.stat().st_mode & 0o7777 if target.exists() else _NEW_FILE_MODE & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        new = Path(name)
        new.chmod(mode)
        new.replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    """The permissions that new files do not get. The system has no other way to ask than to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
