"""The paths and names in the documents exist."""

from __future__ import annotations

import re

import pytest
from pages import PAGES, ROOT

_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"\.?[\w*-]+(/[\w.*-]+)*(/|\.(py|md|toml|proto|jsonl|hlo))|\.ci/run|(tests|xlashape|protos)/[\w/]+")
_LINK = re.compile(r"\]\(([^)#:]+)\)")


MADE_AT_RUN_TIME = {"build/site"}
"""Folders that a server makes, or a build of the documentation."""


def _exists(path: str) -> bool:
    """Whether a path exists below the root, or a single name in any folder."""
    if any(ROOT.glob(path)):
        return True
    folders = [ROOT / name for name in ("xlashape", "server", "clients", "tests", "docs")]
    if path in MADE_AT_RUN_TIME:
        return True
    return "/" not in path and any(any(folder.rglob(path)) for folder in folders)


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str):
    codes = set(_CODE.findall((ROOT / page).read_text(encoding="utf-8")))
    paths = [code.rstrip("/") for code in codes if _PATH.fullmatch(code)]
    assert sorted([path for path in paths if not _exists(path)]) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [link for link in _LINK.findall(text) if not ((ROOT / page).parent / link).exists()] == []
