"""Modules from one form to another: `convert`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from xlashape.errors import ParseError

__all__ = ["convert"]

_SHOWN_FROM = 5_000_000  # bytes of a module; the conversion of a smaller one is too short for a progress bar

Step = Callable[[str], Callable[[int, "int | None"], None]]
"""Begins a step with this name. Returns a function that reports the bytes that are done, and the total."""


@click.command(short_help="A module in another form: text, proto, JSON, compressed or not.")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--to",
    "form",
    metavar="FORM",
    help="hlo, pb, hlo.pb, pbtxt or json, each with or without .gz. Default: the suffix of OUT; hlo for `-`.",
)
@click.option("--lossy", is_flag=True, help="Write what the form can hold, even if it cannot hold everything.")
@click.option(
    "--for-version",
    metavar="VERSION",
    help="The jaxlib that is to load OUT, such as 0.4.35: versions before 0.10 may refuse large ids, and get small ones.",
)
def convert(source: str, target: str, form: str | None, lossy: bool, for_version: str | None) -> None:
    """Writes the HLO module in IN to OUT. `-` is standard input or output.

    The form of IN is detected from its content: HLO text, a serialized HloModuleProto or HloProto, protobuf text or JSON of
    either, a snapshot or a profile, compressed with gzip or not. FILE#NAME is one of several modules in a profile. OUT is replaced only after IN has been read without errors.
    """
    from xlashape.hlo.convert import read, write

    if form is None and target == "-":
        form = "hlo"
    with _steps(_is_large(source)) as step:
        try:
            document = read(source, progress=step("reading"))
        except ParseError as error:
            # All mistakes are shown with their lines, not the first one alone, so that the user can correct the file.
            click.echo(f"xlashape: {error}", err=True)
            raise SystemExit(1) from None
        write(document, target, form, lossy=lossy, for_version=for_version, progress=step("writing"))


def _is_large(source: str) -> bool:
    # The size of standard input is not known before it is read.
    try:
        return source == "-" or Path(source).stat().st_size >= _SHOWN_FROM
    except (OSError, ValueError):
        return False


@contextmanager
def _steps(large: bool) -> Generator[Step, None, None]:
    """Progress bars on standard error if it is a terminal and the module is large; else nothing."""
    if not large or not sys.stderr.isatty():
        yield lambda name: lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def begin(name: str) -> Callable[[int, int | None], None]:
            task = progress.add_task(name, total=None)

            def report(done: int, total: int | None) -> None:
                progress.update(task, completed=done, total=total, visible=(total or done) >= _SHOWN_FROM)
                if done == total:
                    progress.update(task, description="parsing" if name == "reading" else name)

            return report

        yield begin
