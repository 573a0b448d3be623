"""Many dumps as tables: the contents of hundreds of thousands of modules, in Parquet or in a data engine such as Spark.

    summary = xlashape.scan.scan(["dumps/"], "corpus")     Parquet in a directory or a bucket: `xlashape scan`
    corpus = xlashape.scan.open("corpus")                  {"modules": Dataset, "instructions": Dataset, …}
    rows = xlashape.scan.batches(record_batches)           what engines run: Spark's mapInArrow, Daft, Ray Data
    dataset = xlashape.scan.on_ray(["s3://dumps/"])        a Dataset of Ray Data

datasets    the data sets: their columns, and the rows of one file
worker      a process that makes the rows of files, and that a file may end
batches     record batches of files in, record batches of rows out; on Ray a Dataset of them
corpus      a scan that writes Parquet and can be resumed
"""

from xlashape.scan.batches import batches, on_ray, schema, select
from xlashape.scan.corpus import ScanSummary, open, scan  # noqa: A004 - `xlashape.scan.open`
from xlashape.scan.datasets import DATASETS, DataSet

__all__ = ["DATASETS", "DataSet", "ScanSummary", "batches", "on_ray", "open", "scan", "schema", "select"]
