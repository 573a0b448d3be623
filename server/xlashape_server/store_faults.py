"""Converts errors of the file system to errors of the library, by what the caller can do: wait, upload elsewhere, or ask an administrator.

    EMFILE, ENFILE           LimitExceededError "open_files"     too many calls at the same time; try again later
    ENOSPC, EDQUOT, EFBIG    LimitExceededError "store_space"    the disk is full; stored modules can still be read
    EROFS, EACCES, EPERM     UnavailableError                    the store is read-only
    ENOENT, ENOTDIR          UnavailableError                    the directory is gone
    any other                UnavailableError                    such as EIO and ESTALE

>>> fault(OSError(28, "No space left on device"))
LimitExceededError('the store has no space left: No space left on device')
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from xlashape.errors import LimitExceededError, UnavailableError, XlashapeError

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_GONE = (errno.ENOENT, errno.ENOTDIR)


def fault(error: OSError) -> XlashapeError:
    """The error of the library for an error of the file system."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in _NO_DESCRIPTORS:
        return LimitExceededError(f"the server can open no more files now: {reason}", limit="open_files")
    if error.errno in _NO_SPACE:
        return LimitExceededError(f"the store has no space left: {reason}", limit="store_space")
    if error.errno in _READ_ONLY:
        return UnavailableError(f"the store cannot be written: {reason}")
    if error.errno in _GONE:
        return UnavailableError("the store's directory is gone")
    return UnavailableError(f"the store cannot be used: {reason}")


@contextmanager
def faults() -> Generator[None]:
    """Errors of the file system within the block become errors of the library."""
    try:
        yield
    except OSError as error:
        if isinstance(error, XlashapeError):
            raise  # a DeadlineExceededError is a TimeoutError, which is an OSError
        raise fault(error) from error
