"""Many inputs of one command: files, directories, patterns such as `dumps/**/*.hlo.pb`, and prefixes of buckets.

A directory of `--xla_dump_to` has many files for each module. Of each module the last stage is taken, as a proto where there is one, since only protos hold
buffer assignments; `--stage` takes others. Of a directory without names of such dumps, every file whose name is that of a module is taken.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

from xlashape.cli.output import one_line
from xlashape.cli.progress import progress
from xlashape.errors import NotFoundError, UnavailableError, XlashapeError
from xlashape.extras import require
from xlashape.hlo.files.dumps import module_files
from xlashape.reports.register import report_of
from xlashape.reports.selection import Row
from xlashape.tables import Column, Kind

FILE_COLUMNS: Final = (
    Column("file", Kind.TEXT, "the file that was asked about", rank=1),
    Column("module", Kind.TEXT, "the module of a dump by its name; else the name of the file without its end"),
)
ERROR_COLUMN: Final = Column("error", Kind.TEXT, "why the file is refused")

_BUCKET: Final = re.compile(r"(s3|gs|az|file)://")
_ENDS: Final = (".hlo.pb", ".txt", ".hlo", ".pb", ".pbtxt", ".json")
_PLATFORM: Final = re.compile(r"\.(?:sm_\d+\.)?[^.]*after_optimizations$")
_PASS_NUMBER: Final = re.compile(r"\.(\d{4})\.")


class Input(NamedTuple):
    """One input."""

    name: str
    module: str
    fetch: Callable[[], bytes] | None = None
    """What reads its bytes; None for a file, whose name is its path."""


class Refused(NamedTuple):
    """An input that is not answered."""

    message: str


def is_many(names: Sequence[str]) -> bool:
    """Whether these arguments of a command stand for more than one input."""
    return len(names) > 1 or any(_is_bucket(name) or _is_directory(name) or _is_pattern(name) for name in names)


def inputs(names: Sequence[str], stage: str) -> Iterator[Input]:
    """The inputs that the arguments stand for. Raises NotFoundError for an argument that stands for none.

    stage: "last", "before", "after", "all", or the name of a pass: its dumps after that pass.
    """
    for name in names:
        count = 0
        for each in _of_argument(name, stage):
            count += 1
            yield each
        if not count:
            if stage == "last" and _is_directory(name):
                raise NotFoundError(f"cannot read {name!r}: it is a directory without modules", kind="file", name=name)
            raise NotFoundError(f"{name}: there is no module of stage {stage!r}", kind="file", name=name)


def _of_argument(name: str, stage: str) -> Iterator[Input]:
    if _is_bucket(name):
        yield from _of_bucket(name, stage)
    elif _is_directory(name):
        found = {str(Path(folder, file)) for folder, _, files in os.walk(name) for file in files}
        whole = {str(path) for folder, _, _ in os.walk(name) for path in module_files(Path(folder))}
        yield from [Input(each, module) for each, module in _chosen(found, whole, stage)]
    elif _is_pattern(name):
        paths = glob.glob(name, recursive=True)  # noqa: PTH207 - of pathlib, only paths below a folder
        yield from [Input(each, _module_name(each)) for each in sorted(paths) if Path(each).is_file()]
    else:
        yield Input(name, _module_name(name))


def _is_bucket(name: str) -> bool:
    return _BUCKET.match(name) is not None


def _is_directory(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except OSError:  # text that is too long for the name of a file
        return False


def _is_pattern(name: str) -> bool:
    """Whether the name is a pattern. Brackets, which shapes have too, make one only if files match it."""
    try:
        if not any(character in name for character in "*?[") or Path(name).exists():
            return False
        return "[" not in name or next(glob.iglob(name, recursive=True), None) is not None  # noqa: PTH207 - of pathlib, only paths below a folder
    except OSError:  # as above
        return False


def _of_bucket(name: str, stage: str) -> Iterator[Input]:
    """The objects below a prefix; or the one of this name."""
    require("store", "a bucket")
    obstore: Any = import_module("obstore")  # an extra
    failure: type[Exception] = import_module("obstore.exceptions").BaseError
    if name.count("/") == 2:  # s3://bucket
        name += "/"
    root, _, last = name.rpartition("/")
    try:
        store: Any = import_module("obstore.store").from_url(name if name.endswith("/") else f"{root}/")
        listed = [entry["path"] for page in store.list() for entry in page]
    except failure as error:
        raise _unreadable(name, error) from None
    keys = (
        listed
        if name.endswith("/") or not last
        else [key for key in listed if key == last or key.startswith(f"{last}/")]
    )
    below = name if name.endswith("/") else f"{root}/"
    whole = {key for key in keys if key.removesuffix(".gz").endswith(_ENDS)} if keys != [last] else set(keys)

    def reader(key: str) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                return bytes(obstore.get(store, key).bytes())
            except failure as error:
                raise _unreadable(f"{below}{key}", error) from None

        return read

    for key, module in _chosen(keys, whole, stage):
        yield Input(f"{below}{key}", module, reader(key))


def _unreadable(name: str, error: Exception) -> NotFoundError:
    # The lines behind the first one show the objects of the client.
    return NotFoundError(f"cannot read {name}: {str(error).partition(chr(10))[0]}", kind="file", name=name)


def _chosen(names: Iterable[str], whole: Iterable[str], stage: str) -> list[tuple[str, str]]:
    """The names of a directory that are taken, each with its module: those of dumps, or `whole` where none is a dump's."""
    by_module: dict[tuple[str, str], list[tuple[str, str, int, str]]] = {}
    for name in sorted(names):
        folder, _, file = name.rpartition("/")
        parsed = _stage_of(file)
        if parsed is not None:
            module, kind, number = parsed
            by_module.setdefault((folder, module), []).append((kind, file, number, name))
    if not by_module:
        return [(name, _module_name(name)) for name in sorted(whole)]
    found: list[tuple[str, str]] = []
    for (_, module), files in sorted(by_module.items()):
        taken: dict[tuple[str, int], str] = {}
        for kind, file, number, name in files:
            is_proto = file.removesuffix(".gz").endswith(".pb")
            if (kind, number) not in taken or is_proto:
                taken[kind, number] = name
        order = sorted(taken, key=lambda key: {"before": -1, "after": 1 << 20}.get(key[0], key[1]))
        if stage == "last":
            order = order[-1:]
        elif stage != "all":
            order = [key for key in order if key[0] == stage]
        found += [(taken[key], module) for key in order]
    return found


def _stage_of(file: str) -> tuple[str, str, int] | None:
    """(module, "before" | "after" | the pass after which it was dumped, number of the dump) by the name of a file; None for the name of another file.

    >>> _stage_of("module_0001.jit_f.cpu_after_optimizations.hlo.pb.gz")
    ('module_0001.jit_f', 'after', 0)
    >>> _stage_of("module_0001.jit_f.0003.Simplify.after_dce.before_cse.txt")
    ('module_0001.jit_f', 'dce', 3)
    """
    stem = file.removesuffix(".gz")
    end = next((end for end in _ENDS if stem.endswith(end)), None)
    if end is None or not stem.startswith("module_"):
        return None
    stem = stem.removesuffix(end)
    if stem.endswith(".before_optimizations"):
        return stem.removesuffix(".before_optimizations"), "before", 0
    if stem.endswith("after_optimizations"):
        # Before it stands the platform, of GPUs with a version that has a dot: .sm_8.0_gpu_after_optimizations
        return _PLATFORM.sub("", stem), "after", 0
    head, sign, tail = stem.partition(".after_")
    number = _PASS_NUMBER.search(head)
    if not sign or number is None:
        return None
    return head[: number.start()], tail.partition(".before_")[0], int(number[1])


def _module_name(name: str) -> str:
    file = name.rsplit("/", 1)[-1]
    parsed = _stage_of(file)
    if parsed is not None:
        return parsed[0]
    stem = file.removesuffix(".gz")
    return next((stem.removesuffix(end) for end in _ENDS if stem.endswith(end)), stem)


def many_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a table of many inputs: the file and its module first, and why a file is refused."""
    has_error = any(column.name == ERROR_COLUMN.name for column in columns)
    names = {column.name for column in FILE_COLUMNS}
    rest = tuple([column for column in columns if column.name not in names])
    return (*FILE_COLUMNS, *rest, *(() if has_error else (ERROR_COLUMN,)))


def many_rows(
    report: str, found: Iterable[Input], options: dict[str, Any], section: str, argument: Any, jobs: int
) -> Iterator[tuple[Row, bool]]:
    """The rows of all inputs in their order, and of each whether it says that an input is refused. `jobs` processes compute them."""
    declared = report_of(report)
    columns = (
        declared.totals if section == "totals" else declared.section(section).columns if section else declared.columns
    )
    target = [column.name for column in many_columns(columns)]
    names = [column.name for column in columns]
    taken: list[Input] = []

    def tasks() -> Iterator[tuple[Any, ...]]:
        for each in found:
            taken.append(each)
            content: bytes | Refused | None = None
            if each.fetch is not None:
                try:
                    content = each.fetch()
                except XlashapeError as error:
                    content = Refused(one_line(error))
            yield report, each.name, content, options, section, argument

    for number, answer in enumerate(_computed(tasks(), jobs)):
        progress(f"computing {report}", number, None)
        each = taken[number]
        about = {"file": each.name, "module": each.module}
        if isinstance(answer, Refused):
            row = {**about, ERROR_COLUMN.name: answer.message}
            yield tuple([row.get(name) for name in target]), True
            continue
        for values in answer:
            row = {**dict(zip(names, values, strict=True)), **about}
            yield tuple([row.get(name) for name in target]), False


def _computed(tasks: Iterator[tuple[Any, ...]], jobs: int) -> Iterator[list[Row] | Refused]:
    if jobs <= 1:
        yield from map(_compute, tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(_compute, task) for task in islice(tasks, 2 * jobs)]
        while waiting:
            try:
                found = waiting.pop(0).result()
            except BrokenProcessPool:
                message = f"one of the {jobs} processes of --jobs has ended, perhaps for want of memory: use fewer"
                raise UnavailableError(message) from None
            yield found
            waiting += [pool.submit(_compute, task) for task in islice(tasks, 1)]


def _compute(task: tuple[Any, ...]) -> list[Row] | Refused:
    """The rows of one input. An input that is refused does not end the others."""
    report, name, content, options, section, argument = task
    if isinstance(content, Refused):
        return content
    try:
        answer = report_of(report).run(name if content is None else content, **options)
        if section == "totals":
            return [tuple(answer.totals.values())]
        return list(answer.rows_of(section, argument))
    except XlashapeError as error:
        return Refused(one_line(error))
    except OSError as error:
        return Refused(error.strerror or str(error))
