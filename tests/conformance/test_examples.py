"""Every example in the docstrings of the three packages is run, and every page of the documents that has sessions is
tested."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import examples
import pages
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "xlashape": ROOT / "xlashape",
    "xlashape_server": ROOT / "server" / "xlashape_server",
    "xlashape_client": ROOT / "clients" / "python" / "xlashape_client",
}
_PROMPT = re.compile(r"^[ \t]*>>> ", re.MULTILINE)
_PROMPT_ANYWHERE = re.compile(r"^[ \t#\"']*>>> ", re.MULTILINE)


def _module_name(package: str, path: Path) -> str:
    parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
    return ".".join([package, *[part for part in parts if part != "__init__"]])


SOURCES = {
    _module_name(package, path): path.read_text(encoding="utf-8")
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
    if "_pb2" not in path.name  # what protoc generates
}


def prompts_in_docstrings(source: str) -> int:
    """The number of examples in the docstrings of a file's module, classes and functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return sum([len(_PROMPT.findall(text)) for text in texts])


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packages_are_found():
    assert len(SOURCES) > 150
    assert all(any(name.split(".")[0] == package for name in SOURCES) for package in PACKAGES)


# Their examples ask a client, and are run by tests/unit/client/test_faces.py on the blocking client and on the one for
# asyncio.
ON_CLIENTS = [name for name in SOURCES if name.startswith("xlashape_client.methods.")]


@pytest.mark.parametrize(
    "name", [name for name, source in SOURCES.items() if _PROMPT_ANYWHERE.search(source) and name not in ON_CLIENTS]
)
def test_the_examples_of_a_module(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All examples pass, and doctest finds as many as the source has, so that none is in a place that doctest
    ignores."""
    source = SOURCES[name]
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)
    runner = examples.Runner()
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    assert runner.tries == prompts_in_docstrings(source), "doctest does not find every docstring that has an example"
    assert runner.tries == len(_PROMPT_ANYWHERE.findall(source)), "an example stands outside of the docstrings"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.py")), ids=lambda path: path.name)
def test_the_examples_of_scripts_in_docs(path: Path):
    for script, needed in (
        ("client_methods.py", "griffe"),
        ("doctest_blocks.py", "griffe"),
        ("run_notebooks.py", "nbclient"),
        ("short_properties.py", "griffe"),
    ):
        if path.name == script:
            pytest.importorskip(needed, reason="the extra `docs` is not installed")
    report: list[str] = []
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(_loaded(path), path.stem):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    assert runner.tries == prompts_in_docstrings(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", pages.PAGES)
def test_every_session_of_a_page_is_in_a_block_that_is_run(page: str):
    """test_readme.py runs the blocks of the kind pycon, tests/with_jax those that need JAX, and readmes.py those that
    need packages of their own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = [pages.text_of(page), pages.text_of(page, with_jax=True), pages.text_with_its_packages(page)]
    run = [pages.python_session(part) for part in parts]
    assert sum([len(_PROMPT.findall(session)) for session in run]) == len(_PROMPT.findall(text))
    assert text.count("\n$ xlashape ") == len(list(pages.console_sessions(page)))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_packages_are_typed(package: str):
    assert (PACKAGES[package] / "py.typed").exists()
