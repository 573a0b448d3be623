"""docs/clients.md says what each client has, and the clients have it; all have the same defaults, and tell the version
of the project.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import xlashape
from client_methods.emitter import camel
from client_methods.options import SETTINGS, Number, Option, Time, with_table
from xlashape.proto import services
from xlashape_client import AsyncClient, Client

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "Python": ["clients/python/xlashape_client/**/*.py", "xlashape/errors.py", "xlashape/symbolic/map/*.py"],
    "Go": ["clients/go/*.go"],
    "Rust": ["clients/rust/src/*.rs"],
    "Java": ["clients/java/client/src/main/**/*.java"],
    "C++": ["clients/cpp/include/**/*.h"],
    "TypeScript": ["clients/typescript/src/*.ts"],
}
READ = {
    "go": ("clients/go/*.go", r"\bo\.{}\b"),
    "rust": ("clients/rust/src/*.rs", r"settings\.{}\b"),
    "java": ("clients/java/client/src/main/**/*.java", r"settings\.{}\(\)"),
    "cpp": ("clients/cpp/src/*.cc", r"options\.{}\b"),
    "typescript": ("clients/typescript/src/*.ts", r"settings\.{}\b"),
}
"""Language → the files that read the options that are times and numbers, and how."""
VERSIONS = {
    "clients/go/client.go": r'const Version = "(.+)"',
    "clients/rust/Cargo.toml": r'(?m)^version = "(.+)"',
    "clients/java/pom.xml": r"<version>(.+)</version>",
    "clients/java/client/src/main/java/io/github/xlashape/XlashapeClient.java": r'VERSION = "(.+)"',
    "clients/cpp/CMakeLists.txt": r"VERSION (\d+\.\d+\.\d+)",
    "clients/typescript/package.json": r'"version": "(.+)"',
    "clients/typescript/src/options.ts": r'VERSION = "(.+)"',
}


NAMES = [option.name for option, _ in SETTINGS]


def rows(heading: str) -> list[list[str]]:
    text = (ROOT / "docs" / "clients.md").read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("language", SOURCES)
@pytest.mark.parametrize("heading", ["Options", "What each has"])
def test_a_client_has_what_the_table_says(heading: str, language: str) -> None:
    header, *others = rows(heading)
    column = header.index(language)
    code = "\n".join(path.read_text() for pattern in SOURCES[language] for path in ROOT.glob(pattern))
    assert len(others) >= 10
    for row in others:
        for name in re.findall("`([^`]+)`", row[column]):
            word = re.escape(name.rstrip(":"))
            assert re.search(rf"\b{word}\b", code), f"{row[0]}: {name}"


def test_the_table_of_options_is_that_of_their_rows() -> None:
    text = (ROOT / "docs" / "clients.md").read_text()
    assert with_table(text) == text, "run `python protos/client_methods`"


@pytest.mark.parametrize("client", [Client, AsyncClient])
@pytest.mark.parametrize(("option", "kind"), SETTINGS, ids=NAMES)
def test_an_option_of_python_has_the_default_of_its_row(client: type, option: Option, kind: Time | Number) -> None:
    name = option.named("python")
    if name:
        assert name in inspect.signature(client).parameters, f"{client.__name__} has no argument {name}"
        default = inspect.signature(client).parameters[name].default
        assert default == (kind.default_seconds if isinstance(kind, Time) else kind.default)


@pytest.mark.parametrize(("option", "kind"), SETTINGS, ids=NAMES)
def test_an_option_of_cpp_has_the_default_of_its_row(option: Option, kind: Time | Number) -> None:
    name = option.named("cpp")
    if isinstance(kind, Time):
        value = f" = std::chrono::seconds({kind.default_seconds})" if kind.default_seconds else "{0}"
        line = f"  std::chrono::milliseconds {name}{value};"
    else:
        line = f"  int {name} = {kind.literal};"
    header = (ROOT / "clients/cpp/include/xlashape/client.h").read_text()
    assert line in header.splitlines(), f"struct Options of client.h lacks the line {line.strip()!r}"


@pytest.mark.parametrize("language", READ)
@pytest.mark.parametrize(("option", "kind"), SETTINGS, ids=NAMES)
def test_a_client_reads_the_option(language: str, option: Option, kind: Time | Number) -> None:
    pattern, read = READ[language]
    paths = [path for path in ROOT.glob(pattern) if path.stem.lower() != "settings"]
    name = re.escape(camel(option.name) if language == "go" else option.named(language))
    assert any(re.search(read.format(name), path.read_text()) for path in paths), f"{pattern} does not read {name}"


@pytest.mark.parametrize("path", VERSIONS)
def test_the_clients_have_the_version_of_the_project(path: str) -> None:
    found = re.search(VERSIONS[path], (ROOT / path).read_text())
    assert found is not None
    assert found[1] == xlashape.__version__


@pytest.mark.parametrize("testee", ["rust/conformance/src/main.rs", "cpp/conformance/testee.cc"])
def test_a_testee_with_a_line_for_each_rpc_has_all(testee: str) -> None:
    text = (ROOT / "clients" / testee).read_text(encoding="utf-8")
    rpcs = [f"{service.name}/{method.name}" for service in services() for method in service.methods]
    assert [rpc for rpc in rpcs if f'"{rpc}"' not in text] == [], f"clients/{testee} has no line for these"
