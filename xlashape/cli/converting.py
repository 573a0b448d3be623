"""Modules from one form to another: `convert`."""

from __future__ import annotations

import click

from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import document_of
from xlashape.cli.output import print_json, progress
from xlashape.errors import InvalidArgumentError, LossyConversionError


@click.command(short_help="A module in another form: text, proto, JSON, compressed or not.")
@click.argument("source", metavar="IN", shell_complete=complete_files)
@click.argument("target", metavar="OUT", shell_complete=complete_files)
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
    help="The jaxlib that is to load OUT, such as 0.4.35: versions before 0.10 may refuse large ids, and get small "
    "ones.",
)
@answer_options
def convert(
    source: str,
    target: str,
    form: str | None,
    lossy: bool,
    for_version: str | None,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Writes the HLO module in IN to OUT. `-` is standard input or output.

    The form of IN is detected from its content: HLO text, a serialized HloModuleProto or HloProto, protobuf text or JSON of
    either, a snapshot or a profile, compressed with gzip or not. FILE#NAME is one of several modules in a profile, modules/… one that --server keeps. OUT is replaced only after IN has been read without errors.

    Where the form cannot hold everything, nothing is written, and what would be lost is said; with --lossy the rest is written, and what
    is lost is said on standard error. HLO text is a view of a module and is always written: that it has no buffer assignment is said on
    standard error too. --json says on standard output what was written and what is lost.
    """
    # Deferred: the writer of HLO text takes longer to load than the command line.
    from xlashape.hlo.files.convert import format_of_name, left_out_of_text, write

    if as_json and target == "-":
        raise InvalidArgumentError("--json writes to standard output, and so does OUT `-`: name a file", field="--json")
    if form is None:
        form = "hlo" if target == "-" else None if (known := format_of_name(target)) is None else str(known)
    document = document_of(source, server, timeout)
    losses: list[str] = []

    def written(done: int, total: int | None) -> None:
        progress("writing", done, total)

    progress("writing")
    try:
        made = write(document, target, form, lossy=False, for_version=for_version, progress=written)
    except LossyConversionError as error:
        if not lossy:
            raise LossyConversionError(f"{error.message}; --lossy writes the rest", field=error.path) from None
        made = write(document, target, form, lossy=True, for_version=for_version, progress=written)
        losses.append(error.message.replace(" would be lost", " is lost"))
    lost = left_out_of_text(document) if form is not None and form.startswith("hlo") and "pb" not in form else ()
    if lost:
        losses.append(f"HLO text does not hold {', '.join(lost)}")
    if as_json:
        print_json("convert.v1", {"source": source, "target": target, "format": str(made), "lost": losses})
        return
    for loss in losses:
        click.echo(f"xlashape: {loss}", err=True)
