"""The README and the pages of docs show the real output: every Python session and every shell session in them is
run."""

from __future__ import annotations

import builtins
import doctest
import os
import re
import shlex
import subprocess
import sys

import examples
import pages
import pytest

from xlashape import errors
from xlashape.base.extras import require
from xlashape_server import Config, Server

WITH_PYTHON = [page for page in pages.PAGES if pages.python_session(pages.text_of(page))]
SESSIONS = [
    pytest.param(page, command, printed, id=f"{page}: {command[:60]}")
    for page in pages.PAGES
    for command, printed in pages.console_sessions(page)
]

NEEDED = {"demo": "server", "scan": "scan"}
"""The extras of commands that cannot do the same without."""


def test_there_are_sessions_of_both_kinds() -> None:
    assert {"README.md", "docs/hlo.md", "docs/indexing.md", "docs/layouts.md", "docs/maps.md", "docs/why.md"} <= {
        *WITH_PYTHON
    }
    assert sum(1 for _ in pages.console_sessions("README.md")) >= 4
    assert sum(1 for _ in pages.console_sessions("docs/tutorial/shell.md")) >= 10


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_session(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    session = pages.python_session(pages.text_of(page))
    (tmp_path / "attention.hlo.pb").symlink_to(pages.ROOT / "xlashape" / "data" / "attention.hlo.pb")
    if "localhost:50051" in session:  # the server that the page has told to start
        server = Server(Config(address="127.0.0.1:0", workers=1, log_level="error")).start()
        request.addfinalizer(server.stop)
        session = session.replace("localhost:50051", server.address)
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    report: list[str] = []
    runner = examples.Runner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert not runner.run(test, out=report.append).failed, "".join(report)
    assert runner.tries == session.count("\n>>> ") + session.startswith(">>> ")


@pytest.mark.parametrize(("page", "command", "printed"), SESSIONS)
def test_shell_sessions(page, command, printed, tmp_path):
    extra = NEEDED.get(shlex.split(command)[1])
    if extra is not None:
        require(extra, f"`{command}`")
    # The folder that the pages' paths start from, without the sources themselves.
    (tmp_path / "xlashape").mkdir()
    (tmp_path / "xlashape" / "data").symlink_to(pages.ROOT / "xlashape" / "data")
    result = subprocess.run(
        [sys.executable, "-m", "xlashape", *shlex.split(command)[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
        check=False,
    )
    found = "\n".join(line.rstrip() for line in (result.stdout + result.stderr).splitlines()) + "\n"
    expected = "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"
    # Ports are chosen afresh at each run; `...` on a page stands for what it leaves out.
    pattern = re.escape(expected).replace(re.escape("..."), ".*?")
    pattern = re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"127\\.0\\.0\\.1:\\d+", pattern)
    assert re.fullmatch(pattern, found, re.DOTALL), f"{page} shows:\n{expected}\nbut this came back:\n{found}"


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_error_of_the_library_that_a_page_names_exists(page):
    for name in set(re.findall(r"`(?:[\w.]+\.)?(\w+Error)`", (pages.ROOT / page).read_text(encoding="utf-8"))):
        assert hasattr(errors, name) or hasattr(builtins, name), name
