"""The function that data engines run (Spark, Daft, Ray Data): batches of files in, batches of rows out, in the form of
Spark's mapInArrow.

    Iterator[RecordBatch(path, bytes)] → Iterator[RecordBatch(dataset, path, key, module, and a struct for each data
    set)]

A row belongs to one data set, which `dataset` names; its values are in the struct of that name, and the structs of the
others are null. So one stream holds all data sets, and engines filter it:
`SELECT copies.* FROM rows WHERE dataset = 'copies'`.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final

from xlashape.base.extras import require
from xlashape.base.tables import arrow_schema
from xlashape.errors import InvalidArgumentError, XlashapeError
from xlashape.hlo.files.inputs import Input, absolute, content, inputs
from xlashape.scan.datasets import DATASETS, KEYS, chosen, failed_file
from xlashape.scan.worker import DEFAULT_MEMORY_BYTES, DEFAULT_SECONDS, Worker, shown_path

_ROWS: Final = 65_536
"""The most rows of a batch."""
_FILES: Final = 64
"""The number of files of a call by Ray, whose contents are in memory at the same time."""
_idle: Final[dict[tuple[float, int], list[Worker]]] = {}
"""Workers of calls that have ended. Engines call the function often in one process, and a worker takes half a second to
start."""
_idle_lock: Final = threading.Lock()


def schema(datasets: Iterable[str] | None = None) -> Any:
    """The Arrow schema of the batches that `batches` gives for these data sets. Errors as for `batches`."""
    pa = _arrow()
    fields = [pa.field("dataset", pa.string(), nullable=False)]
    fields += [pa.field(each.name, pa.string()) for each in KEYS]
    for name in chosen(datasets):
        whole = arrow_schema(DATASETS[name].all_columns)
        fields.append(pa.field(name, pa.struct(list(whole)[len(KEYS) :])))
    return pa.schema(fields)


def batches(
    batches: Iterable[Any],
    *,
    datasets: Iterable[str] | None = None,
    seconds: float = DEFAULT_SECONDS,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> Iterator[Any]:
    """The rows of the files in `batches`, record batches with the columns `path` and `bytes`; lazily.

    A file whose `bytes` are null is read from its path, which may be that of an object in a bucket. datasets: their
    names, see `xlashape.scan.DATASETS`; None makes all but the maps. seconds and memory_bytes bound each file, whose
    rows another process makes. A file that is broken, too large or too slow is a row of `errors`.

    Raises InvalidArgumentError for batches without these columns and for a data set that is not there, UnavailableError
    without the extra `tables`.

    >>> import pyarrow as pa
    >>> files = pa.record_batch(
    ...     {"path": ["m.hlo"], "bytes": [b"HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"]}
    ... )
    >>> [
    ...     row["dataset"]
    ...     for batch in batches([files], datasets=["modules", "instructions"])
    ...     for row in batch.to_pylist()
    ... ]
    ['modules', 'instructions', 'instructions']
    """
    wanted = chosen(datasets)
    whole = schema(wanted)
    with borrowed_worker(seconds, memory_bytes) as worker:
        for batch in batches:
            # Rows of many files leave in one batch, since a batch has a thousand arrays however few its rows are.
            waiting: dict[str, list[Any]] = {name: [] for name in wanted}
            for path, data in _files(batch):
                for name, table in tables_of(worker, path, data, wanted):
                    waiting[name].append(table)
                    if sum(map(len, waiting[name])) >= _ROWS:
                        yield from _tall(name, waiting[name], whole)
                        waiting[name] = []
            for name, tables in waiting.items():
                yield from _tall(name, tables, whole)


def tables_of(worker: Worker, path: str, data: bytes | None, datasets: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The rows that a file has in each of these data sets, as Arrow tables of some thousand rows, each with the name of
    its data set. If `data` is None, the content is read: by the worker, or from a bucket."""
    pa = _arrow()
    each = Input(path, "")
    try:
        found = worker.streams(path, content(each) if data is None and each.is_remote else data, datasets)
    except XlashapeError as error:
        found = {"errors": failed_file(shown_path(path), None, error).to_arrow().to_reader()}
    for name, stream in found.items():
        for batch in stream:
            yield name, pa.Table.from_batches([batch])


def select(rows: Any, dataset: str) -> Any:
    """The rows of one data set as a table with its own columns, from a table or record batch that `batches` gave.

    Raises InvalidArgumentError for a data set that is not there.
    """
    pa = _arrow()
    compute: Any = import_module("pyarrow.compute")
    name = next(each for each in chosen([dataset]) if each == dataset)
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    table = table.filter(compute.equal(table["dataset"], name))
    target = arrow_schema(DATASETS[name].all_columns)
    values = [table[each.name] for each in KEYS]
    values += [compute.struct_field(table[name], field.name) for field in list(target)[len(KEYS) :]]
    return pa.table(values, schema=target)


def _files(batch: Any) -> Iterator[tuple[str, bytes | None]]:
    names = batch.schema.names
    if "path" not in names or "bytes" not in names:
        raise InvalidArgumentError(
            f"batches have the columns path and bytes, and this one has {', '.join(names) or 'none'}", field="batches"
        )
    for path, data in zip(batch.column("path"), batch.column("bytes"), strict=True):
        # One value at a time: a batch may have many large files.
        yield path.as_py(), data.as_py()


def _tall(name: str, tables: Sequence[Any], whole: Any) -> Iterator[Any]:
    """The rows of the tables of one data set, as batches with the schema `whole`, which has all data sets."""
    pa = _arrow()
    if not any(map(len, tables)):
        return
    for batch in pa.concat_tables(tables).combine_chunks().to_batches(max_chunksize=_ROWS):
        own = batch.schema.names[len(KEYS) :]
        arrays: list[Any] = [pa.array([name] * len(batch), pa.string())]
        arrays += [batch.column(each.name) for each in KEYS]
        for field in list(whole)[1 + len(KEYS) :]:
            if field.name == name:
                arrays.append(pa.StructArray.from_arrays([batch.column(each) for each in own], fields=list(field.type)))
            else:
                arrays.append(pa.nulls(len(batch), field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=whole)


@contextmanager
def borrowed_worker(seconds: float, memory_bytes: int) -> Generator[Worker, None, None]:
    """A worker with these bounds that nobody else uses meanwhile. It stays alive for the next call."""
    require("tables", "a scan")
    with _idle_lock:
        workers = _idle.get((seconds, memory_bytes))
        worker = workers.pop() if workers else Worker(seconds, memory_bytes)
    try:
        yield worker
    finally:
        with _idle_lock:
            _idle.setdefault((seconds, memory_bytes), []).append(worker)


def _close_all() -> None:
    for workers in _idle.values():
        for worker in workers:
            worker.close()


atexit.register(_close_all)


def _arrow() -> Any:
    require("tables", "a scan")
    return import_module("pyarrow")  # an extra, without types


def on_ray(
    names: str | Sequence[str],
    *,
    datasets: Iterable[str] | None = None,
    stage: str = "last",
    seconds: float = DEFAULT_SECONDS,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    **mapping: Any,
) -> Any:
    """The rows of files as a ray.data.Dataset, in the form that `batches` gives; lazily.

    names and stage are those of `scan`; every machine of the cluster must be able to read the files. datasets, seconds
    and memory_bytes are those of `batches`, and `mapping` goes to Ray's map_batches: `concurrency`, `num_cpus`, … Ray
    manages retries, memory and output: `on_ray("s3://dumps/").write_parquet(…, partition_cols=["dataset"])`.

    `batches` reads the files on the machines of the cluster. ray.data.read_binary_files does not read them, since it
    decompresses files by their names, and the key of a file is the hash of its content as it is stored.

    Raises NotFoundError for a name that stands for no file, InvalidArgumentError for a data set that is not there,
    UnavailableError without the extra `ray`, and what Ray raises.
    """
    require("ray", "a scan on Ray")
    data: Any = import_module("ray.data")  # an extra, without types
    wanted = chosen(datasets)
    files = [{"path": absolute(each).name} for each in inputs([names] if isinstance(names, str) else names, stage)]
    rows = partial(_rows_of_ray, datasets=wanted, seconds=seconds, memory_bytes=memory_bytes)
    items = data.from_items(files, override_num_blocks=-(-len(files) // _FILES))
    return items.map_batches(rows, **{"batch_format": "pyarrow", "batch_size": _FILES, **mapping})


def _rows_of_ray(files: Any, datasets: Sequence[str], seconds: float, memory_bytes: int) -> Iterator[Any]:
    pa: Any = import_module("pyarrow")
    found = False
    named = files.append_column("bytes", pa.nulls(len(files), pa.binary()))
    for batch in batches(named.to_batches(), datasets=datasets, seconds=seconds, memory_bytes=memory_bytes):
        found = True
        yield pa.Table.from_batches([batch])
    if not found:  # Ray needs a table from every call
        yield schema(datasets).empty_table()
