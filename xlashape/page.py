"""The page about a module, a shape, a map, …, as one file and in a notebook: `xs.open(x)`.

The page belongs to the server, whose answers it shows: an entry point of the group `xlashape.page` makes it.
"""

from __future__ import annotations

import html
import os
from importlib.metadata import entry_points
from typing import Any, BinaryIO

from xlashape.base.whole_file import replace_file
from xlashape.errors import InvalidArgumentError, UnavailableError


class PageFile:
    """The page about one thing, as the text of a file that carries its answers. A notebook shows it in a frame."""

    def __init__(self, html: str, title: str) -> None:
        self.html = html
        self.title = title

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file. InvalidArgumentError for a path that cannot be written."""

        def write(file: BinaryIO) -> None:
            file.write(self.html.encode())

        try:
            replace_file(path, write)
        except OSError as error:
            raise InvalidArgumentError(
                f"cannot write {os.fspath(path)!r}: {error.strerror or error}", field="path"
            ) from error

    def _repr_html_(self) -> str:
        frame = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{frame}" title="{html.escape(self.title, quote=True)}" sandbox="allow-scripts '
            'allow-downloads allow-popups" '
            'style="width:100%;height:720px;border:1px solid #8884;border-radius:6px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<PageFile of {self.title}: {len(self.html):,} bytes; .save(path) writes it, a notebook shows it>"


def open(x: Any) -> PageFile:  # noqa: A001 - as xs.open(x)
    """The page about `x`, to look at in a notebook, or to save as a file that works by a double click.

    `x` is what `xlashape.why` and `xlashape.draw` take: a shape, a map, a module, an instruction, text, the path of a
    file, a Compiled of JAX. A module comes with its instructions, text, graph and reports.

    Raises UnavailableError where `xlashape_server` is not installed.

    >>> page = open("f32[3,5]{1,0:T(2,2)}")
    >>> page.title, page.html.startswith("<!doctype html>")
    ('f32[3,5]{1,0:T(2,2)}', True)
    """
    for made in entry_points(group="xlashape.page"):
        return made.load()(x)
    raise UnavailableError("no page is installed: it comes with xlashape_server")
