"""The pages whose sessions tests run: the README, that of the Python client, and the pages of docs/."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "PAGES",
    "ROOT",
    "WITH_JAX",
    "blocks",
    "console_sessions",
    "python_session",
    "text_of",
    "text_with_its_packages",
]

ROOT = Path(__file__).resolve().parents[2]
_OTHERS = [ROOT / "README.md", ROOT / "clients" / "python" / "README.md"]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*_OTHERS, *(ROOT / "docs").rglob("*.md")] if path.is_file()
)
WITH_JAX = {
    "README.md": re.compile(r"^## From JAX\n.*?(?=^## )", re.MULTILINE | re.DOTALL),
    "docs/tutorial/jax.md": None,
    "docs/how-to/where-the-time-goes.md": None,
}
"""Page → the section that needs JAX, or None if the whole page does. tests/with_jax runs these."""

_RUN_WITH_ITS_PACKAGES = {
    "clients/python/README.md": re.compile(r"^## Traces\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
}
"""Sections whose packages the tests do not install: `tests/conformance/readmes.py` installs and runs them."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str, *, with_jax: bool = False) -> str:
    """The parts of a page that need JAX, or with `with_jax=False` those that do not."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page in _RUN_WITH_ITS_PACKAGES:
        text = _RUN_WITH_ITS_PACKAGES[page].sub("", text)
    if page not in WITH_JAX:
        return "" if with_jax else text
    section = WITH_JAX[page]
    if section is None:
        return text if with_jax else ""
    found = section.search(text)
    assert found is not None, f"{page} has no section that needs JAX"
    return found[0] if with_jax else text.replace(found[0], "")


def text_with_its_packages(page: str) -> str:
    """The sections of a page whose packages the tests do not install."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "".join(_RUN_WITH_ITS_PACKAGES[page].findall(text)) if page in _RUN_WITH_ITS_PACKAGES else ""


def blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of the code blocks of a text."""
    return _BLOCK.findall(text)


def python_session(text: str) -> str:
    """All Python sessions of a page as one, since they run one after the other. Empty lines of output are marked with
    `<BLANKLINE>`, as doctest needs it.
    """
    sessions = [content for kind, content in blocks(text) if kind == "pycon"]
    return "\n".join([re.sub(r"(?<=\n)\n(?!\n*(?:>>> |\Z))", "<BLANKLINE>\n", session) for session in sessions])


def console_sessions(page: str) -> Iterator[tuple[str, str]]:
    """(command, what it printed) for every `$ xlashape …` of a page."""
    for kind, content in blocks(text_of(page)):
        if kind != "console":
            continue
        for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            assert shlex.split(command)[0] == "xlashape", f"{page}: {command}"
            yield command, printed
