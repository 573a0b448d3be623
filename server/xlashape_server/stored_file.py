"""Files that processes share, and what goes wrong with them.

Converts errors of the file system to errors of the library, by what the caller can do: wait, upload elsewhere, or ask
an administrator.

    EMFILE, ENFILE           LimitExceededError "open_files"     too many calls at the same time; try again later
    ENOSPC, EDQUOT, EFBIG    LimitExceededError "store_space"    the disk is full; stored modules can still be read
    EROFS, EACCES, EPERM     UnavailableError                    the store is read-only
    ENOENT, ENOTDIR          UnavailableError                    the directory is gone
    any other                UnavailableError                    such as EIO and ESTALE

>>> fault(OSError(28, "No space left on device"))
LimitExceededError('the store has no space left: No space left on device')

The file of a module in a store: its content, then facts about it, then a footer. All of it is checked when it is read.

    content       the module as it was uploaded
    facts         JSON: {"facts": {…}, "created": seconds since 1970, "blocks": the BLAKE2b of each MiB of the content, in hexadecimal}
    footer        the size of the facts, their SHA-256, and the version of this format

A part of the content is checked by the digests of its blocks, the whole content by the SHA-256 that is the name of the
module.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, NamedTuple

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


# -- files -------------------------------------------------------------------------------------


BLOCK_BYTES = 1 << 20

_FOOTER = struct.Struct("<I32s12s")
_MARK = b"xlashape.v2\n"


def module_name(sha256: str) -> str:
    """The resource name of a digest."""
    return f"modules/{sha256}"


class Stored(NamedTuple):
    """A module in the store. Times are seconds since 1970; `used` is that of the last use."""

    sha256: str
    size_bytes: int
    facts: dict[str, str | int]
    created: float
    used: float

    @property
    def name(self) -> str:
        """The resource name."""
        return module_name(self.sha256)


class DamagedError(Exception):
    """The file of a module is damaged. The text says how."""


class Blocks:
    """Computes the digests of the blocks of content that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._block = _digest()
        self._filled = 0

    def write(self, data: bytes) -> None:
        """Adds the next bytes."""
        view = memoryview(data)
        while view:
            taken = view[: BLOCK_BYTES - self._filled]
            self._block.update(taken)
            self._filled += len(taken)
            view = view[len(taken) :]
            if self._filled == BLOCK_BYTES:
                self._digests.append(self._block.hexdigest())
                self._block, self._filled = _digest(), 0

    def digests(self) -> list[str]:
        """The digests of all blocks; the last block may be shorter."""
        return [*self._digests, self._block.hexdigest()] if self._filled else list(self._digests)


def ending(facts: dict[str, str | int], created: float, blocks: list[str]) -> bytes:
    """The facts and the footer, which follow the content in a file."""
    encoded = json.dumps({"facts": facts, "created": created, "blocks": blocks}).encode()
    return encoded + _FOOTER.pack(len(encoded), hashlib.sha256(encoded).digest(), _MARK)


class ModuleFile(NamedTuple):
    """The facts of a file, and where its content lies."""

    size_bytes: int
    facts: dict[str, str | int]
    created: float
    used: float
    blocks: list[str]

    def content(self, file: IO[bytes], sha256: str, offset: int = 0, limit: int | None = None) -> bytes:
        """The content from `offset` on, at most `limit` bytes. DamagedError if the content is damaged."""
        offset = min(offset, self.size_bytes)
        end = self.size_bytes if limit is None else min(self.size_bytes, offset + limit)
        if (offset, end) == (0, self.size_bytes):
            file.seek(0)
            content = file.read(self.size_bytes)
            if hashlib.sha256(content).hexdigest() != sha256:
                raise DamagedError("the content does not have the digest that is its name")
            return content
        first = offset // BLOCK_BYTES
        file.seek(first * BLOCK_BYTES)
        parts: list[bytes] = []
        for number in range(first, -(-end // BLOCK_BYTES)):
            block = file.read(min(BLOCK_BYTES, self.size_bytes - number * BLOCK_BYTES))
            if number >= len(self.blocks) or _digest(block).hexdigest() != self.blocks[number]:
                raise DamagedError(f"the content does not have the digest of its block {number}")
            parts.append(block)
        start = offset - first * BLOCK_BYTES
        return b"".join(parts)[start : start + end - offset]


def check_whole(file: IO[bytes], about: ModuleFile, sha256: str) -> None:
    """Reads all of the content. DamagedError if it does not have the digest that is its name."""
    digest = hashlib.sha256()
    file.seek(0)
    left = about.size_bytes
    while left:
        data = file.read(min(left, BLOCK_BYTES))
        if not data:
            break
        digest.update(data)
        left -= len(data)
    if digest.hexdigest() != sha256:
        raise DamagedError("the content does not have the digest that is its name")


def read_file(file: IO[bytes]) -> ModuleFile:
    """Reads the facts of an opened file. DamagedError if they are damaged."""
    status = os.fstat(file.fileno())
    if status.st_size < _FOOTER.size:
        raise DamagedError(f"it has {status.st_size} bytes, fewer than any file of a module")
    file.seek(status.st_size - _FOOTER.size)
    facts_size, digest, mark = _FOOTER.unpack(file.read(_FOOTER.size))
    size = status.st_size - _FOOTER.size - facts_size
    if mark != _MARK or size < 0:
        raise DamagedError("it does not end as the file of a module does")
    file.seek(size)
    encoded = file.read(facts_size)
    if hashlib.sha256(encoded).digest() != digest:
        raise DamagedError("the facts about the module do not have their digest")
    about = json.loads(encoded)
    return ModuleFile(size, about["facts"], float(about["created"]), status.st_mtime, about["blocks"])


def _digest(data: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(data, digest_size=16)
