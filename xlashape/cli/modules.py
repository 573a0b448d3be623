"""The modules that arguments of commands name: a file, `-` for standard input, or a name `modules/…` of a module that a
server keeps."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xlashape.cli.connection import ServerAddress, connected
from xlashape.cli.output import progress
from xlashape.errors import DecodeError, InvalidArgumentError, InvalidModuleError, NotFoundError, ParseError

if TYPE_CHECKING:
    from xlashape.hlo import HloModule


_STORED: Final = re.compile(r"modules/[0-9a-f]{64}")


def loaded(file: str, server: ServerAddress | None, timeout: float) -> HloModule:
    """A module for a command that answers in this process: from standard input for `-`, from the server for
    `modules/…`, else from the file.
    """
    # Deferred: the reader takes longer to load than the command line.
    from xlashape.hlo import HloModule
    from xlashape.hlo.files.convert import read

    if file.startswith("modules/"):
        content = downloaded(file, server, timeout)
        progress("reading the module")
        return HloModule.from_bytes(content, name=file)
    progress("reading the module")
    with naming(file):
        return HloModule.of_document(
            read(file, progress=lambda done, total: progress("reading" if done != total else "parsing", done, total))
        )


def downloaded(name: str, server: ServerAddress | None, timeout: float) -> bytes:
    """The content of a module that the server keeps. NotFoundError without a server."""
    progress("fetching the module")
    if server is not None:
        with connected(server, timeout) as service:
            return service.download_module(name)
    if not _STORED.fullmatch(name):
        expected = "modules/ and 64 digits of lower-case hexadecimal"
        shown = name if len(name) <= 80 else name[:80] + "…"
        raise InvalidArgumentError(f"expected {expected}, found {shown!r}", field="name")
    raise NotFoundError(f"{name} is kept by a server: say which with --server", kind="module", name=name, field="name")


@contextmanager
def naming(file: str) -> Generator[None, None, None]:
    """Adds the name of the file to an error about its content: the service knows only the content."""
    try:
        yield
    except DecodeError as error:
        from xlashape.hlo.files.convert import no_module  # deferred, as above

        raise no_module(error, "<stdin>" if file == "-" else file) from None
    except ParseError as error:
        if error.name is None and error.path[:1] == ("module",):
            error.name = "<stdin>" if file == "-" else file
        raise
    except InvalidModuleError as error:
        name = "<stdin>" if file == "-" else file
        raise InvalidModuleError(f"{name}: {error.message}", field=error.path) from None


def is_module(what: str) -> bool:
    """Whether `what` names a module: `-`, `modules/…`, FILE#NAME, a file or a directory. Other text without the
    brackets of a shape is taken for the path of a file that does not exist, and names one too.
    """
    if what == "-" or what.startswith("modules/"):
        return True
    try:
        if what and ("#" in what or Path(what).is_dir()):  # a module of a profile, or a directory of modules
            return True
        return bool(what) and (Path(what).is_file() or not any(bracket in what for bracket in "[("))
    except (OSError, ValueError):  # the text is too long for a file name, or has a NUL
        return False
