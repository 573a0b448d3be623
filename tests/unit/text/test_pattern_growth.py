"""Every regular expression of the library, the service and the client takes time in proportion to its text: callers
choose the texts.

`tests.support.pattern_growth` counts the steps of a matcher on texts made of the pattern.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.pattern_growth import growth

ROOT = Path(__file__).parents[3]
FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
AT_ONE_PLACE = {"match", "fullmatch"}
NOT_OF_THE_PROGRAM = {
    (
        "xlashape/reports/selection.py",
        "value",
    ): "a pattern that the user writes, for their own list; the service takes none",
}
MATCHED_AT_THE_BEGINNING = {("xlashape/hlo/files/dumps.py", "_CONTENTS")}
"""Tables of patterns that are not searched for."""
MAY_GROW = {
    ("xlashape/hlo/files/dumps.py", r"memory[-_]usage[-_]report[^/]*\.(?:pb|txt)$"): "searched in the name of a file",
    (
        "xlashape/hlo/tokens.py",
        r'[{}]|"(?:[^"\\]|\\.)*"|"',
    ): "the first string without an end ends the search",
    ("xlashape/reports/copies/pass_dumps.py", "_NAME"): "matched with the name of a file, of at most 255 characters",
    ("xlashape/hlo/text/reader/module.py", "_PARAMETER"): "searched in text that consists of parameters",
}


class Found(NamedTuple):
    file: str
    name: str
    pattern: str | bytes
    flags: int
    searches: bool


def sources() -> Iterator[tuple[Path, str, ast.Module]]:
    for folder in ("xlashape", "server/xlashape_server", "clients/python/xlashape_client"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^import re$", text, re.MULTILINE):
                parts = path.relative_to(ROOT).with_suffix("").parts
                start = next(i for i, part in enumerate(parts) if part.startswith("xlashape"))
                yield path, ".".join(parts[start:]).removesuffix(".__init__"), ast.parse(text)


def uses(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """By name of a pattern: what is asked of it."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                found.setdefault(name, set()).add(node.attr)
    return found


def patterns_in(path: Path, module: Any, tree: ast.Module, used: dict[str, set[str]]) -> Iterator[Found]:
    file = str(path.relative_to(ROOT))
    names = {
        id(part): target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
        for part in ast.walk(node.value)
    }
    unknown: list[str] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        function = node.func
        if not (isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr in FUNCTIONS):
            continue
        try:
            pattern = eval(ast.unparse(node.args[0]), vars(module))
            flags = [eval(ast.unparse(each), vars(module)) for each in node.args[1:2] if function.attr == "compile"]
            flags += [eval(ast.unparse(each.value), vars(module)) for each in node.keywords if each.arg == "flags"]
            flags += [re.MULTILINE for each in node.args[2:] if ast.unparse(each) == "re.MULTILINE"]
        except NameError:
            unknown.append(ast.unparse(node.args[0]))
            continue
        name = names.get(id(node), "")
        here = uses([tree]) if name.startswith("_") else used
        asked = here.get(name, set()) if function.attr == "compile" else {function.attr}
        is_at_one_place = (file, name) in MATCHED_AT_THE_BEGINNING or (asked and asked <= AT_ONE_PLACE)
        yield Found(file, name, pattern, int(sum(flags)), not is_at_one_place)
    kept = list(patterns_of_tables(vars(module)))
    if unknown and not kept:
        assert all((file, each) in NOT_OF_THE_PROGRAM for each in unknown), f"{file}: {unknown}"
    if unknown:
        for name, each in kept:
            if (file, name) not in MATCHED_AT_THE_BEGINNING:  # those are in the source
                yield Found(file, name, each.pattern, each.flags & ~re.UNICODE, True)


def patterns_of_tables(values: dict[str, Any]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns in the tables of a module, each with the name of its table."""
    for name, value in values.items():
        stack: list[Any] = [value] if isinstance(value, tuple | list | dict) else []
        while stack:
            each = stack.pop()
            if isinstance(each, re.Pattern):
                yield name, each
            elif isinstance(each, tuple | list):
                stack.extend(each)
            elif isinstance(each, dict):
                stack.extend(each.values())


def all_patterns() -> list[Found]:
    found = list(sources())
    used = uses(tree for _, _, tree in found)
    each = [one for path, name, tree in found for one in patterns_in(path, importlib.import_module(name), tree, used)]
    return sorted(set(each), key=repr)


def test_no_pattern_takes_longer_than_its_text_grows() -> None:
    patterns = all_patterns()
    assert len(patterns) > 90
    slow: list[str] = []
    for each in patterns:
        worst = growth(each.pattern, each.flags, searches=each.searches)
        known = {(each.file, str(each.pattern)), (each.file, each.name)} & MAY_GROW.keys()
        if (worst is not None) is not bool(known):
            slow.append(f"{each.file}: {each.pattern!r} {'(searched)' if each.searches else ''} {worst}")
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (r"(a+)+$", 0),
        (r"(a|a)*b", 0),
        (r"\s*\s*x", 0),
        (r"x.*?y.*?z", 0),
        (rb"=(?:\s|/\*.{0,200}?\*/|//[^\n]{0,200}\n)*(?:\w+\[|\()", re.DOTALL),
        (r"^[ \t]*hlo:([^\n]*)\n([^\n]*->[^\n]*?),?[ \t\r]*$", re.MULTILINE),
        (r"(?:-?[0-9]+,?)*x", 0),
        (r"[a-c]+[B-D]+z", re.IGNORECASE),
        (r"(?=(?:a*)*b)a", 0),
    ],
)
def test_patterns_that_explode_are_found(pattern: str | bytes, flags: int) -> None:
    assert growth(pattern, flags, searches=False) is not None


@pytest.mark.parametrize("pattern", [r"/\*.*?\*/", r"\s+$", r"[a-z]+:", r"^\s*x"])
def test_searches_that_begin_again_everywhere_are_found(pattern: str) -> None:
    assert growth(pattern, re.MULTILINE | re.DOTALL, searches=True) is not None
    assert growth(pattern, re.MULTILINE | re.DOTALL, searches=False) is None


@pytest.mark.parametrize(
    "pattern", [r"[A-Za-z_]\w*", r"[ab]{0,30}c", r"(?:a|b)*c", r'"(?:[^"\\]|\\.)*"', r"(\d+)(?:,\d+)*\]"]
)
def test_linear_patterns_pass(pattern: str) -> None:
    assert growth(pattern, searches=False) is None
