"""What the README and the pages of docs show is what comes back: every Python session and every shell session in them is run."""

import builtins
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from xlashape import errors

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = _BLOCK.findall(README)


def console_sessions():
    """(command, what it printed) for every `$ xlashape …` of the console blocks."""
    for kind, text in BLOCKS:
        if kind != "console":
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield pytest.param(command, printed, id=command[:60])


def test_there_are_sessions_of_both_kinds():
    assert len(list(console_sessions())) >= 4
    assert any(kind == "pycon" for kind, _ in BLOCKS)


@pytest.mark.parametrize(
    ("page", "tries"), [("README.md", 20), ("docs/hlo.md", 20), ("docs/indexing.md", 20), ("docs/why.md", 15)]
)
def test_the_python_session(page, tries, tmp_path, monkeypatch):
    text = (ROOT / page).read_text(encoding="utf-8")
    # JAX need not be installed: tests/with_jax runs that section.
    text = re.sub(r"^## From JAX\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    session = "\n".join(block for kind, block in _BLOCK.findall(text) if kind == "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert not runner.run(test, out=report.append).failed, "".join(report)
    assert runner.tries > tries


@pytest.mark.parametrize(("command", "printed"), list(console_sessions()))
def test_shell_sessions(command, printed, tmp_path):
    # The folder that the README's paths start from, without the sources themselves.
    (tmp_path / "xlashape").mkdir()
    (tmp_path / "xlashape" / "data").symlink_to(ROOT / "xlashape" / "data")
    words = shlex.split(command)
    assert words[0] == "xlashape"
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", *words[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
        check=False,
    )
    found = "\n".join(line.rstrip() for line in (result.stdout + result.stderr).splitlines()) + "\n"
    expected = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    # Ports are chosen afresh at each run; `...` in the README stands for what it leaves out.
    pattern = re.escape(expected).replace(re.escape("..."), ".*?")
    pattern = re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"127\\.0\\.0\\.1:\\d+", pattern)
    assert re.fullmatch(pattern, found, re.DOTALL), f"README shows:\n{expected}\nbut this came back:\n{found}"


def test_every_error_of_the_library_that_the_readme_names_exists():
    for name in set(re.findall(r"\b\w+Error\b", README)):
        assert hasattr(errors, name) or hasattr(builtins, name), name
