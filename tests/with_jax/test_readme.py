"""The section "From JAX" of the README, and the tutorial: they run with every version of JAX, and print what they show
with the newest."""

from __future__ import annotations

import doctest
from pathlib import Path

import pages
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

SHOWN = "0.12"
"""The version of JAX whose output the pages show. Others fuse otherwise, and name instructions otherwise."""


@pytest.mark.parametrize("page", pages.WITH_JAX)
def test_what_needs_jax(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    session = pages.python_session(pages.text_of(page, with_jax=True))
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    is_shown = jax.__version__.startswith(SHOWN)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.tries > 3
    found = "".join(report)
    assert "Exception raised" not in found and not (is_shown and found), found
