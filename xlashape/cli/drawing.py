"""Pictures of layouts, maps and instructions: `draw`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from xlashape.cli.completing import complete_files, instruction_names
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import is_module, loaded, naming
from xlashape.cli.output import echo, print_json, progress
from xlashape.cli.shapes import numbers_of, shape_on_target, target_option, text_on_target
from xlashape.errors import InvalidArgumentError
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo import HloInstruction

_NAMED = 5
"""The most instructions that an error names."""


@click.command()
@click.argument("subject", metavar="SHAPE|MAP|FILE", shell_complete=complete_files)
@click.argument("instruction", required=False, shell_complete=instruction_names)
@click.option(
    "-o",
    "--output-file",
    "file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="The file to write: .svg, .html, .png or .txt. Without it, the picture is printed.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["svg", "html", "png", "txt"]),
    help="The format of what `-o -` writes to standard output, or of the picture in the document of --json.  [default: "
    "svg]",
)
@click.option("--after", metavar="SHAPE", help="The same array in another layout: draws the buffers before and after.")
@click.option("--at", metavar="INDEX", help="An element, such as 2,3, that is marked and shown with its surroundings.")
@click.option("--rows", metavar="FROM:TO", help="Only these rows, such as 8:16.")
@click.option("--columns", metavar="FROM:TO", help="Only these columns.")
@click.option(
    "--color",
    default="memory",
    show_default=True,
    metavar="WHAT",
    help="What colours show: memory, tile, row, bank or segment.",
)
@click.option(
    "--label",
    default="position",
    show_default=True,
    metavar="WHAT",
    help="What is written in cells: position, index, byte, tile, bank or segment.",
)
@click.option("--path/--no-path", default=True, help="Whether arrows follow the order of memory.")
@click.option("--segment-bytes", type=int, default=128, show_default=True, help="The bytes of a segment.")
@click.option("--banks", type=int, default=32, show_default=True, help="The number of memory banks.")
@click.option("--bank-bytes", type=int, default=4, show_default=True, help="The width of a memory bank in bytes.")
@click.option("--tile", metavar="SIZES", help="For a map or an instruction: draw what a tile of the output reads.")
@click.option(
    "--warp", type=int, metavar="N", help="For a map or an instruction: draw what N neighbouring outputs read."
)
@click.option("--output", metavar="N|SHAPE", help="The output of an instruction, by number; of a map, its shape.")
@click.option("--operand", metavar="N|SHAPE", help="The operand of an instruction, by number; of a map, its shape.")
@target_option
@click.option("--theme", default="auto", show_default=True, help="auto, light or dark.")
@click.option("--scale", type=float, default=2.0, show_default=True, help="The pixels of a .png for each of the .svg.")
@answer_options
def draw(
    subject: str,
    instruction: str | None,
    file: Path | None,
    form: str | None,
    after: str | None,
    at: str | None,
    rows: str | None,
    columns: str | None,
    color: str,
    label: str,
    path: bool,
    segment_bytes: int,
    banks: int,
    bank_bytes: int,
    tile: str | None,
    warp: int | None,
    output: str | None,
    operand: str | None,
    target: str | None,
    theme: str,
    scale: float,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Draws the layout of a SHAPE of any size: its tiles, one tile down to elements and bits, its memory.

    Of a MAP, such as '(d0) -> (d0 * 2), domain: d0 in [0, 9]', or of INSTRUCTION in the module in FILE: which elements
    of the operands one element, a tile or a warp of the output reads.

    Without -o the picture is printed, in colour on a terminal. With -o the extension decides: .svg, .html, .png or
    .txt. --json prints what is drawn, the facts below its title, and the picture itself or, with -o, its file.
    """
    from xlashape.drawing import draw as make
    from xlashape.drawing.picture import format_of

    to_stdout = file is not None and str(file) == "-"
    if form is not None and not to_stdout and not (as_json and file is None):
        raise InvalidArgumentError(
            "--format is for `-o -` and --json; the extension of a file decides", field="--format"
        )
    if as_json and (to_stdout or (file is None and form == "png")):
        raise InvalidArgumentError(
            "--json writes text to standard output: write the picture to a file, -o FILE", field="--json"
        )
    # A wrong extension is found before anything is computed.
    chosen = (form or "svg") if file is None or to_stdout else format_of(file)
    picture = make(
        _subject(subject, instruction, target, server, timeout),
        after=after if after is None else text_on_target(after, target),
        at=None if at is None else numbers_of(at, "--at", "an index"),
        rows=rows,
        columns=columns,
        color=color,
        label=label,
        path=path,
        segment_bytes=segment_bytes,
        banks=banks,
        bank_bytes=bank_bytes,
        tile=None if tile is None else numbers_of(tile, "--tile", "sizes"),
        warp=warp,
        output=_number_or_text(output),
        operand=_number_or_text(operand),
        theme=theme,
    )
    if as_json:
        content = None
        if file is None:
            content = picture.to_bytes(chosen, scale=scale).decode()
        else:
            picture.save(file, scale=scale)
        about = {"title": picture.title, "facts": list(picture.facts), "format": chosen}
        name = None if file is None else str(file)
        print_json("draw.v1", {"x": subject, "instruction": instruction, **about, "file": name, "picture": content})
        return
    if file is None:
        echo(picture.text(_depth(), get_terminal_size((100, 24)).columns), newline=False, color=True)
        return
    if to_stdout:
        echo(picture.to_bytes(chosen, scale=scale), newline=False)
    else:
        picture.save(file, scale=scale)


def _subject(
    text: str, instruction: str | None, target: str | None, server: ServerAddress | None, timeout: float
) -> HloInstruction | Shape | str:
    """What the arguments say to draw: a shape or a map as text, or an instruction of a module. On the device `target`,
    shapes have its layouts, and of an instruction without operands the shape of its result is drawn.
    """
    if instruction is None:
        if "->" not in text and is_module(text) and ("{" not in text or Path(text[:1024]).exists()):
            with naming(text):
                module = loaded(text, server, timeout)
            names = [each.name for each in module.entry.instructions if each.operands][:_NAMED]
            raise InvalidArgumentError(
                f"{text} is a module: name one of its instructions too, such as "
                f"{', '.join(names) or module.entry.root.name}",
                field="INSTRUCTION",
            )
        return text if "->" in text else text_on_target(text, target)
    with naming(text):
        module = loaded(text, server, timeout)
    progress("drawing")
    found = module.instruction(instruction)
    if target is None:
        return found
    return _on_target(found, target) if found.operands else shape_on_target(found.shape, target)


def _on_target(instruction: HloInstruction, target: str) -> HloInstruction:
    """The instruction, in a copy of its module in which it and its operands have the layouts of the device `target`."""
    from xlashape.hlo import HloModule  # deferred, as in `modules`

    name = instruction.computation.name
    proto = HloModule.of(instruction.computation.module).proto
    placed = {each.name for each in (instruction, *instruction.operands)}
    for computation in proto.computations:
        for each in computation.instructions if computation.name == name else ():
            if each.name in placed:
                each.shape.CopyFrom(shape_on_target(Shape.from_proto(each.shape), target).to_proto())
    return HloModule.from_proto(proto).computation(name).instruction(instruction.name)


def _number_or_text(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else text


def _depth() -> str:
    """How many colours standard output shows, as a value of `DEPTHS` in `writers/terminal.py`: none if it is not a
    terminal, or NO_COLOR is set.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return "none"
    return "full" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256"
