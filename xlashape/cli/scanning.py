"""Many dumps as Parquet data sets: `scan`."""

from __future__ import annotations

from typing import Any

import click

from xlashape.base.math import counted
from xlashape.cli.output import echo, print_json, progress
from xlashape.reports.selection import bytes_of


def _bytes(context: click.Context, parameter: click.Parameter, value: str) -> int:  # noqa: ARG001 - click's own arguments
    return bytes_of(value, "--memory")


@click.command()
@click.argument("uri", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="DIR|URI",
    help="The directory or the prefix of a bucket that the data sets are written to.",
)
@click.option(
    "--datasets",
    metavar="NAMES",
    help="The data sets, separated by commas. Without it, all but maps: modules, computations, instructions, buffers, "
    "accesses, copies. errors is always written.",
)
@click.option(
    "--stage",
    default="last",
    metavar="STAGE",
    help="Which dumps of a module count: last, before, after, all, or the name of a pass.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many files are scanned at once; by default one per processor.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    metavar="S",
    help="The most time of a processor that a file may take.",
)
@click.option(
    "--memory",
    "memory_bytes",
    default="2GiB",
    metavar="BYTES",
    callback=_bytes,
    help="The most memory that a file may take.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="What runs the scan: processes of this machine, or a cluster of Ray.",
)
@click.option("--ray-address", metavar="ADDRESS", help="The cluster; without it, Ray finds or starts one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text for people.")
def scan(uri: tuple[str, ...], out: str, datasets: str | None, as_json: bool, **options: Any) -> int:
    """Writes what many HLO modules hold as Parquet data sets: modules, computations, instructions, buffers, accesses,
    copies.

    URI is a file, a directory, a pattern such as 'dumps/**/*.hlo.pb', a bucket (s3://, gs://, az://) or the store of a
    server. A scan can be interrupted at any moment: the next one with the same output goes on, and does not repeat
    files that have not changed. For a file that is broken, too large or too slow, the data set errors gets a row. The
    exit code is 1 if there are such files, whether this scan or an earlier one found them.
    """  # fmt: skip
    # Deferred: what a scan computes with takes longer to load than the command line.
    from xlashape.scan import scan as scanned

    names = None if datasets is None else [name.strip() for name in datasets.split(",") if name.strip()]
    summary = scanned(uri, out, datasets=names, progress=progress, **options)
    if as_json:
        print_json("scan.v1", {"output": out, **summary._asdict()})
    else:
        already = f", {summary.skipped:,} are there already" if summary.skipped else ""
        echo(f"{out}: {counted(summary.files, 'file')} scanned{already}")
        if summary.files:
            echo("\n".join([f"  {name:13}{count:>12,} rows" for name, count in summary.rows.items()]))
        earlier = summary.errors - summary.rows["errors"]
        if earlier:
            echo(f"  {'errors':13}{earlier:>12,} rows of files that were there already")
        if summary.errors:
            echo(f"What is wrong: SELECT path, message FROM '{out.rstrip('/')}/errors/**/*.parquet'")
    return int(summary.errors > 0)
