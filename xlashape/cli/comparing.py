"""Modules beside each other: `diff`, what changed from one to the other, and `fingerprint`, whether they are the same
program."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options, connected, query_options
from xlashape.cli.many import in_processes, jobs_option, stage_option
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import complain, echo, one_line, print_json, progress, terminal_width
from xlashape.cli.reporting import report_command
from xlashape.cli.rows import FORMATS, row_options, write_rows
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo.files.inputs import Input, content, inputs, is_many
from xlashape.reports.selection import Selection
from xlashape.reports.text import table_text

if TYPE_CHECKING:
    from xlashape.hlo import HloModule

_MODULE_NUMBER: Final = re.compile(r"^module_\d+\.")
_MODULE: Final = Column("module", ColumnKind.TEXT, "the module of both directories", rank=1)


@click.command()
@click.argument("a", shell_complete=complete_files)
@click.argument("b", shell_complete=complete_files)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="TEST",
    help="Exit with 1 if B has more than A by so much: 'copies.bytes > 1MiB', 'peak_bytes > 2%', 'changes > 0'. "
    "--show measures lists the names.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="WHAT",
    help="Changes to leave out, by a word of the columns what and kind: layout, sharding, moved, …",
)
@click.option(
    "--schedule",
    is_flag=True,
    help="Count each different schedule as a change. Without it, a schedule counts only if it changes the peak.",
)
@click.option(
    "--same-meaning",
    is_flag=True,
    help="Also find out whether A and B compute the same, as `xlashape equivalent` does. If not, the exit code is 1.",
)
@click.option(
    "--show",
    type=click.Choice(["measures", "peak", "text"]),
    default=None,
    help="Instead of the changes: measures, the numbers of both modules; peak, what left and entered the "
    "peak of memory; text, the instructions.",
)
@click.option(
    "--beside",
    metavar="NAME",
    help="Instead of the changes: this instruction or computation of A or B, beside its match in the other module.",
)
@row_options(20, "changes", "'opcode=fusion', 'delta_bytes>=1MiB', 'b~^dot'", (*FORMATS, "markdown", "html"))
@stage_option("For directories of dumps: which dump of each module counts.", stages="before|after|PASS")
@query_options
def diff(
    a: str,
    b: str,
    conditions: tuple[str, ...],
    ignore: tuple[str, ...],
    schedule: bool,
    same_meaning: bool,
    show: str | None,
    beside: str | None,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    stage: str,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """What changed from the HLO module in A to the one in B. The changes that cost most come first.

    A and B are files (text, proto, gzip), `-` for standard input, or two directories of dumps, whose modules are
    matched by name and fingerprint. Instructions are matched by structure and data flow. Other names, ids, order and
    metadata do not count as changes, nor does the spelling of another version of XLA. The exit code is 1 if a test of
    --fail-if holds, or --same-meaning does not. --format markdown writes at most 65,536 characters, --format html one
    file.

    For two profiles (.xplane.pb, .trace.json.gz, or directories that jax.profiler wrote), the answer is what became
    slower, and what changed there: the same as `xlashape profile B --against A`. FILE#NAME names a module of a profile.
    """
    if _is_profile(a) and _is_profile(b):
        if conditions or ignore or schedule or same_meaning or show or beside or form in ("markdown", "html"):
            message = "profiles are compared by time: name a module of each, FILE#NAME, for what compares modules"
            raise click.UsageError(message)
        return click.get_current_context().invoke(
            report_command("profile"), what=(b,), against=a, form=form, limit=limit, sort=sort, filters=filters,
            timeout=timeout, as_json=as_json,
            **({} if server is None else {"server": server.address, **server.certificates._asdict()}),
        )  # fmt: skip
    # Deferred: what compares takes longer to load than the command line.
    from xlashape.reports.diff.gate import GateCondition
    from xlashape.reports.diff.gate import reasons as reasons_of

    tests = [GateCondition.parse(text) for text in conditions]
    form = "json" if as_json else form or "table"
    selection = Selection(filters, sort, limit)
    load = functools.partial(_load, server=server, timeout=timeout)
    pairs = list(_pairs(a, b, stage, load))
    if len(pairs) > 1 and (form in ("parquet", "html") or beside is not None):
        what = "--beside" if beside is not None else f"--format {form}"
        raise click.UsageError(f"{what} holds one comparison, and {len(pairs):,} modules are in both: name two files")
    if server is not None and (beside is not None or show == "text"):
        raise click.UsageError("the text of instructions is made here: leave --server out")
    if not pairs:
        raise InvalidArgumentError(f"no module of {a} is in {b}: nothing can be compared", field="A B")
    written = _Written(form, show, selection, f"{a} → {b}" if Path(a).is_dir() else None)
    failed = changed = 0
    for title, one, other in pairs:
        found = _compared(one, other, {"ignore": ignore, "schedule": schedule}, load, server, timeout)
        if beside is not None:
            echo(found.beside(beside, width=terminal_width() or 160))
            return 0
        reasons = reasons_of(found, tests)
        if same_meaning:
            reasons += _other_meaning(load(one), load(other), title)
        for test in tests:
            if not test.is_known(found):
                complain(f"{title}: {test.measure} is not known, so that {test.text!r} cannot fail")
        failed += bool(reasons)
        changed += not found.same
        written.add(found, title, reasons)
    written.end()
    if written.directories and form in ("table", "markdown"):
        blank = "\n" if form == "markdown" else ""  # which ends a table
        echo(f"{blank}{len(pairs):,} modules are in both, {changed:,} of them changed")
    return int(failed > 0)


def _is_profile(name: str) -> bool:
    """Whether a name stands for a profile by its end, or for a directory that has some."""
    return name.endswith((".xplane.pb", ".xplane.pb.gz", ".trace.json.gz")) or Path(name, "plugins", "profile").is_dir()


def _pairs(a: str, b: str, stage: str, load: Callable[[str], HloModule]) -> Iterator[tuple[str, str, str]]:
    """The comparisons, each a title and two names of files. Modules of directories are matched by name. If several have
    a name, or only one directory has it, they are matched by fingerprint."""
    if not Path(a).is_dir() and not Path(b).is_dir():
        yield f"{a} → {b}", a, b
        return
    if not (Path(a).is_dir() and Path(b).is_dir()):
        raise click.UsageError("one of A and B is a directory: give two files or two directories")
    sides: list[dict[str, list[str]]] = []
    for name in (a, b):
        modules: dict[str, list[str]] = {}
        for each in inputs([name], stage):
            # Numbers of modules and ends of names differ from run to run: module_0012.jit_step
            plain = _MODULE_NUMBER.sub("", each.module)
            modules.setdefault(plain, []).append(each.name)
        sides.append(modules)
    alone = [[name for name in one if name not in other] for one, other in (sides, sides[::-1])]
    if all(alone):
        # The same program under another name.
        of_other: dict[str, list[str]] = {}
        for name in alone[1]:
            of_other.setdefault(load(sides[1][name][-1]).fingerprint(), []).append(name)
        for name in list(alone[0]):
            renamed = of_other.get(load(sides[0][name][-1]).fingerprint())
            if renamed:
                other = renamed.pop(0)
                alone[0].remove(name)
                alone[1].remove(other)
                yield f"{name} → {other}", sides[0][name][-1], sides[1][other][-1]
    for where, names in zip((a, b), alone, strict=True):
        for name in names:
            complain(f"{name} is in {where} alone")
    for name in sides[0]:
        if name in sides[1]:
            yield from [(name, one, other) for one, other in _by_fingerprint(sides[0][name], sides[1][name], load)]


def _by_fingerprint(ones: list[str], others: list[str], load: Callable[[str], HloModule]) -> list[tuple[str, str]]:
    """Pairs of modules that have one name: those of equal fingerprint, then the others in their order."""
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
        complain(f"{name} has no module of its name left to be compared with")
    return [*pairs, *zip(rest, free, strict=False)]


def _load(name: str, *, server: ServerAddress | None, timeout: float) -> HloModule:
    with naming(name):
        return loaded(name, server, timeout)


def _compared(
    one: str,
    other: str,
    options: dict[str, Any],
    load: Callable[[str], HloModule],
    server: ServerAddress | None,
    timeout: float,
) -> Any:
    """The report `diff` of two files, made by this process or by a server."""
    from xlashape.reports.diff import diff as difference  # deferred, as above

    if one == other == "-":
        raise click.UsageError("standard input can be read once: give a file for A or for B")
    if server is not None:
        with connected(server, timeout) as service:
            progress("asking the server")
            sides = [sys.stdin.buffer.read() if name == "-" else name for name in (one, other)]
            return service.diff(*sides, **options, sections=("", "measures", "peak"), timeout=timeout)
    before, after = load(one), load(other)
    progress("comparing")
    return difference(before, after, **options)


def _other_meaning(one: HloModule, other: HloModule, title: str) -> list[str]:
    """Why two modules do not compute the same, or are not known to."""
    from xlashape.reports.equivalent import equivalent  # deferred, as above

    found = equivalent(one, other)
    if not found.is_equal:
        return found.headline().splitlines()
    complain(f"{title}: {found.headline()}")
    return []


class _Written:
    """Writes the comparisons. As JSON, JSON lines, CSV or Parquet, those of two directories are one document or table
    at the end, whose rows name their module. In other forms each is written when it is made."""

    def __init__(self, form: str, show: str | None, selection: Selection, directories: str | None) -> None:
        self.directories = directories
        self._form = form
        self._show = show
        self._selection = selection
        self._section = show if show in ("measures", "peak") else ""
        self._pending: list[Any] = []
        """The rows of directories, which are written at the end."""
        self._totals: list[dict[str, Any]] = []
        self._columns: tuple[Column, ...] = ()

    def add(self, found: Any, title: str, reasons: list[str]) -> None:
        """Writes one comparison, or keeps its rows for `end`. The reasons why it fails, if any, are written first."""
        for reason in reasons:
            if self._form == "table":
                echo(f"FAILED {reason}" if not self.directories else f"FAILED {title}: {reason}")
            elif self._form not in ("markdown", "html"):
                complain(f"FAILED {reason}" if not self.directories else f"FAILED {title}: {reason}")
        if self._form in ("markdown", "html"):
            from xlashape.reports.diff.markdown import html_page, markdown  # deferred, as above

            if not self.directories or not found.same or reasons:
                made = markdown if self._form == "markdown" else html_page
                echo(made(found, title, reasons, changes=self._chosen(found, self._selection)), newline=False)
            return
        if self._form == "table":
            if not self.directories or not found.same or reasons:
                echo(self._text(found, title))
            return
        columns = found.report.columns_of(self._section)
        rows = self._selection.chosen(columns, found.rows_of(self._section))
        if self.directories:
            self._columns = (_MODULE, *columns)
            self._totals.append({"module": title, **found.totals})
            self._pending += [(title, *row) for row in rows]
        elif self._form == "json":
            document: dict[str, Any] = {"x": title, **found.to_dict()}
            document[self._section or found.report.rows] = list(Table(columns, rows))
            print_json("diff.v1", document)
        else:
            write_rows(self._form, columns, rows)

    def end(self) -> None:
        """Writes the rows that were kept until the last comparison."""
        if not self.directories or self._form in ("table", "markdown", "html"):
            return
        columns = self._columns
        if self._form == "json":
            rows = list(Table(columns, self._pending))
            document = {"x": self.directories, "files": [each["module"] for each in self._totals]}
            print_json("diff.v1", {**document, "totals_of_files": self._totals, self._section or "changes": rows})
        elif columns:
            write_rows(self._form, columns, self._pending)

    def _chosen(self, found: Any, selection: Selection) -> list[Any]:
        """The changes that are selected, in their order."""
        every = ((*row, each) for row, each in zip(found.rows_of(), found.changes, strict=True))
        return [row[-1] for row in selection.chosen(found.report.columns_of(), every)]

    def _text(self, found: Any, title: str) -> str:
        selection = self._selection
        if self._show == "text":
            most = (20 if selection.limit is None else selection.limit) or None
            return "\n\n".join([found.side_by_side(row) for row in range(len(found.changes))][:most])
        if self._section:
            columns = found.report.columns_of(self._section)
            rows = list(selection.chosen(columns, found.rows_of(self._section)))
            return "\n\n".join([title, table_text(columns, rows, terminal_width())])
        from xlashape.reports.diff.text import answer_text  # deferred, as above

        rows = self._chosen(found, selection._replace(limit=0))
        text = answer_text(found, rows, selection.limit, width=terminal_width(), hint=": --limit 0 shows all")
        first, _, rest = text.partition("\n")
        # The verdict is in the first line. The names of two files follow it; the name of a module stands before it.
        return f"{title}: {text}\n" if self.directories else "\n".join([first, title, *([rest] if rest else [])])


_FINGERPRINT_COLUMNS: Final = (
    Column("fingerprint", ColumnKind.TEXT, "equal for equal programs", rank=1),
    Column("file", ColumnKind.TEXT, "the file", rank=1),
    Column("module", ColumnKind.TEXT, "the name of the module", rank=0),
    Column("error", ColumnKind.TEXT, "why the file is refused", rank=1),
)  # fmt: skip


@click.command()
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
@stage_option("For directories of dumps: which dump of each module counts.")
@jobs_option("For several files: how many processes read them.")
@answer_options
def fingerprint(
    files: tuple[str, ...],
    layouts: bool,
    sharding: bool,
    schedule: bool,
    constants: bool,
    stage: str,
    jobs: int,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """A line for each module in FILES, `FINGERPRINT  FILE`: equal fingerprints mean the same program, whatever names,
    ids, order and metadata are.

    FILES are files, directories, patterns, prefixes of buckets, or `-` for standard input.
    """  # fmt: skip
    rows: list[_FingerprintRow] = []
    counted = {"layouts": layouts, "sharding": sharding, "schedule": schedule, "constants": constants}
    one = functools.partial(_fingerprint, counted=counted, server=server, timeout=timeout)
    if is_many(files):
        found = in_processes(functools.partial(_fingerprint_or_error, one), inputs(files, stage), jobs)
    else:
        found = map(one, inputs(files, stage))
    for row in found:
        rows.append(row)
        if not as_json:
            echo(f"{row[0] or '-' * 34}  {row[1]}" + (f"  {row[3]}" if row[3] else ""))
    if as_json:
        print_json("fingerprint.v1", {"counted": counted, "modules": list(Table(_FINGERPRINT_COLUMNS, rows))})
    return int(any(row[0] is None for row in rows))


_FingerprintRow = tuple[str | None, str, str | None, str | None]


def _fingerprint(
    each: Input, counted: dict[str, bool], server: ServerAddress | None, timeout: float
) -> _FingerprintRow:
    if each.is_remote:
        from xlashape.hlo import HloModule  # deferred, as above

        module = HloModule.from_bytes(content(each), name=each.name)
    else:
        module = _load(each.name, server=server, timeout=timeout)
    return module.fingerprint(**counted), each.name, module.name, None


def _fingerprint_or_error(one: Callable[[Input], _FingerprintRow], each: Input) -> _FingerprintRow:
    try:
        return one(each)
    except XlashapeError as error:
        return None, each.name, None, one_line(error)
