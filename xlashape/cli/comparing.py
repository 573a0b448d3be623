"""Modules beside each other: `diff`, what changed from one to the other, and `fingerprint`, whether they are the same program."""

from __future__ import annotations

import functools
import html
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.many import inputs
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import echo, one_line, print_json
from xlashape.cli.progress import progress
from xlashape.cli.rows import write_rows
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.reports.selection import Selection
from xlashape.reports.text import table_text
from xlashape.tables import Column, Kind

if TYPE_CHECKING:
    from xlashape.hlo import HloModule
    from xlashape.reports.diff import Diff

_MODULE_NUMBER: Final = re.compile(r"^module_\d+\.")
_FORMATS: Final = ("table", "json", "jsonl", "csv", "parquet", "markdown", "html")


@click.command(short_help="What changed from one program to another.")
@click.argument("a", shell_complete=complete_files)
@click.argument("b", shell_complete=complete_files)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="TEST",
    help="Exit with 1 where B has so much more than A: 'copies.bytes > 1MiB', 'peak_bytes > 2%', 'changes > 0'. The names are those of --show measures.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="WHAT",
    help="What does not count, as the columns what and kind have it: layout, sharding, moved, …",
)
@click.option(
    "--show",
    type=click.Choice(["measures", "text"]),
    default=None,
    help="Instead of the changes: the numbers of both modules; or the instructions.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default=None,
    help="markdown has at most 65,536 characters; html is one file.  [default: table]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help="The most changes; 0 shows all.  [default: 20 of a table]",
)
@click.option("--sort", metavar="COLUMN", help="Order by a column. Without it, what costs most is first.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="TEST",
    help="Only rows such as 'opcode=fusion' or 'delta_bytes>=1MiB'.",
)
@click.option(
    "--stage",
    default="last",
    show_default=True,
    metavar="before|after|PASS",
    help="Which dump of each module counts, of directories.",
)
@answer_options
def diff(
    a: str,
    b: str,
    conditions: tuple[str, ...],
    ignore: tuple[str, ...],
    show: str | None,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    stage: str,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """What changed from the HLO module in A to that in B, matched by structure and data flow, what costs most first.

    A and B are files (text, proto, gzip), `-` for standard input, or two directories of dumps, whose modules are compared by name. Names, ids, order,
    metadata and the spelling of another version of XLA are no changes. The exit code is 1 where a test of --fail-if holds.
    """  # fmt: skip
    # Deferred: what compares takes longer to load than the command line.
    from xlashape.reports.diff.gate import Condition

    tests = [Condition.parse(text) for text in conditions]
    form = "json" if as_json else form or "table"
    selection = Selection(filters, sort, limit)
    load = functools.partial(_load, server=server, timeout=timeout)
    pairs = list(_pairs(a, b, stage, load))
    if len(pairs) > 1 and form in ("parquet", "html"):
        message = f"--format {form} holds one comparison, and {len(pairs):,} modules are in both: name two files"
        raise InvalidArgumentError(message, field="--format")
    failed = changed = 0
    for title, one, other in pairs:
        found, reasons = _compared(one, other, ignore, tests, load)
        failed += bool(reasons)
        changed += not found.same
        if len(pairs) == 1 or form not in ("table", "markdown", "html") or not found.same or reasons:
            _write(found, title, reasons, show, form, selection)
    if len(pairs) != 1 and form == "table":
        echo(f"{len(pairs):,} modules are in both, {changed:,} of them changed")
    return int(failed > 0)


def _pairs(a: str, b: str, stage: str, load: Callable[[str], HloModule]) -> Iterator[tuple[str, str, str]]:
    """What is compared: a title and two names of files. Modules of directories are matched by name, then by fingerprint."""
    if not Path(a).is_dir() and not Path(b).is_dir():
        yield f"{a} → {b}", a, b
        return
    if not (Path(a).is_dir() and Path(b).is_dir()):
        raise InvalidArgumentError("one of A and B is a directory: give two files or two directories", field="A B")
    sides: list[dict[str, list[str]]] = []
    for name in (a, b):
        modules: dict[str, list[str]] = {}
        for each in inputs([name], stage):
            # Numbers of modules and ends of names differ from run to run: module_0012.jit_step
            plain = _MODULE_NUMBER.sub("", each.module)
            modules.setdefault(plain, []).append(each.name)
        sides.append(modules)
    alone = [
        f"{name} is in {where} alone"
        for where, one, other in ((a, *sides), (b, *sides[::-1]))
        for name in one
        if name not in other
    ]
    for text in alone:
        _complain(text)
    for name in sides[0]:
        others = sides[1].get(name, [])
        yield from [(name, one, other) for one, other in _by_fingerprint(sides[0][name], others, load)]


def _by_fingerprint(ones: list[str], others: list[str], load: Callable[[str], HloModule]) -> list[tuple[str, str]]:
    """Modules of one name: those of equal fingerprint together, the others in order."""
    if len(ones) == 1 == len(others):
        return [(ones[0], others[0])]
    left: dict[str, list[str]] = {}
    for name in others:
        left.setdefault(load(name).fingerprint(), []).append(name)
    pairs: list[tuple[str, str]] = []
    rest: list[str] = []
    for name in ones:
        same = left.get(load(name).fingerprint())
        if same:
            pairs.append((name, same.pop(0)))
        else:
            rest.append(name)
    free = [name for names in left.values() for name in names]
    for name in (*rest[len(free) :], *free[len(rest) :]):
        _complain(f"{name} has no module of its name left to be compared with")
    return [*pairs, *zip(rest, free, strict=False)]


def _load(name: str, *, server: ServerAddress | None, timeout: float) -> HloModule:
    with naming(name):
        return loaded(name, server, timeout)


def _compared(
    one: str, other: str, ignore: tuple[str, ...], tests: list[Any], load: Callable[[str], HloModule]
) -> tuple[Diff, list[str]]:
    from xlashape.reports.diff import diff as difference  # deferred, as above
    from xlashape.reports.diff.gate import reasons

    if one == other == "-":
        raise InvalidArgumentError("standard input can be read once: give a file for A or for B", field="A B")
    before, after = load(one), load(other)
    progress("comparing")
    found = difference(before, after, ignore=ignore)
    return found, reasons(found, tests)


def _write(found: Diff, title: str, reasons: list[str], show: str | None, form: str, selection: Selection) -> None:
    """Writes one comparison, why it fails first."""
    section = "measures" if show == "measures" else ""
    columns = found.columns_of(section)
    for reason in reasons:
        if form == "table":
            echo(f"FAILED {reason}")
        elif form not in ("markdown", "html"):
            _complain(f"FAILED {reason}")
    if form == "json":
        names = [column.name for column in columns]
        document: dict[str, Any] = {"x": title, **found.to_dict()}
        document[section or found.report.rows] = [
            dict(zip(names, row, strict=True)) for row in selection.chosen(columns, found.rows_of(section))
        ]
        print_json("diff.v1", document)
    elif form in ("markdown", "html"):
        from xlashape.reports.diff.markdown import markdown  # deferred, as above

        echo(markdown(found, title, reasons) if form == "markdown" else _page(found, title, reasons), newline=False)
    elif form == "table":
        _write_text(found, title, show, selection)
    else:
        write_rows(form, columns, selection.chosen(columns, found.rows_of(section)))


def _write_text(found: Diff, title: str, show: str | None, selection: Selection) -> None:
    if show == "text":
        most = (20 if selection.limit is None else selection.limit) or None
        echo("\n\n".join([found.side_by_side(row) for row in range(len(found.changes))][:most]))
        return
    section = show or ""
    columns = found.columns_of(section)
    most = (found.report.shown if selection.limit is None else selection.limit) or None
    rows = list(selection._replace(limit=0).chosen(columns, found.rows_of(section)))
    width = get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
    parts = [title, found.headline()]
    if rows:
        parts.append(table_text(columns, rows[:most], width))
    if most is not None and len(rows) > most:
        parts.append(f"{len(rows) - most:,} more rows are not shown: --limit 0 shows all.")
    echo("\n\n".join(parts))


def _page(found: Diff, title: str, reasons: list[str]) -> str:
    """One HTML file: the same text and the same table, without scripts."""

    def cells(tag: str, values: Any) -> str:
        return "".join([f"<{tag}>{html.escape(str(value if value is not None else ''))}</{tag}>" for value in values])

    columns = [column for column in found.report.columns if column.rank]
    numbers = [number for number, column in enumerate(found.report.columns) if column.rank]
    rows = "\n".join(
        [
            f"<tr>{cells('td', [', '.join(row[n]) if isinstance(row[n], list) else row[n] for n in numbers])}</tr>"
            for row in found.rows_of()
        ]
    )
    style = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 8px;text-align:left}pre{font:13px monospace}.failed{color:#b00}"
    failed = "".join([f'<p class="failed">{html.escape(reason)}</p>' for reason in reasons])
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>\n'
        f"<h1>{html.escape(title)}</h1>{failed}<pre>{html.escape(found.headline())}</pre>\n"
        f"<table><tr>{cells('th', [column.heading or column.name.replace('_', ' ') for column in columns])}</tr>\n{rows}\n</table></html>\n"
    )


def _complain(text: str) -> None:
    """Writes a line on standard error."""
    click.echo(text, err=True)


_FINGERPRINT_COLUMNS: Final = (
    Column("fingerprint", Kind.TEXT, "equal for equal programs", rank=1),
    Column("file", Kind.TEXT, "the file", rank=1),
    Column("module", Kind.TEXT, "the name of the module", rank=0),
    Column("error", Kind.TEXT, "why the file is refused", rank=1),
)  # fmt: skip


@click.command(short_help="Whether modules are the same program.")
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@click.option(
    "--layouts/--no-layouts", default=True, help="Whether layouts, tiles and memory spaces count.  [default: they do]"
)
@click.option("--sharding/--no-sharding", default=True, help="Whether shardings count.  [default: they do]")
@click.option(
    "--schedule/--no-schedule",
    default=False,
    help="Whether the order of scheduled instructions counts.  [default: it does not]",
)
@click.option(
    "--constants/--no-constants", default=True, help="Whether the values of large constants count.  [default: they do]"
)
@click.option(
    "--stage",
    default="last",
    show_default=True,
    metavar="before|after|all|PASS",
    help="Which dump of each module counts, of directories.",
)
@answer_options
def fingerprint(
    files: tuple[str, ...],
    layouts: bool,
    sharding: bool,
    schedule: bool,
    constants: bool,
    stage: str,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """A line for each module in FILES, `FINGERPRINT  FILE`: equal fingerprints mean the same program, whatever names, ids, order and metadata are.

    FILES are files, directories, patterns, or `-` for standard input.
    """  # fmt: skip
    rows: list[tuple[str | None, str, str | None, str | None]] = []
    counted = {"layouts": layouts, "sharding": sharding, "schedule": schedule, "constants": constants}
    for each in inputs(files, stage):
        try:
            module = _load(each.name, server=server, timeout=timeout)
            rows.append((module.fingerprint(**counted), each.name, module.name, None))
        except XlashapeError as error:
            if len(files) == 1 and not Path(files[0]).is_dir():
                raise
            rows.append((None, each.name, None, one_line(error)))
        if not as_json:
            echo(f"{rows[-1][0] or '-' * 34}  {each.name}" + (f"  {rows[-1][3]}" if rows[-1][3] else ""))
    if as_json:
        names = [column.name for column in _FINGERPRINT_COLUMNS]
        print_json(
            "fingerprint.v1", {"counted": counted, "modules": [dict(zip(names, row, strict=True)) for row in rows]}
        )
    return int(any(row[0] is None for row in rows))
