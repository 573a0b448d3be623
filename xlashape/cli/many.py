"""Several inputs of one command, which `xlashape.hlo.files.inputs` finds: the rows of a report about all of them, and
the processes that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple, TypeVar

import click

from xlashape.base.tables import Column, ColumnKind
from xlashape.cli.output import one_line, progress
from xlashape.errors import UnavailableError, XlashapeError
from xlashape.hlo.files.inputs import Input, content
from xlashape.reports.report import report_of
from xlashape.reports.selection import Row

FILE_COLUMNS: Final = (
    Column("file", ColumnKind.TEXT, "the file that was asked about", rank=1),
    Column("module", ColumnKind.TEXT, "the module of a dump by its name; else the name of the file without its end"),
)
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")
ERROR_COLUMN: Final = Column("error", ColumnKind.TEXT, "why the file is refused")


def stage_option(text: str, *, stages: str = "before|after|all|PASS") -> Callable[[F], F]:
    """The option --stage of commands that take directories of dumps."""
    return click.option("--stage", default="last", show_default=True, metavar=stages, help=text)


def jobs_option(text: str) -> Callable[[F], F]:
    """The option --jobs of commands that take several files."""
    return click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help=text)


class Refused(NamedTuple):
    """The answer about an input that raised an error, with its message."""

    message: str


def many_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table of many inputs: the file and its module first, and why a file is refused."""
    has_error = any(column.name == ERROR_COLUMN.name for column in columns)
    names = {column.name for column in FILE_COLUMNS}
    rest = tuple([column for column in columns if column.name not in names])
    return (*FILE_COLUMNS, *rest, *(() if has_error else (ERROR_COLUMN,)))


def common_folder(names: Sequence[str]) -> str:
    """The folder that all files are in, with a slash at its end; "" if they have none in common, and for a single file.

    >>> common_folder(["s3://b/x/1.hlo", "s3://b/y/2.hlo"]), common_folder(["x/1.hlo"])
    ('s3://b/', '')
    """
    folders = [name.split("/")[:-1] for name in names] if len(names) > 1 else []
    # Not os.path.commonpath, which makes s3:/ of s3://.
    common = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))]
    return "".join([f"{part}/" for part in common]) if any(common) else ""


def many_rows(
    report: str,
    found: Iterable[Input],
    options: dict[str, Any],
    section: str,
    argument: Any,
    jobs: int,
    totals: list[Row],
) -> Iterator[tuple[Row, bool]]:
    """The rows about all inputs, in the order of the inputs. With each row comes whether it says that an input is
    refused. `jobs` processes compute the rows.

    To `totals` a row is added for each input that is not refused: its file, its module and its totals.
    """
    declared = report_of(report)
    columns = declared.columns_of(section)
    target = [column.name for column in many_columns(columns)]
    names = [column.name for column in columns]
    taken: list[Input] = []

    def tasks() -> Iterator[tuple[Any, ...]]:
        for each in found:
            taken.append(each)
            data: bytes | Refused | None = None
            if each.is_remote:
                try:
                    data = content(each)
                except XlashapeError as error:
                    data = Refused(one_line(error))
            yield report, each.name, data, options, section, argument

    for number, answer in enumerate(in_processes(_compute, tasks(), jobs)):
        progress(f"computing {report}", number, None)
        each = taken[number]
        about = {"file": each.name, "module": each.module}
        if isinstance(answer, Refused):
            row = {**about, ERROR_COLUMN.name: answer.message}
            yield tuple([row.get(name) for name in target]), True
            continue
        totals.append((each.name, each.module, *answer.totals))
        for values in answer.rows:
            row = {**dict(zip(names, values, strict=True)), **about}
            yield tuple([row.get(name) for name in target]), False


def in_processes(compute: Callable[[T], R], tasks: Iterator[T], jobs: int) -> Iterator[R]:
    """What `compute` returns for each task, in the order of the tasks. If `jobs` is more than 1, it is the number of
    processes that compute. Raises UnavailableError if one of them ends."""
    if jobs <= 1:
        yield from map(compute, tasks)
        return
    # Start-up time: few commands ask for processes.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(compute, task) for task in islice(tasks, 2 * jobs)]
        while waiting:
            try:
                found = waiting.pop(0).result()
            except BrokenProcessPool:
                message = f"one of the {jobs} processes of --jobs has ended, perhaps for want of memory: use fewer"
                raise UnavailableError(message) from None
            yield found
            waiting += [pool.submit(compute, task) for task in islice(tasks, 1)]


class Answered(NamedTuple):
    """The answer about one input."""

    rows: list[Row]
    totals: Row


def _compute(task: tuple[Any, ...]) -> Answered | Refused:
    """The rows and the totals of one input. An input that is refused does not end the others."""
    report, name, data, options, section, argument = task
    if isinstance(data, Refused):
        return data
    try:
        answer = report_of(report).run(name if data is None else data, **options)
        totals = tuple(answer.totals.values())
        return Answered([totals] if section == "totals" else list(answer.rows_of(section, argument)), totals)
    except XlashapeError as error:
        return Refused(one_line(error))
    except OSError as error:
        return Refused(error.strerror or str(error))
