"""A fact about opcodes stands in their rows (`xlashape/hlo/ops/`): elsewhere no collection names more than three."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from xlashape.hlo import Opcode

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("xlashape", "server/xlashape_server", "clients/python/xlashape_client")
MOST = 3

# Where opcodes are listed by purpose: a rule for each of them, or arithmetic for each of them.
BY_OPCODE = (
    "xlashape/hlo/ops/",
    "xlashape/indexing/ops/",
    "xlashape/evaluation/",
    "xlashape/reports/cost/arithmetic.py",
    "xlashape/reports/memory/tied_dimensions.py",
    "xlashape/reports/vocabularies.py",  # the causes of copies, some of which are the words for opcodes
)
# Tables that have not moved into the rows yet, with the reason.
LEFT = {
    "xlashape/hlo/verifier/async_rules.py": "XLA's rules of asynchronous pairs name their opcodes",
    "xlashape/hlo/verifier/buffer_rules.py": "XLA's rules of buffers name their opcodes",
}


def collections(tree: ast.Module) -> Iterator[ast.expr]:
    """The values of the assignments of a module, outside functions."""
    pending: list[ast.stmt] = list(tree.body)
    for statement in pending:
        if isinstance(statement, ast.ClassDef):
            pending += statement.body
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            yield statement.value


def named(value: ast.expr) -> set[str]:
    """The opcodes that an expression names: as members of Opcode, by their names, or, where it makes members of the
    words of a string, by these.
    """
    nodes = list(ast.walk(value))
    members = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Opcode"
    }
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    words = set(texts)
    if any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Opcode" for node in nodes
    ):
        words = {word for text in texts for word in text.split()}
    return {opcode.value for opcode in Opcode if opcode.name in members or opcode.value in words}


def tables() -> dict[str, list[str]]:
    """File → the names of opcodes of each of its collections that names too many."""
    found: dict[str, list[str]] = {}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(BY_OPCODE):
                continue
            for value in collections(ast.parse(path.read_text(encoding="utf-8"))):
                opcodes = named(value)
                if len(opcodes) > MOST:
                    found.setdefault(name, []).append(f"line {value.lineno}: {' '.join(sorted(opcodes))}")
    return found


def test_facts_about_opcodes_stand_in_their_rows() -> None:
    found = tables()
    new = {name: lines for name, lines in found.items() if name not in LEFT}
    assert not new, f"put these facts into the rows of xlashape/hlo/ops/: {new}"
    gone = LEFT.keys() - found.keys()
    assert not gone, f"no longer a table; take it out of LEFT: {sorted(gone)}"


def test_a_table_is_found_however_it_names_opcodes() -> None:
    text = "W = ('copy', 'of')\nX = frozenset([Opcode.ADD, Opcode.AND])\nclass C:\n    Y = {Opcode(name) for name in 'add copy-done of'.split()}"
    assert [named(value) for value in collections(ast.parse(text))] == [{"copy"}, {"add", "and"}, {"add", "copy-done"}]
