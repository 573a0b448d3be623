"""Every option of the command line stands in a command line that a test or a page runs.

The sources of the tests are read: an option belongs to the commands that the nearest expression around it names, such
as a call or a row of parameters, and else to those that its test names. So `run("draw", "f32[3]", "--theme", "dark")`
counts for `draw` alone, also where the test runs other commands.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from pages import PAGES, console_sessions

from xlashape.cli import main
from xlashape.reports import REPORTS, report_of
from xlashape_server import Config

TESTS = Path(__file__).resolve().parents[1]
COMMANDS = {name: main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))}
MADE_UP = "weights"
"""The report of `tests/unit/reports/test_made_up_report.py`, whose command has what all reports have."""
SETTINGS = {"--" + each.name.replace("_", "-") for each in fields(Config)}
"""Options of `serve`, which `tests/server/test_settings.py` passes all at once, by the names of the fields."""


class Lines(ast.NodeVisitor):
    """The options in a file of tests, each with a command that it is passed to."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: set[tuple[str, str]] = set()
        self._around: list[ast.AST] = []
        self._constants: dict[str, set[str]] = {}
        """The commands that constants of the file name."""
        for each in tree.body:
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                self._constants[each.targets[0].id] = set(self._commands(each.value))
        self.visit(tree)

    def generic_visit(self, node: ast.AST) -> None:
        is_inside = bool(self._around) or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        self._around += [node] if is_inside else []
        super().generic_visit(node)
        if is_inside:
            self._around.pop()

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith("-"):
            commands = next(filter(None, [set(self._commands(each)) for each in reversed(self._around)]), set[str]())
            self.found |= {(command, node.value.partition("=")[0]) for command in commands}

    def _commands(self, node: ast.AST) -> Iterator[str]:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and (each.value in COMMANDS or each.value == MADE_UP):
                yield each.value
            elif isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in COMMANDS:
                yield each.func.id  # a helper that runs the command of its name
            elif isinstance(each, ast.Name):
                yield from self._constants.get(each.id, ())


@pytest.fixture(scope="module")
def passed() -> set[tuple[str, str]]:
    """Commands with options that tests and pages pass to them."""
    found: set[tuple[str, str]] = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__).resolve():
            found |= Lines(ast.parse(path.read_text(encoding="utf-8"))).found
    for page in PAGES:
        for command, _ in console_sessions(page):
            name, *words = shlex.split(command)[1:]
            found |= {(name, word.partition("=")[0]) for word in words}
    return found


def test_commands_are_found_by_the_nearest_expression():
    tree = ast.parse(
        'CALL = ("size", "x")\n'
        '@parametrize("more", [("map", ["--raw"]), ["--limit"]])\n'
        "def test(more):\n"
        '    run("reads", *more)\n'
        '    assert run(*CALL, "--order") and draw("--theme=dark")\n'
        'OTHER = ["index", "--bytes"]\n'
    )
    found = Lines(tree).found
    assert found - {("map", "--limit"), ("reads", "--limit"), ("size", "--limit"), ("draw", "--limit")} == {
        ("map", "--raw"),
        ("size", "--order"),
        ("draw", "--theme"),
    }


def _options(command: click.Command) -> dict[tuple[str, ...], set[str]]:
    """The options of a command: names and help of each → its names, those that turn it off included."""
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {(*each.opts, each.help or ""): {*each.opts, *each.secondary_opts} for each in options}


def test_every_option_is_passed_by_a_test(passed: set[tuple[str, str]]):
    """An option that commands share, with the same names and help, is passed to one of them at least; an option that
    all reports have, whatever its help, to a report, which may be the made-up one."""
    reports = {
        name: _options(COMMANDS[name]) for name in REPORTS if name in COMMANDS and report_of(name).inputs != ("a", "b")
    }
    of_all = set.intersection(*[{key[:-1] for key in options} for options in reports.values()])
    assert {("--filter",), ("--jobs",), ("--stage",)} <= of_all
    shared = {key: key[:-1] for options in reports.values() for key in options if key[:-1] in of_all}
    takers: dict[tuple[str, ...], tuple[set[str], set[str]]] = {names: ({MADE_UP}, set()) for names in of_all}
    for name, command in COMMANDS.items():
        for key, words in _options(command).items():
            if name != "serve" or words.isdisjoint(SETTINGS):
                names, all_words = takers.setdefault(shared.get(key, key), (set(), set()))
                names.add(name)
                all_words.update(words)
    missing = [
        f"{' '.join(sorted(words))} of {', '.join(sorted(names))}"
        for names, words in takers.values()
        if not any((name, word) in passed for name in names for word in words)
    ]
    assert not missing, "no test passes these options:\n" + "\n".join(missing)
