"""Every regular expression of the library, the service and the client takes time in proportion to its text: callers
choose the texts.

The patterns are found in the sources, where they have to be written as `re.compile(…)` and the like so that none is
missed, and in the values of the imported modules. `tests.support.pattern_growth` looks for repeats that read one word
in two ways, and counts the steps of a matcher on texts made of the pattern.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.pattern_growth import ambiguity, growth

ROOT = Path(__file__).parents[3]
FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
NO_PATTERNS = {"Pattern", "Match", "RegexFlag", "error"}
AT_ONE_PLACE = {"match", "fullmatch"}
NOT_OF_THE_PROGRAM = {
    (
        "xlashape/reports/selection.py",
        "value",
    ): "a pattern that the user writes, for their own list; the service takes none",
    (
        "xlashape/hlo/files/forgiving.py",
        r"f'^{prefix}[ \t]?'",
    ): "plain text and numbers between, at most 200 characters",
    ("xlashape/reports/profile/spans.py", "pattern"): "some escaped bytes behind at most three others: 64 bytes in all",
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


MADE_INTO_TABLES = {
    ("xlashape/hlo/files/dumps.py", "pattern"): "_NAMES",
    ("xlashape/hlo/tokens.py", r"f'[^{quote}\\\\]*(?:\\\\.[^{quote}\\\\]*){{0,1000}}'"): "_STRING_STEPS",
    ("xlashape/reports/oom_text.py", "pattern"): "_SENTENCES",
    ("xlashape/reports/oom_text.py", r"pattern.replace(' ', '\\s+').replace('SIZE', _AMOUNT)"): "_HEADINGS",
}
"""Patterns that are put together where names are not known: the value that then has them."""


class Found(NamedTuple):
    file: str
    name: str
    pattern: str | bytes
    flags: int
    searches: bool
    is_whole: bool = False


def sources() -> Iterator[tuple[Path, str, ast.Module]]:
    for folder in ("xlashape", "server/xlashape_server", "clients/python/xlashape_client"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"\b(?:re|regex|sre_compile)\b", text):
                parts = path.relative_to(ROOT).with_suffix("").parts
                start = next(i for i, part in enumerate(parts) if part.startswith("xlashape"))
                yield path, ".".join(parts[start:]).removesuffix(".__init__"), ast.parse(text)


def unseen_ways(tree: ast.Module) -> Iterator[str]:
    """Where a module makes patterns, or could, in a way that `patterns_in` does not read."""
    called = {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                f"import {each.name} as {each.asname}" for each in node.names if each.name == "re" and each.asname
            )
            yield from (f"import {each.name}" for each in node.names if each.name in ("regex", "sre_compile", "re2"))
        elif isinstance(node, ast.ImportFrom) and node.module in ("re", "regex", "sre_compile", "re2"):
            yield f"from {node.module} import …"
        elif isinstance(node, ast.Name) and node.id == "re" and id(node) not in called:
            attribute = next(
                each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each.value is node
            )
            if attribute not in NO_PATTERNS and not hasattr(re.RegexFlag, attribute):
                yield f"re.{attribute} as a value"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr not in (*FUNCTIONS, "escape")
        ):
            yield f"re.{node.func.attr}(…)"


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
        yield Found(file, name, pattern, int(sum(flags)), not is_at_one_place, "fullmatch" in asked)
    kept = {name for name, _ in patterns_of_values(vars(module))}
    for each in unknown:
        assert (file, each) in NOT_OF_THE_PROGRAM or MADE_INTO_TABLES.get((file, each)) in kept, f"{file}: {each}"


def patterns_of_values(values: Mapping[str, Any]) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns in the values of a module, in tables, in its classes and in methods of patterns, each with the name
    of the value.
    """
    for name, value in values.items():
        stack, seen = [value], set[int]()
        while stack:
            each = stack.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, re.Pattern):
                yield name, each
            elif isinstance(each, tuple | list | set | frozenset):
                stack.extend(each)
            elif isinstance(each, Mapping):
                stack.extend([*each.keys(), *each.values()])
            elif isinstance(each, type) and each.__module__ == values["__name__"]:
                stack.extend(vars(each).values())
            elif isinstance(each, partial):
                stack.extend([each.func, *each.args, *each.keywords.values()])
            elif isinstance(getattr(each, "__self__", None), re.Pattern):
                stack.append(each.__self__)


@cache
def all_patterns() -> list[Found]:
    found = list(sources())
    used = uses(tree for _, _, tree in found)
    modules = {name: importlib.import_module(name) for _, name, _ in found}
    each = [one for path, name, tree in found for one in patterns_in(path, modules[name], tree, used)]
    known = {one.pattern for one in each}
    for path, name, _ in found:
        file = str(path.relative_to(ROOT))
        for value, pattern in patterns_of_values(vars(modules[name])):
            if pattern.pattern not in known:
                searches = (file, value) not in MATCHED_AT_THE_BEGINNING
                each.append(Found(file, value, pattern.pattern, pattern.flags & ~re.UNICODE, searches))
    return sorted(set(each), key=repr)


def test_every_pattern_is_where_this_test_looks() -> None:
    unseen = [f"{path.relative_to(ROOT)}: {way}" for path, _, tree in sources() for way in unseen_ways(tree)]
    assert not unseen, "\n".join(unseen)


def test_no_repeat_reads_a_word_in_two_ways() -> None:
    found = {(each.file, each.pattern): ambiguity(each.pattern, each.flags) for each in all_patterns()}
    slow = [f"{file}: {pattern!r} reads {word!r} in two ways" for (file, pattern), word in found.items() if word]
    assert not slow, "\n".join(slow)


def test_no_pattern_takes_longer_than_its_text_grows() -> None:
    patterns = all_patterns()
    assert len(patterns) > 90
    slow: list[str] = []
    for each in patterns:
        worst = growth(each.pattern, each.flags, searches=each.searches)
        if worst is None and each.is_whole:
            worst = growth(each.pattern, each.flags, searches=False, is_whole=True)
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


@pytest.mark.parametrize(
    "source",
    [
        "from re import compile",
        "import re as expressions",
        "import regex",
        "import re\nmake = re.compile",
        "import re\nre.template('a')",
    ],
)
def test_other_ways_to_a_pattern_are_told(source: str) -> None:
    assert list(unseen_ways(ast.parse(source)))


@pytest.mark.parametrize("behind", ["", "x", r"(?:HloModule|ENTRY)\b"])
@pytest.mark.parametrize(
    "repeat",
    [
        r"(?:\s+|//[^\n]*|/\*.*?\*/)*",
        r"(?:\s|/\*.*?\*/)*",
        r"(?:a+)+",
        r"(?:a*)*",
        r"(?:ab|a|b)*",
        r"(?:-?[0-9]+,?)*",
        r"(?:a{0,200})*",
        r"(?:[a-c][b-d]|[b-d])+",
    ],
)
def test_repeats_that_read_a_word_in_two_ways_are_found(repeat: str, behind: str) -> None:
    assert ambiguity(repeat + behind, re.DOTALL)
    assert growth(repeat, re.DOTALL, searches=False, is_whole=True) is not None


@pytest.mark.parametrize(
    "pattern",
    [r"(?:\s|//[^\n]*\n|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*x", r'"(?:[^"\\]|\\.)*"', r"(?:a|b)*", r"(?:a+b+)*", r"a*a*"],
)
def test_repeats_that_read_words_in_one_way_pass(pattern: str) -> None:
    assert ambiguity(pattern) is None


@pytest.mark.parametrize("pattern", [r"/\*.*?\*/", r"\s+$", r"[a-z]+:", r"^\s*x"])
def test_searches_that_begin_again_everywhere_are_found(pattern: str) -> None:
    assert growth(pattern, re.MULTILINE | re.DOTALL, searches=True) is not None
    assert growth(pattern, re.MULTILINE | re.DOTALL, searches=False) is None


@pytest.mark.parametrize(
    "pattern", [r"[A-Za-z_]\w*", r"[ab]{0,30}c", r"(?:a|b)*c", r'"(?:[^"\\]|\\.)*"', r"(\d+)(?:,\d+)*\]"]
)
def test_linear_patterns_pass(pattern: str) -> None:
    assert growth(pattern, searches=False) is None
