"""The section "From JAX" of the README: it runs with every version of JAX, and prints what it shows with the newest."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

README = Path(__file__).resolve().parents[2] / "README.md"
SHOWN = "0.12"
"""The version of JAX whose output the README shows. Others fuse otherwise, and name instructions otherwise."""


def test_the_section_from_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    section = re.search(r"^## From JAX\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    session = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    is_shown = jax.__version__.startswith(SHOWN)
    report: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=report.append)
    assert runner.tries > 8
    found = "".join(report)
    assert "Exception raised" not in found and not (is_shown and found), found
    assert (tmp_path / "layer.hlo").exists()
