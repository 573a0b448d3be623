"""The tiles of operands that a tile of an instruction's output reads: `tile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from xlashape.cli.completing import complete_files, computation_names, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import module_of, naming
from xlashape.cli.output import echo, print_json
from xlashape.cli.shapes import numbers_of

if TYPE_CHECKING:
    from xlashape_client.results import OperandTile


@click.command(short_help="The tiles of operands that a tile of an instruction's output reads.")
@click.argument("file", shell_complete=complete_files)
@click.argument("instruction", shell_complete=instruction_names)
@click.argument("sizes", required=False)
@click.option(
    "--at",
    "offsets",
    metavar="INDEX",
    help="The index where the tile begins, such as 0,128. Default: 0 along each dimension.",
)
@click.option(
    "--strides", metavar="STRIDES", help="The steps between the tile's indices. Default: 1 along each dimension."
)
@click.option(
    "--output",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The output, if the instruction has several.",
)
@click.option(
    "--style", type=click.Choice(["xla", "affine"]), default="xla", show_default=True, help="The syntax of the maps."
)
@click.option(
    "--computation", default="", metavar="NAME", shell_complete=computation_names, help="The computation of INSTRUCTION.",
)  # fmt: skip
@query_options
def tile(
    file: str,
    instruction: str,
    sizes: str | None,
    offsets: str | None,
    strides: str | None,
    output: int,
    style: str,
    computation: str,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """The tile of each operand that a tile of the output of INSTRUCTION reads. The tile has SIZES, such as 16,32; FILE holds the module.

    Prints the operand's tile in numbers; and as expressions in the sizes d0, d1, … of any tile that begins at 0, with the constraints under
    which the expressions hold. Without SIZES, prints only the expressions.
    """
    with naming(file), connected(server, timeout) as service:
        found = service.operand_tiles(
            module_of(file),
            instruction,
            None if sizes is None else numbers_of(sizes, "SIZES", "sizes"),
            offsets=None if offsets is None else numbers_of(offsets, "--at", "an index"),
            strides=None if strides is None else numbers_of(strides, "--strides", "strides"),
            output=output,
            computation=computation,
            style=style,
        )
    if as_json:
        print_json(
            "tile.v1",
            {
                "instruction": found.instruction,
                "computation": found.computation,
                "opcode": found.opcode,
                "tiles": [_json(operand_tile, style) for operand_tile in found.tiles],
            },
        )
        return
    echo(f"{found.instruction} ({found.opcode}, in {found.computation})")
    for operand_tile in found.tiles:
        echo(f"  operand {operand_tile.operand} ({operand_tile.operand_name})")
        echo(f"    {operand_tile.access.text}")
        if sizes is not None:
            echo(f"    this tile    {_text(operand_tile)}")
        if operand_tile.symbolic is None:
            echo("    any tile     no symbolic tile is found")
        else:
            lines = operand_tile.symbolic.text.splitlines()[1:]
            for number, line in enumerate(lines):
                echo(f"    {'any tile' if number == 0 else '':<11}{line}")


def _text(operand_tile: OperandTile) -> str:
    if operand_tile.tile is None:
        return "the elements that are read do not form a tile"
    parts = [f"{name} {','.join(map(str, values))}" for name, values in operand_tile.tile._asdict().items() if values]
    return ", ".join(parts) if parts else "the only element"


def _json(operand_tile: OperandTile, style: str) -> dict[str, Any]:
    symbolic = operand_tile.symbolic
    return {
        "operand": operand_tile.operand,
        "operand_name": operand_tile.operand_name,
        "leaf": operand_tile.access.leaf,
        "map": operand_tile.access.text,
        "tile": None if operand_tile.tile is None else operand_tile.tile._asdict(),
        "symbolic": None
        if symbolic is None
        else {
            "offset_map": symbolic.offset_map.to_text(style),
            "size_map": symbolic.size_map.to_text(style),
            "stride_map": symbolic.stride_map.to_text(style),
            "constraints": symbolic.constraints,
        },
    }
