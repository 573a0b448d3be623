"""A scan that writes Parquet data sets to a directory or a bucket. It can be killed at any moment and resumed.

    OUT/modules/hash=3/5fa0….parquet       a file of each data set for each unit, by the first digits of a hash
    OUT/scan.json                          how many digits
    OUT/_done/5fa0….json                   the record of a unit: version, data sets, bounds, inputs, errors, files

An input is a file to scan. A unit is a set of inputs, the hashes of whose contents begin with the same digits. Its data
files are written first, each whole or not at all, its record in `_done` last. Files without a record belong to an
interrupted unit; the next scan deletes them and does the unit again. When an input has changed, the rows of its earlier
content are removed from the files of its unit: each file is replaced as a whole, then the record. If this is
interrupted, the next scan repeats it. The same happens to an input whose errors may be gone: it could not be read, or
the bounds are larger now. Only one scan at a time may write into a directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from xlashape.base.extras import require
from xlashape.base.similar import did_you_mean
from xlashape.base.tables import arrow_schema
from xlashape.errors import DecodeError, InvalidArgumentError, NotFoundError, UnavailableError, XlashapeError
from xlashape.hlo.files.inputs import Input, absolute, content, inputs
from xlashape.scan.batches import borrowed_worker, tables_of
from xlashape.scan.datasets import DATASETS, chosen, key_of
from xlashape.scan.worker import DEFAULT_MEMORY_BYTES, DEFAULT_SECONDS, check_bounds, shown_path

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the number of files done, and the number of all files."""

_VERSION: Final = version("xlashape")
_UNIT_FILES: Final = 512
"""The most inputs of a unit; more only if their contents are equal."""
_UNIT_BYTES: Final = 64 << 20
"""The most bytes of the inputs of a unit that has several."""
_UNITS_PER_JOB: Final = 8
"""The least number of units for each job, if there are enough inputs."""
_ROWS: Final = 65_536
"""The rows after which a Parquet file gets a row group."""
_WRITTEN: Final = re.compile(r"[a-z]+/(?:hash=[0-9a-f]+/)?[0-9a-f]{24}\.parquet")
"""The names of the files of units. No others are ever deleted."""
_OF_THE_MOMENT: Final = frozenset(
    {"UnavailableError", "OSError", "FileNotFoundError", "PermissionError", "TimeoutError"}
)
"""The names of classes of errors that say nothing about the content of a file."""
_OF_BOUNDS: Final = frozenset({"LimitExceededError"})
"""The names of classes of errors that larger bounds may avoid."""
ENGINES: Final = ("local", "ray")


class ScanSummary(NamedTuple):
    """The result of a scan."""

    files: int
    """Files that were scanned now."""
    skipped: int
    """Files that an earlier scan has done."""
    rows: dict[str, int]
    """The number of rows written, of each data set."""
    errors: int
    """The number of rows of `errors` of all named files, including files that an earlier scan has done."""


class _Item(NamedTuple):
    """A file to scan."""

    input: Input
    stamp: str
    """A text that changes when the file changes: its size and the time of its last change, or that of an object in a
    bucket. Empty if the file cannot be read."""
    key: str
    """The SHA-256 of the content; of the name if the file cannot be read."""
    size: int
    """In bytes."""


class _Unit(NamedTuple):
    """Files that one task scans. Everything about it can be sent to another process."""

    name: str
    """The name of the unit's files, without the extension: a hash of its items."""
    part: str
    """The digits with which the keys of its items begin."""
    items: tuple[_Item, ...]


class _Done(NamedTuple):
    """A file that was scanned, as the record of its unit has it."""

    path: str
    stamp: str
    errors: dict[str, int]
    """How many rows of `errors` the file has, by the name of the error's class."""


class _Settings(NamedTuple):
    """What a unit's task needs to know about the scan. The bounds are those of one file."""

    out: str
    datasets: tuple[str, ...]
    seconds: float
    memory_bytes: int


def scan(
    names: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    datasets: Iterable[str] | None = None,
    stage: str = "last",
    jobs: int | None = None,
    seconds: float = DEFAULT_SECONDS,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    engine: str = "local",
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> ScanSummary:
    """Writes the data sets of many dumps as Parquet into `out`, a directory or the prefix of a bucket.

    names: files, directories, patterns, prefixes of buckets. datasets: None makes all but the maps. stage: which dumps
    of a module count, as the commands' `--stage`. jobs: processes that scan; None is one per processor. seconds,
    memory_bytes: the most processor time and memory of one file. engine: "local", or "ray" for the tasks of a Ray
    cluster, whose machines must be able to read the files and to write `out`. ray_address: the cluster; None lets Ray
    find or start one. progress: see `Progress`.

    An unchanged file whose rows from this version of the library are in `out` is not done again, unless it could not be
    read, or exceeded a bound that is larger now. A file that is broken, too large or too slow is a row of `errors`.

    Raises NotFoundError for a name that stands for no file, InvalidArgumentError for a data set or an engine that does
    not exist and for bounds that are not positive or too large, DecodeError for a damaged `out`, UnavailableError
    without the extra `scan`, or if `out` cannot be read or written.
    """
    require("scan", "a scan")
    if engine not in ENGINES:
        raise InvalidArgumentError(
            f"there is no engine {engine!r}; there are {', '.join(ENGINES)}{did_you_mean(engine, ENGINES)}",
            field="engine",
        )
    check_bounds(seconds, memory_bytes)
    jobs = jobs or os.cpu_count() or 1
    say = progress or _say_nothing
    settings = _Settings(os.fspath(out), chosen(datasets), seconds, memory_bytes)
    target = _Target(settings.out)
    wanted = [names] if isinstance(names, str) else list(names)
    found = list({each.name: each for each in inputs(wanted, stage)}.values())
    for name in wanted:
        if any(each.name == name and not each.is_remote and not Path(name).is_file() for each in found):
            raise NotFoundError(f"cannot read {name!r}: there is no such file", kind="file", name=name)
    # Tasks on other machines have other current directories.
    found = [absolute(each) for each in found]
    digits = _digits(target, len(found))
    stamped = [(each, each.stamp or _stamp(each.name)) for each in found]
    known = _resumed(target, settings, {each.name: stamp for each, stamp in stamped})
    items = _hashed([pair for pair in stamped if (pair[0].name, pair[1]) not in known], jobs, say)
    units = list(_units(items, digits, jobs))
    rows: Counter[str] = Counter()
    done = 0
    run = _on_ray(ray_address) if engine == "ray" else _locally(jobs)
    for unit, counts in run(partial(_do, settings), units):
        rows.update(counts)
        done += len(unit.items)
        say("scanning", done, len(items))
    earlier = sum([known.get((each.name, stamp), 0) for each, stamp in stamped])
    counts = {name: rows[name] for name in settings.datasets}
    return ScanSummary(len(items), len(found) - len(items), counts, counts["errors"] + earlier)


def open(out: str | os.PathLike[str]) -> dict[str, Any]:  # noqa: A001 - `xlashape.scan.open`
    """The data sets that a scan wrote, each as a pyarrow.dataset.Dataset, by name. A data set that was not made has no
    rows.

    Raises NotFoundError where no scan has written, UnavailableError without the extra `scan`.
    """
    require("tables", "a corpus")
    pa: Any = import_module("pyarrow")  # an extra, without types
    dataset: Any = import_module("pyarrow.dataset")
    target = _Target(os.fspath(out), is_made=False)
    target.read("scan.json")
    parts = dataset.partitioning(pa.schema([("hash", pa.string())]), flavor="hive")
    found: dict[str, Any] = {}
    names = {name for each in target.names("_done") for name in _document(target, each)["files"]}
    for name, declared in DATASETS.items():
        schema = arrow_schema(declared.all_columns)
        whole = schema.append(pa.field("hash", pa.string()))
        files = sorted(each for each in names if each.startswith(f"{name}/"))
        if files:
            system, root = target.filesystem()
            paths = [f"{root}/{each}" for each in files]
            found[name] = dataset.dataset(
                paths, schema=whole, filesystem=system, partitioning=parts, partition_base_dir=f"{root}/{name}"
            )
        else:
            found[name] = dataset.dataset(whole.empty_table())
    return found


# -- what is to be done ---------------------------------------------------------------------------


def _digits(target: _Target, count: int) -> int:
    """How many digits of the hashes divide the files of a data set: none below 10,000 inputs, one below a million, else
    two. Later scans keep the number that the first one has chosen."""
    known = target.read("scan.json", missing=b"")
    if known:
        try:
            return int(json.loads(known)["digits"])
        except (ValueError, TypeError, KeyError):
            raise DecodeError(f"{target.about('scan.json')} is damaged: scan into another directory") from None
    digits = 0 if count < 10_000 else 1 if count < 1_000_000 else 2
    target.write("scan.json", json.dumps({"digits": digits}).encode())
    return digits


def _say_nothing(what: str, done: int, total: int) -> None:
    """The progress of callers who want none."""


def _document(target: _Target, name: str) -> dict[str, Any]:
    """The record of a unit, read from `_done`. Raises DecodeError if it is damaged."""
    try:
        found: dict[str, Any] = json.loads(target.read(name))
        found["inputs"] = [_Done(*each) for each in found["inputs"]]
        return {each: found[each] for each in ("version", "datasets", "seconds", "memory_bytes", "inputs", "files")}
    except (ValueError, TypeError, KeyError):
        raise DecodeError(
            f"{target.about(name)} is damaged: delete it, and what it was about is scanned again"
        ) from None


def _resumed(target: _Target, settings: _Settings, stamps: dict[str, str]) -> dict[tuple[str, str], int]:
    """The names and stamps of inputs that are done, each with its number of errors.

    Deletes the files of interrupted units, the rows of earlier content of inputs, the rows of inputs whose errors may
    be gone, and the files that another version or a scan of other data sets wrote, whose inputs are done again. Raises
    InvalidArgumentError if the present scan does not name one of these inputs: its rows would be lost. `stamps`: those
    of the inputs of the present scan, by name.
    """
    known: dict[tuple[str, str], int] = {}
    kept: set[str] = set()
    old: list[str] = []
    for name in target.names("_done"):
        document = _document(target, name)
        if document["version"] == _VERSION and document["datasets"] == list(settings.datasets):
            are_larger = settings.seconds > document["seconds"] or settings.memory_bytes > document["memory_bytes"]
            passing = _OF_THE_MOMENT | _OF_BOUNDS if are_larger else _OF_THE_MOMENT
            again = {
                each.path
                for each in document["inputs"]
                if each.path in stamps and (stamps[each.path] != each.stamp or passing.intersection(each.errors))
            }
            if again:
                document = _without(target, name, document, again)
            known.update(((each.path, each.stamp), sum(each.errors.values())) for each in document["inputs"])
            kept.update(document["files"])
            continue
        others = [each.path for each in document["inputs"] if each.path not in stamps]
        if others:
            raise InvalidArgumentError(
                f"{target.about('')} has rows of {others[0]!r} by xlashape {document['version']} with the data sets"
                f" {', '.join(document['datasets'])}, and this scan does not name that file: name it, or "
                "write elsewhere",
                field="out",
            )
        old.append(name)
    target.delete(old)
    for dataset in DATASETS:
        target.delete([name for name in target.names(dataset) if name not in kept and _WRITTEN.fullmatch(name)])
    return known


def _without(target: _Target, name: str, document: dict[str, Any], paths: set[str]) -> dict[str, Any]:
    """Removes the rows of the inputs `paths` from the files of a unit. Returns the new record of the unit, which is
    written too, or deleted if no input is left."""
    shown = import_module("pyarrow").array([shown_path(path) for path in paths])
    compute, parquet = import_module("pyarrow.compute"), import_module("pyarrow.parquet")
    files: list[str] = []
    for each in document["files"]:
        with TemporaryDirectory(prefix="xlashape-") as folder:
            writer = _Writer(Path(folder, "rows.parquet"))
            rows = parquet.ParquetFile(import_module("pyarrow").BufferReader(target.read(each)))
            for group in range(rows.num_row_groups):
                table = rows.read_row_group(group)
                writer.add(table.filter(compute.invert(compute.is_in(table["path"], value_set=shown))))
            if writer.close():
                target.write(each, writer.path)
                files.append(each)
    document = {**document, "inputs": [each for each in document["inputs"] if each.path not in paths], "files": files}
    if document["inputs"]:
        target.write(name, json.dumps(document).encode())
    else:
        target.delete([name])
    return document


def _stamp(name: str) -> str:
    """The stamp of a local file, see `_Item`."""
    try:
        status = os.stat(name)  # noqa: PTH116 - a name as it was given
    except OSError:
        return ""
    return f"{status.st_size}:{status.st_mtime_ns}"


def _hashed(found: Sequence[tuple[Input, str]], jobs: int, say: Progress) -> list[_Item]:
    """The inputs with the hashes of their content. An input that cannot be read has the hash of its name: the scan
    reports the error later."""
    items: list[_Item] = []
    with ThreadPoolExecutor(jobs) as pool:
        for each in pool.map(_item, found):
            items.append(each)
            say("reading", len(items), len(found))
    return items


def _item(pair: tuple[Input, str]) -> _Item:
    each, stamp = pair
    try:
        data = content(each)
        return _Item(each, stamp, key_of(each.name, data), len(data))
    except (OSError, XlashapeError):
        return _Item(each, stamp, hashlib.sha256(each.name.encode("utf-8", "surrogateescape")).hexdigest(), 0)


def _units(items: Iterable[_Item], digits: int, jobs: int) -> Iterator[_Unit]:
    """Divides the inputs into units. Inputs of equal content are in one unit."""
    ordered = sorted(items, key=lambda item: (item.key, item.input.name))
    most = max(1, min(_UNIT_FILES, len(ordered) // (jobs * _UNITS_PER_JOB)))
    for part, group in groupby(ordered, key=lambda item: item.key[:digits]):
        taken: list[_Item] = []
        size = 0
        for item in group:
            is_full = len(taken) >= most or size + item.size > _UNIT_BYTES
            if taken and is_full and item.key != taken[-1].key:  # equal content is scanned once
                yield _unit(part, taken)
                taken, size = [], 0
            taken.append(item)
            size += item.size
        yield _unit(part, taken)


def _unit(part: str, items: Sequence[_Item]) -> _Unit:
    about = "\n".join([f"{item.key} {item.stamp} {item.input.name}" for item in items])
    return _Unit(hashlib.sha256(about.encode("utf-8", "surrogateescape")).hexdigest()[:24], part, tuple(items))


# -- doing it -------------------------------------------------------------------------------------


def _do(settings: _Settings, unit: _Unit) -> dict[str, int]:
    """Scans a unit, writes its files and its record. Returns the number of rows of each data set."""
    target = _Target(settings.out)
    counts: dict[str, int] = {}
    files: list[str] = []
    inputs: list[_Done] = []
    with TemporaryDirectory(prefix="xlashape-") as folder:
        writers = {name: _Writer(Path(folder, f"{name}.parquet")) for name in settings.datasets}
        with borrowed_worker(settings.seconds, settings.memory_bytes) as worker:
            for _, group in groupby(unit.items, key=lambda item: item.key):
                same = list(group)
                errors: Counter[str] = Counter()
                for name, table in tables_of(worker, same[0].input.name, None, settings.datasets):
                    for item in same:
                        writers[name].add(_named(table, item.input.name))
                    if name == "errors":
                        errors.update(table["error"].to_pylist())
                inputs += [_Done(item.input.name, item.stamp, errors) for item in same]
        for name, writer in writers.items():
            counts[name] = writer.close()
            if counts[name]:
                part = f"hash={unit.part}/" if unit.part else ""
                files.append(f"{name}/{part}{unit.name}.parquet")
                target.write(files[-1], writer.path)
    document = {
        "version": _VERSION,
        "datasets": list(settings.datasets),
        "seconds": settings.seconds,
        "memory_bytes": settings.memory_bytes,
        "inputs": inputs,
        "files": files,
    }
    target.write(f"_done/{unit.name}.json", json.dumps(document).encode())
    return counts


def _named(table: Any, path: str) -> Any:
    """The rows of a file, with the path of another file that has the same content."""
    pa: Any = import_module("pyarrow")
    return table.set_column(0, table.schema.field(0), pa.array([shown_path(path)] * len(table), pa.string()))


class _Writer:
    """A Parquet file whose rows come in many small tables. Names are dictionary-encoded, which is how Parquet writes
    text that repeats."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[Any] = []
        self._waiting_rows = self._rows = 0
        self._file: Any = None

    def add(self, table: Any) -> None:
        self._waiting.append(table)
        self._waiting_rows += len(table)
        if self._waiting_rows >= _ROWS:
            self._flush()

    def close(self) -> int:
        self._flush()
        if self._file is not None:
            self._file.close()
        return self._rows

    def _flush(self) -> None:
        if not self._waiting_rows:
            return
        table = import_module("pyarrow").concat_tables(self._waiting)
        if self._file is None:
            self._file = import_module("pyarrow.parquet").ParquetWriter(self.path, table.schema, compression="zstd")
        self._file.write_table(table)
        self._rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0


_Run = Callable[[Callable[[_Unit], dict[str, int]], Sequence[_Unit]], Iterator[tuple[_Unit, dict[str, int]]]]
"""Calls a function (`_do`) for each unit. Gives the units as they are done, each with the function's result."""


def _locally(jobs: int) -> _Run:
    """Runs units in threads, each of which waits for a worker process of its own."""

    def run(do: Callable[[_Unit], dict[str, int]], units: Sequence[_Unit]) -> Iterator[tuple[_Unit, dict[str, int]]]:
        with ThreadPoolExecutor(jobs) as pool:
            waiting: dict[Future[dict[str, int]], _Unit] = {}
            left = iter(units)
            try:
                while True:
                    for unit in left:
                        waiting[pool.submit(do, unit)] = unit
                        if len(waiting) >= 2 * jobs:
                            break
                    if not waiting:
                        return
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        yield waiting.pop(future), future.result()
            finally:
                for future in waiting:
                    future.cancel()

    return run


def _on_ray(address: str | None) -> _Run:
    """Runs units as tasks of Ray, which are done again elsewhere when a machine or a process ends."""
    require("ray", "the engine ray")
    ray: Any = import_module("ray")

    def run(do: Callable[[_Unit], dict[str, int]], units: Sequence[_Unit]) -> Iterator[tuple[_Unit, dict[str, int]]]:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        task = ray.remote(max_retries=5, num_cpus=1)(do.func if isinstance(do, partial) else do)
        arguments = do.args if isinstance(do, partial) else ()
        most = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
        waiting: dict[Any, _Unit] = {}
        left = iter(units)
        while True:
            for unit in left:
                waiting[task.remote(*arguments, unit)] = unit
                if len(waiting) >= most:
                    break
            if not waiting:
                return
            done, _ = ray.wait(list(waiting))
            for each in done:
                yield waiting.pop(each), ray.get(each)

    return run


# -- where it is written --------------------------------------------------------------------------


class _Target:
    """The directory or the prefix of a bucket that a scan writes to. Its files are called objects, and have names below
    it. An object is whole or absent. The methods raise UnavailableError if the system or the bucket refuses them."""

    def __init__(self, out: str, *, is_made: bool = True) -> None:
        """A directory that does not exist is made; NotFoundError if not `is_made`."""
        require("store", "what a scan writes")
        stores: Any = import_module("obstore.store")  # an extra, without types
        self._failure: type[Exception] = import_module("obstore.exceptions").BaseError
        self._obstore: Any = import_module("obstore")
        self._out = out
        self._is_local = "://" not in out or out.startswith("file://")
        path = out.removeprefix("file://").removeprefix("file:") if self._is_local else out
        self._root = os.path.abspath(path) if self._is_local else out.rstrip("/")  # noqa: PTH100 - of text
        if self._is_local and not is_made and not Path(self._root).exists():
            raise NotFoundError(f"{out} is not what a scan wrote: it has no scan.json", kind="file", name="scan.json")
        try:
            self._store: Any = (
                stores.LocalStore(self._root, mkdir=is_made) if self._is_local else stores.from_url(f"{self._root}/")
            )
        except (self._failure, OSError) as error:
            raise self._error("write to", error) from None

    def about(self, name: str) -> str:
        """The full path or URI of an object, for messages."""
        return f"{self._root}/{name}"

    def filesystem(self) -> tuple[Any, str]:
        """The file system of Arrow that has the directory or the bucket, and the path of `out` in it."""
        fs: Any = import_module("pyarrow.fs")
        if self._is_local:
            return fs.LocalFileSystem(), self._root
        return fs.FileSystem.from_uri(self._root)

    def names(self, folder: str) -> list[str]:
        """The names of the objects in a folder."""
        try:
            found = [entry["path"] for page in self._store.list(f"{folder}/") for entry in page]
        except self._failure as error:
            raise self._error("read", error) from None
        return found

    def read(self, name: str, missing: bytes | None = None) -> bytes:
        """The content of an object. If there is none: `missing`, or NotFoundError if that is None."""
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            if missing is None:
                message = f"{self._out} is not what a scan wrote: it has no {name}"
                raise NotFoundError(message, kind="file", name=name) from None
            return missing
        except self._failure as error:
            raise self._error("read", error) from None

    def write(self, name: str, data: bytes | Path) -> None:
        """Makes or replaces an object."""
        try:
            self._obstore.put(self._store, name, data)
        except self._failure as error:
            raise self._error("write to", error) from None

    def delete(self, names: Sequence[str]) -> None:
        """Deletes objects."""
        try:
            for name in names:
                self._obstore.delete(self._store, name)
        except self._failure as error:
            raise self._error("delete in", error) from None

    def _error(self, what: str, error: Exception) -> UnavailableError:
        return UnavailableError(f"cannot {what} {self._out}: {str(error).partition(chr(10))[0]}")
