"""The page about a module, a shape, a map, …, as one file and in a notebook: `xs.open(x)`.

The page belongs to the server, whose answers it shows: an entry point of the group `xlashape.page` makes it. Here is
what needs no server: what the page is about (`subject_of`), and how its parts become one file (`PageFile.of`).
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import zlib
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast
from urllib.parse import urlencode

from xlashape.base.whole_file import replace_file
from xlashape.errors import InvalidArgumentError, NotFoundError, ParseError, UnavailableError, XlashapeError
from xlashape.hlo import HloComputation, HloInstruction, HloModule
from xlashape.hlo.files.convert import decompressed
from xlashape.recognition import recognize
from xlashape.reports.profile.sources import PLANES, files_of
from xlashape.shape import Layout, Shape
from xlashape.symbolic import IndexingMap


class PageFile:
    """The page about one thing, as the text of a file that carries its answers. A notebook shows it in a frame."""

    def __init__(self, html: str, title: str) -> None:
        self.html = html
        self.title = title

    @classmethod
    def of(cls, subject: PageSubject, records: bytes, folder: Path) -> PageFile:
        """The page about `subject`. `records` are the answers that it carries; `folder` has its code and its style."""
        script = re.sub(r"</(script)", r"<\\/\1", (folder / "page.js").read_text(encoding="utf-8"), flags=re.IGNORECASE)
        style = (folder / "page.css").read_text(encoding="utf-8")
        policy = (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}' 'unsafe-inline'; "
            "img-src blob: data:; worker-src blob:; "
            "base-uri 'none'; form-action 'none'"
        )
        # Without the content of the subject: the recorded answers replace it.
        fragment = subject._replace(state={**subject.state, "x": ""}).fragment
        return cls(
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta '
            f'http-equiv="Content-Security-Policy" content="{policy}">\n'
            f"<title>{html.escape(subject.title[:200])} – xlashape</title>\n"
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" '
            'content="light dark">\n'
            f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n'
            "<noscript>This page needs JavaScript.</noscript>\n"
            '<script type="application/octet-stream" id="xlashape-recorded" '
            f'data-state="#{html.escape(fragment, quote=True)}">'
            f"{base64.b64encode(records).decode()}</script>\n"
            f'<script type="module">{script}</script>\n</body>\n</html>\n',
            subject.title,
        )

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


class KeptModule(Protocol):
    """A module that a service keeps: `name` is that of the resource, `module_name` its own."""

    @property
    def name(self) -> str: ...

    @property
    def module_name(self) -> str: ...


class PageSubject(NamedTuple):
    """What the page is about."""

    title: str
    kind: str
    """`shape`, `map`, `module`, `report` or `profile`."""
    state: dict[str, str]
    """The names and values of the fragment (the part behind `#`) of the page's address that shows the subject."""
    data: bytes = b""
    """The content of a report or a profile, which no server keeps."""

    @property
    def fragment(self) -> str:
        """The state as the text of the fragment."""
        return urlencode({name: value for name, value in self.state.items() if value})

    @property
    def is_in_link(self) -> bool:
        """Whether the address alone shows the subject on a page with a server. A report or a profile, which no server
        keeps, must be in the address, and may be too long for it."""
        return not self.data or bool(self.state["x"])


Upload = Callable[[HloModule | bytes], KeptModule]
"""Has a module kept under a name."""


def subject_of(x: Any, upload: Upload) -> PageSubject:
    """The subject that the page shows for `x`. A module is given to `upload`, which keeps it under a name. If `x` is
    nothing that the page can show, raises the error of the kind that `x` resembles most."""
    if isinstance(x, os.PathLike) or (isinstance(x, str) and (_is_file(x) or _is_path(x))):
        path = os.fspath(cast("str | os.PathLike[str]", x))
        x = _content_of(path)
        if isinstance(x, bytes):
            try:
                return _of_content(x, upload)
            except ParseError as error:
                error.name = error.name or path
                raise
    if isinstance(x, str):
        x = x.encode(errors="replace")
    if isinstance(x, (bytes, bytearray)):
        return _of_content(bytes(x), upload)
    if isinstance(x, IndexingMap):
        return _of_map(str(x))
    if isinstance(x, Layout):
        return _of_content(str(x).encode(), upload)
    if isinstance(x, HloInstruction):
        found = _of_module(HloModule.of(x.computation.module), upload)
        state = {**found.state, "v": "element", "c": x.computation.name, "i": x.name}
        return found._replace(title=f"{x.name} in {found.title}", state=state)
    if isinstance(x, HloComputation):
        found = _of_module(HloModule.of(x.module), upload)
        return found._replace(title=f"{x.name} in {found.title}", state={**found.state, "v": "graph", "c": x.name})
    if isinstance(x, HloModule):
        return _of_module(x, upload)
    try:
        return _of_shape(str(x if isinstance(x, Shape) else Shape.of(x)))
    except XlashapeError:
        return _of_module(HloModule.of(x), upload)


def _of_shape(text: str) -> PageSubject:
    return PageSubject(text, "shape", {"v": "shape", "s": text})


def _of_map(text: str) -> PageSubject:
    return PageSubject(text, "map", {"v": "map", "p": text})


def _of_module(module: HloModule | bytes, upload: Upload) -> PageSubject:
    kept = upload(module)
    return PageSubject(kept.module_name, "module", {"v": "summary", "m": kept.name.removeprefix("modules/")})


def _of_content(data: bytes, upload: Upload) -> PageSubject:
    """The subject of the content of a file."""
    data = decompressed(data)
    found = recognize(data)
    if found.kind in ("shape", "layout"):
        return _of_shape(found.text)
    if found.kind == "map":
        return _of_map(found.text)
    if found.kind in ("module", "instruction"):
        module = _of_module(found.text.encode() if found.text else data, upload)
        return (
            module._replace(state={**module.state, "v": "element", "i": found.instruction})
            if found.instruction
            else module
        )
    state = {
        "v": "profile" if found.kind == "profile" else "why",
        "r": hashlib.sha256(data).hexdigest()[:16],
        "x": _deflated(data),
    }
    return PageSubject(found.summary, found.kind, state, data)


def _content_of(path: str) -> bytes | HloModule:
    """The content of a file; of a directory, that of the profile in it. Serialized profiles of several hosts, joined,
    are one."""
    try:
        found = files_of(path) if Path(path).is_dir() else [Path(path)]
        parts = [decompressed(each.read_bytes()) if len(found) > 1 else each.read_bytes() for each in found]
        return b"".join(parts if found[0].name.endswith(PLANES) else parts[:1])
    except FileNotFoundError:  # FILE#MODULE; or a mistake, of which this says what file was perhaps meant
        return HloModule.load(path)
    except OSError as error:
        raise NotFoundError(f"cannot read {path!r}: {error.strerror}", kind="file", name=path) from None


def _is_path(text: str) -> bool:
    """Whether text that names no existing file was probably meant as a path: it has a dot or slash, and none of the
    characters of a shape, a map or HLO."""
    return ("." in text or "/" in text) and not any(mark in text for mark in "[({=>\n ")


def _is_file(text: str) -> bool:
    try:
        return "\n" not in text and bool(text) and Path(text.split("#", 1)[0]).is_file()
    except (OSError, ValueError):
        return False


def _deflated(data: bytes) -> str:
    """The data, deflated and in base64, as the address of the page has it; empty if that would be too long."""
    packer = zlib.compressobj(9, wbits=-15)
    text = base64.urlsafe_b64encode(packer.compress(data) + packer.flush()).decode().rstrip("=")
    return text if len(text) <= 30_000 else ""


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
