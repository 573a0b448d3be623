"""docs/clients.md says what each client has, and the clients have it; all tell the version of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xlashape

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "Python": ["clients/python/xlashape_client/**/*.py", "xlashape/errors.py", "xlashape/symbolic/map/*.py"],
    "Go": ["clients/go/*.go"],
    "Rust": ["clients/rust/src/*.rs"],
    "Java": ["clients/java/client/src/main/**/*.java"],
    "C++": ["clients/cpp/include/**/*.h"],
    "TypeScript": ["clients/typescript/src/*.ts"],
}
VERSIONS = {
    "clients/go/client.go": r'const Version = "(.+)"',
    "clients/rust/Cargo.toml": r'(?m)^version = "(.+)"',
    "clients/java/pom.xml": r"<version>(.+)</version>",
    "clients/java/client/src/main/java/io/github/xlashape/XlashapeClient.java": r'VERSION = "(.+)"',
    "clients/cpp/CMakeLists.txt": r"VERSION (\d+\.\d+\.\d+)",
    "clients/typescript/package.json": r'"version": "(.+)"',
    "clients/typescript/src/options.ts": r'VERSION = "(.+)"',
}


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "clients.md").read_text()
    table = text.partition("## What each has\n")[2].strip().partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "---" not in line]


@pytest.mark.parametrize("language", SOURCES)
def test_a_client_has_what_the_table_says(language: str) -> None:
    header, *others = rows()
    column = header.index(language)
    code = "\n".join(path.read_text() for pattern in SOURCES[language] for path in ROOT.glob(pattern))
    assert len(others) > 15
    for row in others:
        for name in re.findall("`([^`]+)`", row[column]):
            word = re.escape(name.rstrip(":"))
            assert re.search(rf"\b{word}\b", code), f"{row[0]}: {name}"


@pytest.mark.parametrize("path", VERSIONS)
def test_the_clients_have_the_version_of_the_project(path: str) -> None:
    found = re.search(VERSIONS[path], (ROOT / path).read_text())
    assert found is not None
    assert found[1] == xlashape.__version__
