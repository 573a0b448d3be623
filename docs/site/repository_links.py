"""Links of a page to files that are not pages of the site lead to the repository; a link to a file that does not
exist is a warning.

The pages are read in the repository too, where `../protos/xlashape/v1` is a link like any other. On the site there is
no such page.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LOG = logging.getLogger("mkdocs.hooks.repository_links")


def repository_link(link: str, page: str, repository: str) -> str | None:
    """The address in the repository of a relative link on a page of docs/; None if the link stays inside of docs/.

    >>> repository_link("../protos/xlashape/v1", "clients.md", "https://example.org/xlashape")
    'https://example.org/xlashape/tree/main/protos/xlashape/v1'
    >>> repository_link("../why.md", "how-to/worst-read.md", "https://example.org/xlashape") is None
    True
    """
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if target.split("/")[0] == "docs":
        return None
    if not (ROOT / target).exists():
        _LOG.warning("%s links to %s, which is not in the repository", page, target)
    kind = "blob" if (ROOT / target).is_file() else "tree"
    return f"{repository.rstrip('/')}/{kind}/main/{target}"


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""

    def replaced(match: re.Match[str]) -> str:
        return repository_link(match[0], page.file.src_uri, config.repo_url) or match[0]

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(replaced, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(replaced, markdown[end:])])
