"""A scan as a Dataset of Ray Data. Other engines take `batches` as it is: `mapInArrow` of Spark, `map_partitions` of Daft."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from xlashape.extras import require
from xlashape.hlo.files.inputs import absolute, inputs
from xlashape.scan.batches import batches, schema
from xlashape.scan.datasets import chosen
from xlashape.scan.worker import DEFAULT_MEMORY_BYTES, DEFAULT_SECONDS

_FILES: Final = 64
"""The files of a call. Their content lies in memory together."""


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

    names and stage are those of `scan`; every machine of the cluster must be able to read the files. datasets, seconds and memory_bytes are those of
    `batches`, and `mapping` goes to Ray's map_batches: `concurrency`, `num_cpus`, … What follows is Ray's: retries, memory, and
    `on_ray("s3://dumps/").write_parquet(…, partition_cols=["dataset"])`.

    The files are read here and not by ray.data.read_binary_files, which decompresses them by their names: the key of a file is the hash of what it is.

    Raises NotFoundError for a name that stands for no file, InvalidArgumentError for a data set that is not there, UnavailableError without the extra
    `ray`, and what Ray raises.
    """
    require("ray", "a scan on Ray")
    data: Any = import_module("ray.data")  # an extra, without types
    wanted = chosen(datasets)
    files = [{"path": absolute(each).name} for each in inputs([names] if isinstance(names, str) else names, stage)]
    rows = partial(_rows, datasets=wanted, seconds=seconds, memory_bytes=memory_bytes)
    items = data.from_items(files, override_num_blocks=-(-len(files) // _FILES))
    return items.map_batches(rows, **{"batch_format": "pyarrow", "batch_size": _FILES, **mapping})


def _rows(files: Any, datasets: Sequence[str], seconds: float, memory_bytes: int) -> Iterator[Any]:
    pa: Any = import_module("pyarrow")
    found = False
    named = files.append_column("bytes", pa.nulls(len(files), pa.binary()))
    for batch in batches(named.to_batches(), datasets=datasets, seconds=seconds, memory_bytes=memory_bytes):
        found = True
        yield pa.Table.from_batches([batch])
    if not found:  # Ray asks for a table of every call
        yield schema(datasets).empty_table()
