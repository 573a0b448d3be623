"""Serves the server's web page, which shows layouts, maps and modules in a browser. It consists of static files.

The files are in `server/xlashape_server/page/`; they are built from `server/page/`. They are read once, when the worker
starts, and found by their names alone, so no path of a request becomes a path of this machine. Everybody may read the
files. For what it shows, the page calls the RPCs, with the credentials that these need.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xlashape_server.web.forms import Headers, accepts_gzip

FOLDER: Final = Path(__file__).resolve().parents[1] / "page"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".json": b"application/json",
    ".svg": b"image/svg+xml",
    ".pb": b"application/octet-stream",
    ".gz": b"application/gzip",
}
_POLICY: Final = (
    "default-src 'self'; img-src 'self' blob: data:; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    # The browser asks each time, and gets 304 if nothing has changed: so it shows the page of a new server at once.
    (b"cache-control", b"no-cache"),
    (b"vary", b"Accept-Encoding"),
)


class _File(NamedTuple):
    content: bytes
    packed: bytes
    """The content compressed with gzip."""
    kind: bytes
    tag: str


class Page:
    """The files of the page, which are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, _File] = {}
        for each in folder.iterdir() if folder.is_dir() else ():
            kind = _TYPES.get(each.suffix)
            if kind is not None:
                content = each.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                self._files[f"/{each.name}"] = _File(content, gzip.compress(content, mtime=0), kind, tag)
        if "/index.html" in self._files:
            self._files["/"] = self._files["/index.html"]

    def answer(self, verb: str, path: str, headers: Mapping[str, str]) -> tuple[int, Headers, bytes] | None:
        """Status, headers and content for a request; None for a path that is none of the page's. The answer to HEAD is
        that to GET: the server does not send the content.
        """
        file = self._files.get(path)
        if file is None:
            return None
        if verb not in ("GET", "HEAD"):
            return 405, [(b"allow", b"GET, HEAD"), *_HEADERS], b""
        tagged: Headers = [(b"etag", file.tag.encode()), *_HEADERS]
        known = [each.strip().removeprefix("W/") for each in headers.get("if-none-match", "").split(",")]
        if file.tag in known or "*" in known:
            return 304, tagged, b""
        typed = [(b"content-type", file.kind), *tagged]
        if accepts_gzip(headers.get("accept-encoding", "")):
            return 200, [(b"content-encoding", b"gzip"), *typed], file.packed
        return 200, typed, file.content
