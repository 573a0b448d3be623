"""The data sets of a scan: their columns, and the rows that one file has in each.

    modules        a row per module: sizes, fingerprint, memory, bytes and FLOPs, copies
    computations   a row per computation, with its fingerprint
    instructions   a row per instruction
    buffers        a row per buffer, with its padding: the rows of the report `size`
    accesses       a row per operand that an instruction reads: the rows of the report `reads`
    copies         a row per instruction that only moves data: the rows of the report `copies`
    maps           a row per indexing map: the rows of the report `map`, only where asked for
    errors         a row per file, or step of a file, that could not be answered

Every row begins with `path`, `key` and `module`. The key is the SHA-256 of the file's content; for a file in the store
of a server, that of the module in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final, NamedTuple

from xlashape.base.similar import did_you_mean
from xlashape.base.tables import Column, ColumnKind, Table
from xlashape.errors import InvalidArgumentError, ParseError, XlashapeError
from xlashape.hlo import HloModule
from xlashape.hlo.canonical import Canonical, Counted
from xlashape.hlo.files.convert import decode_all, detect
from xlashape.hlo.files.inputs import STORED, content_of_stored
from xlashape.hlo.instruction_table import INSTRUCTION_COLUMNS, instruction_rows
from xlashape.reports import Answer, report_of
from xlashape.reports.reads import each_read
from xlashape.reports.report import plain, row_values

KEYS: Final = (
    Column("path", ColumnKind.TEXT, "the file, or the object of a bucket"),
    Column("key", ColumnKind.TEXT, "the SHA-256 of its content, in hexadecimal"),
    Column("module", ColumnKind.TEXT, "the name of the module"),
)
"""The columns with which the rows of every data set begin."""

_ROWS: Final = 2048
"""The most rows of a table: Python's objects for a row take some kilobytes."""

_FILE: Final = "the file"
"""The name that messages use for every file, so that the rows of files with equal content differ in their paths
only."""

_TOTALS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "memory": (
        ("peak_bytes", "peak_bytes"),
        ("peak_is_estimate", "is_estimate"),
        ("argument_bytes", "argument_bytes"),
        ("output_bytes", "output_bytes"),
        ("alias_bytes", "alias_bytes"),
        ("temp_bytes", "temp_bytes"),
        ("constant_bytes", "constant_bytes"),
    ),
    "size": (("buffer_bytes", "bytes"), ("padding_bytes", "padding_bytes")),
    "cost": (
        ("flops", "flops"),
        ("transcendentals", "transcendentals"),
        ("bytes_read", "bytes_read"),
        ("bytes_written", "bytes_written"),
        ("cost_is_exact", "is_exact"),
    ),
    "copies": (("copies", "copies"), ("copied_bytes", "total_bytes")),
}
"""The totals of reports that are columns of `modules`: report → the names of the column and of the total."""


class Subject:
    """A module that is scanned, and the facts about it that are computed so far."""

    def __init__(self, module: HloModule, form: str, file_bytes: int) -> None:
        self.module = module
        self.form = form
        self.file_bytes = file_bytes
        self.failures: list[tuple[str, BaseException]] = []
        """The steps that failed, each with its error."""
        self._totals: dict[str, dict[str, Any]] = {}

    def answer(self, report: str) -> Answer | None:
        """The answer of a report about the module; None where the report raises, and the error is added to the
        failures.

        The answer is not kept, since answers about large modules are large. Its totals are kept.
        """
        self._totals[report] = {}
        answer = self.attempt(report, partial(report_of(report).run, self.module))
        if answer is not None:
            self._totals[report] = self.attempt(report, partial(_totals_of, answer)) or {}
        return answer

    def totals(self, report: str) -> dict[str, Any]:
        """The totals of a report that are columns of `modules`, by name. Those of a report that raises are missing."""
        if report not in self._totals:
            self.answer(report)
        return self._totals[report]

    @cached_property
    def fingerprints(self) -> list[str | None]:
        """The fingerprints of the computations, and last that of the module; None where they cannot be found. The
        canonical form that they are made of, a kilobyte an instruction, is not kept.
        """
        count = len(self.module.computations)
        return self.attempt("fingerprint", self._fingerprints) or [None] * (count + 1)

    def _fingerprints(self) -> list[str | None]:
        canonical = Canonical(self.module, Counted())
        found = [canonical.computation_fingerprint(index) for index in range(len(self.module.computations))]
        return [*found, canonical.fingerprint()]

    def attempt(self, step: str, compute: Callable[[], Any]) -> Any:
        """What `compute` returns. If it raises, None, and the error is added to the failures; but MemoryError is raised
        to the caller.
        """
        try:
            return compute()
        except MemoryError:
            raise
        except Exception as error:  # whatever is wrong with one module must not end the scan of the others
            self.failures.append((step, error))
            return None


def _totals_of(answer: Answer) -> dict[str, Any]:
    declared = {column.name: column for column in answer.report.totals}
    # Only the totals of `_TOTALS`: `answer.totals` would compute the others, too.
    return {total: plain(declared[total], getattr(answer, total)) for _, total in _TOTALS.get(answer.report.name, ())}


class DataSet(NamedTuple):
    """The declaration of a data set."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    """The columns behind `KEYS`."""
    rows: Callable[[Subject], Iterable[Sequence[Any]]]
    """The rows of a module, with the values of `columns`."""

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """`KEYS`, with which the rows of every data set begin, and the columns."""
        return (*KEYS, *self.columns)

    def table(self, rows: Iterable[Sequence[Any]] = ()) -> Table:
        """A table of rows that have values for all columns."""
        return Table(self.all_columns, rows)


def _total_columns() -> Iterator[Column]:
    for report, names in _TOTALS.items():
        declared = {column.name: column for column in report_of(report).totals}
        for name, total in names:
            yield declared[total]._replace(name=name)


def _module_rows(subject: Subject) -> Iterator[Sequence[Any]]:
    module = subject.module
    totals = [subject.totals(report).get(total) for report, names in _TOTALS.items() for _, total in names]
    yield (
        subject.form,
        subject.file_bytes,
        subject.fingerprints[-1],
        len(module.computations),
        sum(map(len, module.computations)),
        module.head.HasField("schedule"),
        *totals,
    )


def _computation_rows(subject: Subject) -> Iterator[Sequence[Any]]:
    entry = subject.module.entry
    for each in subject.module.computations:
        yield (each.name, subject.fingerprints[each.index], len(each), str(each.root.opcode), each is entry)


def _instruction_rows(subject: Subject) -> Iterator[Sequence[Any]]:
    module = subject.module
    return instruction_rows(module.instructions())


def _report_rows(report: str) -> Callable[[Subject], Iterable[Sequence[Any]]]:
    def rows(subject: Subject) -> Iterable[Sequence[Any]]:
        answer = subject.answer(report)
        return () if answer is None else answer.rows_of()

    return rows


def _no_rows(_subject: Subject) -> tuple[()]:
    return ()


def _access_rows(subject: Subject) -> Iterator[Sequence[Any]]:
    columns = report_of("reads").columns
    return (row_values(columns, row) for row in each_read(subject.module))


def _of_report(
    name: str, report: str, meaning: str, rows: Callable[[Subject], Iterable[Sequence[Any]]] | None = None
) -> DataSet:
    taken = {column.name for column in KEYS}
    assert not taken & {column.name for column in report_of(report).columns}
    return DataSet(name, meaning, report_of(report).columns, rows or _report_rows(report))


DATASETS: Final[dict[str, DataSet]] = {
    each.name: each
    for each in (
        DataSet(
            "modules",
            "a row per module",
            (
                Column("format", ColumnKind.TEXT, "the form of its file: hlo, pb, hlo.pb, pbtxt or json, with .gz where compressed"),
                Column("file_bytes", ColumnKind.INTEGER, "the size of the file", "bytes"),
                Column("fingerprint", ColumnKind.TEXT, "equal for modules that differ in names, ids and metadata only"),
                Column("computations", ColumnKind.INTEGER, "the number of its computations"),
                Column("instructions", ColumnKind.INTEGER, "the number of its instructions"),
                Column("is_scheduled", ColumnKind.BOOLEAN, "whether it has a schedule"),
                *_total_columns(),
            ),
            _module_rows,
        ),
        DataSet(
            "computations",
            "a row per computation",
            (
                Column("computation", ColumnKind.TEXT, "its name"),
                Column("fingerprint", ColumnKind.TEXT, "equal for computations that differ in names, ids and metadata only"),
                Column("instructions", ColumnKind.INTEGER, "the number of its instructions"),
                Column("root_opcode", ColumnKind.TEXT, "the opcode of its root"),
                Column("is_entry", ColumnKind.BOOLEAN, "whether the module begins there"),
            ),
            _computation_rows,
        ),
        DataSet("instructions", "a row per instruction", INSTRUCTION_COLUMNS, _instruction_rows),
        _of_report("buffers", "size", "a row per buffer, those with the most padding first"),
        _of_report("accesses", "reads", "a row per operand that an instruction reads", _access_rows),
        _of_report("copies", "copies", "a row per instruction that only moves data"),
        _of_report("maps", "map", "a row per indexing map from the result of an instruction to an operand"),
        DataSet(
            "errors",
            "a row per file, or step of a file, that could not be answered",
            (
                Column("step", ColumnKind.TEXT, "what failed: `read`, or a report or data set of the module"),
                Column("error", ColumnKind.TEXT, "the class of the error"),
                Column("message", ColumnKind.TEXT, "what is wrong"),
                Column("line", ColumnKind.INTEGER, "the line of the mistake in text, from 1"),
                Column("column", ColumnKind.INTEGER, "the column of the mistake in text, from 1"),
            ),
            _no_rows,
        ),
    )
}  # fmt: skip
"""The data sets by name."""

BY_DEFAULT: Final = tuple(name for name in DATASETS if name not in ("maps", "errors"))
"""The data sets that are made where none are named. `errors` is always made."""


def chosen(names: Iterable[str] | None) -> tuple[str, ...]:
    """The names of data sets in the order of `DATASETS`, with `errors`; None stands for those of `BY_DEFAULT`. Raises
    InvalidArgumentError for a name that no data set has."""
    wanted = set(BY_DEFAULT if names is None else names)
    for name in sorted(wanted):
        if name not in DATASETS:
            message = f"there is no data set {name!r}; there are {', '.join(DATASETS)}{did_you_mean(name, DATASETS)}"
            raise InvalidArgumentError(message, field="datasets")
    return tuple(name for name in DATASETS if name in wanted or name == "errors")


def rows_of_file(path: str, content: bytes, names: Sequence[str]) -> Iterator[tuple[str, Table]]:
    """The rows that a file has in each of these data sets, as tables of at most 2,048 rows, each with the name of its
    data set. The table of `errors`, which has all errors, comes last.

    Every error about the file is a row of `errors`. The only exception raised is MemoryError.

    >>> text = b"HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"
    >>> [(name, table["module"]) for name, table in rows_of_file("m.hlo", text, ["modules", "instructions"])]
    [('instructions', ['m', 'm']), ('modules', ['m'])]
    """
    key, size = key_of(path, content), len(content)
    failures: list[tuple[Any, ...]] = []
    form = ""
    modules: Iterator[HloModule] = iter(())
    try:
        if STORED.search(path):
            content = content_of_stored(content, key)
        form = str(detect(content))
        modules = iter([HloModule.of_document(each) for _, each in decode_all(content, _FILE)])
    except MemoryError:
        raise
    except Exception as error:  # whatever is wrong with one file must not end the scan of the others
        failures.append((path, key, None, *_failure("read", error)))
    del content
    for module in modules:
        subject = Subject(module, form, size)
        about = (path, key, module.name)
        # The row of a module comes last: it has totals of the reports whose rows are other data sets.
        for name in sorted(names, key=lambda name: name == "modules"):
            rows = ((*about, *row) for row in DATASETS[name].rows(subject))
            while found := subject.attempt(name, partial(_next_table, name, rows)):
                yield name, found
            del rows
        failures += [(*about, *_failure(step, error)) for step, error in subject.failures]
    if failures:
        yield "errors", DATASETS["errors"].table(failures)


def _next_table(name: str, rows: Iterator[tuple[Any, ...]]) -> Table | None:
    found = list(islice(rows, _ROWS))
    return DATASETS[name].table(found) if found else None


def key_of(path: str, content: bytes) -> str:
    """The SHA-256 of a file's content. For a file in the store of a server, the SHA-256 of the module, which is the
    file's name."""
    stored = STORED.search(path)
    return hashlib.sha256(content).hexdigest() if stored is None else stored[1]


def failed_file(path: str, key: str | None, error: BaseException) -> Table:
    """The table of `errors` for a file that could not be answered at all: one row. `key` None: it could not be read."""
    return DATASETS["errors"].table([(path, key, None, *_failure("read", error))])


def failed_table(name: str, table: Table, error: BaseException) -> Table:
    """The row of `errors` that stands for rows of a data set which cannot be written, since a number in them does not
    fit int64. `table` has these rows."""
    return DATASETS["errors"].table([(*[table[key.name][0] for key in KEYS], *_failure(name, error))])


def _failure(step: str, error: BaseException) -> tuple[Any, ...]:
    position = (error.line, error.column) if isinstance(error, ParseError) else (None, None)
    message = error.message if isinstance(error, XlashapeError) else str(error)
    return step, type(error).__name__, message, *position
