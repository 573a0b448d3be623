"""Modules from one form to another: `convert`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from xlashape.cli.completing import complete_files
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.many import common_folder, in_processes, jobs_option, stage_option
from xlashape.cli.modules import loaded
from xlashape.cli.output import complain, echo, one_line, print_json, progress
from xlashape.errors import InvalidArgumentError, LossyConversionError, XlashapeError
from xlashape.hlo.files.inputs import Input, content, inputs, is_many, without_end

if TYPE_CHECKING:
    from xlashape.hlo import HloModule

_PICTURES: Final = ("svg", "html", "png")


@click.command()
@click.argument("sources", metavar="IN...", nargs=-1, shell_complete=complete_files)
@click.argument("target", metavar="OUT", shell_complete=complete_files)
@click.option(
    "--to",
    "form",
    metavar="FORM",
    help="hlo, pb, hlo.pb, pbtxt or json, each with or without .gz, or a picture: svg, html or png. Default: the "
    "suffix of OUT; hlo for `-`.",
)
@click.option(
    "--with",
    "comments",
    type=click.Choice(["source"]),
    help="For HLO text: write, behind each instruction, a comment with the line of the program and the operation "
    "there, in place of its metadata.",
)
@click.option("--lossy", is_flag=True, help="Write what the form can hold, even if it cannot hold everything.")
@click.option(
    "--for-version",
    metavar="VERSION",
    help="The version of jaxlib that will load OUT, such as 0.4.35. Versions before 0.10 may refuse large ids, so the "
    "module gets small ones for them.",
)
@stage_option("For directories of dumps: which dumps of a module are converted.")
@jobs_option("For several files: how many processes convert them.")
@answer_options
def convert(
    sources: tuple[str, ...],
    target: str,
    form: str | None,
    comments: str | None,
    lossy: bool,
    for_version: str | None,
    stage: str,
    jobs: int,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Writes the HLO module in IN to OUT. `-` is standard input or output.

    The form of IN is detected from its content: HLO text, a serialized HloModuleProto or HloProto, protobuf text or
    JSON of either, a snapshot or a profile, compressed with gzip or not. FILE#NAME is one of several modules in a
    profile, modules/… one that --server keeps. OUT is replaced only after IN has been read without errors.

    Several IN, directories of dumps, patterns and buckets are written below the directory OUT, in the form that --to
    names. If a file cannot be converted, a message on standard error says why, and the exit code is 1.

    OUT that ends in .svg, .html or .png gets a picture for people: the layers of the program, as the names of its
    operations say, with their instructions, FLOPs and lines of source. Layers that are alike are folded into one.

    If the form cannot hold everything, nothing is written, and the error lists what would be lost. With --lossy, what
    the form can hold is written, and a message on standard error lists what is lost. HLO text is written in any case,
    with a message if it leaves out a buffer assignment. --json prints what was written and what is lost.
    """
    if as_json and target == "-":
        raise InvalidArgumentError("--json writes to standard output, and so does OUT `-`: name a file", field="--json")
    if not sources:
        raise click.UsageError("Missing argument 'OUT'.")
    if is_many(sources):
        if server is not None:
            raise click.UsageError("--server converts one module at a time")
        return _convert_many(sources, target, _Ask(form, lossy, for_version, comments), stage, jobs, as_json)
    module = loaded(sources[0], server, timeout)
    progress("writing")
    made = _written(module, target, _Ask(form, lossy, for_version, comments))
    if as_json:
        print_json("convert.v1", {"source": sources[0], **made._asdict()})
        return 0
    for loss in made.lost:
        complain(f"xlashape: {'the text' if target == '-' else target} is written, but {loss}")
    return 0


class _Ask(NamedTuple):
    """How modules are written."""

    form: str | None
    lossy: bool
    for_version: str | None
    comments: str | None


class _Made(NamedTuple):
    """A file that is written."""

    target: str
    format: str
    lost: list[str]
    """What the form of the file cannot hold, a sentence each."""


def _written(module: HloModule, target: str, ask: _Ask) -> _Made:
    """Writes a module to `target`. Raises LossyConversionError if the form cannot hold everything, unless `lossy`."""
    # Deferred: the writer of HLO text takes longer to load than the command line.
    from xlashape.hlo.files.convert import format_of_name, left_out_of_text, store, write

    form, lossy = ask.form, ask.lossy
    if form is None:
        form = "hlo" if target == "-" else None if (known := format_of_name(target)) is None else str(known)
    is_text = form is not None and form.startswith("hlo") and "pb" not in form
    if ask.comments and not is_text:
        raise InvalidArgumentError("--with writes comments, and only HLO text has some", field="--with")
    picture = form or Path(target).suffix.lower().removeprefix(".")
    if picture in _PICTURES:
        from xlashape.drawing.layers import LayersPicture  # deferred, as above

        store(LayersPicture(module).to_bytes(picture), target)
        return _Made(target, picture, [])
    options: dict[str, Any] = {"print_sources": True, "print_metadata": False} if ask.comments else {}
    losses: list[str] = []

    def written(done: int, total: int | None) -> None:
        progress("writing", done, total)

    try:
        made = write(module, target, form, lossy=False, for_version=ask.for_version, progress=written, **options)
    except LossyConversionError as error:
        if not lossy:
            raise LossyConversionError(f"{error.message}; --lossy writes the rest", field=error.path) from None
        made = write(module, target, form, lossy=True, for_version=ask.for_version, progress=written, **options)
        losses.append(error.message.replace(" would be lost", " is lost"))
    lost = left_out_of_text(module) if is_text else ()
    if lost:
        losses.append(f"HLO text does not hold {', '.join(lost)}")
    return _Made(target, str(made), losses)


def _convert_many(sources: tuple[str, ...], target: str, ask: _Ask, stage: str, jobs: int, as_json: bool) -> int:
    """Converts several files. Returns the exit code."""
    if ask.form is None:
        raise click.UsageError("--to says the form of several files, such as --to hlo")
    found = list(inputs(sources, stage))
    targets = _targets([each.name for each in found], target, ask.form)
    for folder in {path.parent for path in targets}:
        folder.mkdir(parents=True, exist_ok=True)
    one = partial(_converted, ask=ask)
    rows: list[dict[str, Any]] = []
    for each, made in zip(found, in_processes(one, zip(found, targets, strict=True), jobs), strict=True):
        progress("converting", len(rows), len(found))
        rows.append({"source": each.name, **made})
        if not as_json:
            said = [made["error"]] if made["error"] else made["lost"]
            for text in said:
                complain(f"xlashape: {each.name}: {text}")
    refused = sum(row["error"] is not None for row in rows)
    if as_json:
        print_json("convert.v1", {"target": target, "files": rows})
    else:
        echo(f"{target}: {len(rows) - refused:,} of {len(rows):,} files are written")
    return int(refused > 0)


def _targets(names: list[str], target: str, form: str) -> list[Path]:
    """The file below the directory `target` that each input is written to: the input's path within the folder that all
    inputs have in common, with the extension of `form`. Raises InvalidArgumentError if two inputs would be written to
    one file.
    """
    common = common_folder(names)
    found: dict[Path, str] = {}
    for name in names:
        below = name.removeprefix(common) if common else name.rpartition("/")[2]
        path = Path(target, f"{without_end(below)}.{form}")
        if path in found:
            raise InvalidArgumentError(f"{found[path]} and {name} would both be written to {path}", field="OUT")
        found[path] = name
    return list(found)


def _converted(task: tuple[Input, Path], ask: _Ask) -> dict[str, Any]:
    """Converts one of several files. Returns its row of the answer, with the error as text if it is refused."""
    each, target = task
    from xlashape.hlo import HloModule  # deferred, as above

    row: dict[str, Any] = {"target": str(target), "format": None, "lost": [], "error": None}
    try:
        made = _written(HloModule.from_bytes(content(each)), str(target), ask)
        return {**row, "format": made.format, "lost": made.lost}
    except XlashapeError as error:
        return {**row, "error": one_line(error)}
    except OSError as error:
        return {**row, "error": f"{error.filename}: {error.strerror}"}
