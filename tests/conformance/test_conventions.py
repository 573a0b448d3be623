"""Conventions of the source that neither ruff nor pyright checks: see docs/CONTRIBUTING.md."""

from __future__ import annotations

import ast
import os
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "xlashape", ROOT / "server" / "xlashape_server", ROOT / "clients" / "python" / "xlashape_client"]
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
}
FOLDERS = sorted({path.parent for package in PACKAGES for path in package.rglob("*.py")})
MAX_LINES = 450
LANGUAGES = {".c", ".cc", ".go", ".h", ".java", ".js", ".py", ".rs", ".sh", ".ts"}
NOT_OURS = {"__pycache__", "build", "dist", "node_modules", "target"}
GENERATED = re.compile(r"^(//|#) ?(Code generated|@generated)", re.MULTILINE)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("folder", FOLDERS, ids=_name)
def test_a_package_names_its_files(folder: Path):
    """The docstring of a package says what each of its files is for."""
    docstring = ast.get_docstring(ast.parse(SOURCES[_name(folder / "__init__.py")])) or ""
    words = set(re.findall(r"\w+", docstring))
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    folders = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert sorted((files | folders) - words) == [], f"the docstring of {_name(folder)} does not name these"


# File → the reason for its length.
LONG_FILES = {
    "xlashape/hlo/module.py": "the three views refer to each other",
    "xlashape/shape/value/shape.py": "shapes and layouts can contain each other",
}


def _written_files() -> Iterator[Path]:
    """The files of the repository in a language of LANGUAGES, but for those in environments, in builds and in hidden folders."""
    for folder, below, names in os.walk(ROOT):
        if "pyvenv.cfg" in names:
            below.clear()
        below[:] = [each for each in below if each not in NOT_OURS and not each.startswith(".")]
        yield from (Path(folder, name) for name in names if Path(name).suffix in LANGUAGES)


def test_files_are_short():
    """In every folder: the packages, the clients of all languages, the tests, the scripts. What is generated may be long."""
    found = {_name(path): path.read_text(encoding="utf-8") for path in _written_files()}
    assert found.keys() >= SOURCES.keys()
    assert {name.partition("/")[0] for name in found} >= {"clients", "docs", "protos", "server", "tests", "xlashape"}
    long = {name for name, text in found.items() if text.count("\n") > MAX_LINES and not GENERATED.search(text)}
    assert sorted(long ^ LONG_FILES.keys()) == []


@pytest.mark.parametrize(
    "package", [ROOT / "xlashape" / name for name in ("hlo", "indexing", "shape", "symbolic")], ids=_name
)
def test_a_class_name_has_one_meaning(package: Path):
    """No two public classes of a package have the same name."""
    names: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update([node.name for node in tree.body if isinstance(node, ast.ClassDef)])
    assert {name: count for name, count in names.items() if count > 1} == {}


# Pattern → the files that may contain it, and the reason why other files may not.
MECHANISMS = {
    r"\b(lru_cache|functools\.cache\b|import cache\b)": (
        {"xlashape/caches.py"},
        "caches are declared with xlashape.caches",
    ),
    r"dataclass\(.*frozen=True": (
        {"server/xlashape_server/config.py"},  # the command line derives its options from the fields
        "frozen values derive from xlashape.frozen.FrozenValue or are NamedTuples",
    ),
    r"object\.__setattr__|def __setattr__": ({"xlashape/frozen.py"}, "frozen objects derive from xlashape.frozen"),
    r"\btuple\.__new__": (set(), "records are made by their constructor"),
}


@pytest.mark.parametrize("pattern", MECHANISMS)
def test_one_mechanism(pattern: str):
    allowed, reason = MECHANISMS[pattern]
    found = {name for name, source in SOURCES.items() if re.search(pattern, source)}
    assert sorted(found - allowed) == [], reason


def test_suppressions_give_their_reason():
    """A suppression gives its reason after the rule in brackets, or on the line above."""
    bare: list[str] = []
    for name, source in SOURCES.items():
        lines = source.splitlines()
        for number, line in enumerate(lines):
            suppression = re.search(r"#\s*(noqa: [A-Z]+\d+|pyright: ignore\[[^\]]*\]|type: ignore\[[^\]]*\])(.*)", line)
            if suppression and not suppression[2].strip(" #-–:,") and "#" not in lines[number - 1]:
                bare.append(f"{name}:{number + 1}")
    assert bare == []


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_benchmarks_name_what_exists(path: Path, monkeypatch):
    """Benchmarks are run by hand; that they can be imported shows that the names they use still exist."""
    monkeypatch.syspath_prepend(str(path.parent))
    runpy.run_path(str(path), run_name="benchmark")
