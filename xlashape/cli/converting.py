"""Modules from one form to another: `convert`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from xlashape.errors import ParseError

__all__ = ["convert"]

_SHOWN_FROM = 5_000_000  # bytes of a module from which on its conversion takes long enough to be watched

Step = Callable[[str], Callable[[int, "int | None"], None]]
"""Begins a step of that name, and returns what is told how many bytes of it are done, and of how many."""


@click.command(short_help="A module in another form: text, proto, JSON, compressed or not.")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--to",
    "form",
    metavar="FORM",
    help="hlo, pb, hlo.pb, pbtxt or json, each with .gz or without. Without it, what OUT's name ends in; hlo for `-`.",
)
@click.option("--lossy", is_flag=True, help="Write what the form can hold, even where that is not all.")
def convert(source: str, target: str, form: str | None, lossy: bool) -> None:
    """Writes the HLO module in IN to OUT. `-` is standard input or output.

    What IN holds is found out from its content: HLO text, a serialized HloModuleProto or HloProto, protobuf text or JSON of
    either, compressed with gzip or not. OUT is made anew only once all of it is known to be right.
    """
    from xlashape.hlo.convert import read, write

    if form is None and target == "-":
        form = "hlo"
    with _steps(_is_large(source)) as step:
        try:
            document = read(source, progress=step("reading"))
        except ParseError as error:
            # Whoever mends a file wants to see each mistake in its line, not the first one in a line of ours.
            click.echo(f"xlashape: {error}", err=True)
            raise SystemExit(1) from None
        write(document, target, form, lossy=lossy, progress=step("writing"))


def _is_large(source: str) -> bool:
    # Nobody knows how much will come on standard input.
    try:
        return source == "-" or Path(source).stat().st_size >= _SHOWN_FROM
    except (OSError, ValueError):
        return False


@contextmanager
def _steps(large: bool) -> Generator[Step, None, None]:
    """Bars on standard error if it is a terminal and there is enough to do; else nothing."""
    if not large or not sys.stderr.isatty():
        yield lambda name: lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def begin(name: str) -> Callable[[int, int | None], None]:
            task = progress.add_task(name, total=None)

            def told(done: int, total: int | None) -> None:
                progress.update(task, completed=done, total=total, visible=(total or done) >= _SHOWN_FROM)
                if done == total:
                    progress.update(task, description="parsing" if name == "reading" else name)

            return told

        yield begin
