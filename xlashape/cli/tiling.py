"""Which tiles of its operands a tile of an instruction's output reads: `tile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from xlashape.cli.connection import connected, query_options
from xlashape.cli.modules import module_of
from xlashape.cli.output import print_json
from xlashape.cli.shapes import numbers_of

if TYPE_CHECKING:
    from xlashape_client.results import OperandTile

__all__ = ["tile"]


@click.command(short_help="Which tiles of its operands a tile of an instruction reads.")
@click.argument("file")
@click.argument("instruction")
@click.argument("sizes", required=False)
@click.option(
    "--at",
    "offsets",
    metavar="INDEX",
    help="Where the tile begins, such as 0,128. 0 along each dimension unless given.",
)
@click.option(
    "--strides", metavar="STRIDES", help="Steps between the tile's indices. 1 along each dimension unless given."
)
@click.option(
    "--output", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Which output, if several."
)
@click.option(
    "--style", type=click.Choice(["xla", "affine"]), default="xla", show_default=True, help="How maps are written."
)
@click.option("--computation", default="", metavar="NAME", help="The computation that INSTRUCTION stands in.")
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
    server: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Which tile of each operand a tile of SIZES, such as 16,32, of the output of INSTRUCTION in the module in FILE reads.

    As numbers for this one, and as expressions in the sizes d0, d1, … of any tile that begins at 0, with the constraints under which they
    hold; without SIZES the expressions alone.
    """
    with connected(server, timeout) as service:
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
            {
                "instruction": found.instruction,
                "computation": found.computation,
                "opcode": found.opcode,
                "tiles": [_json(one, style) for one in found.tiles],
            }
        )
        return
    click.echo(f"{found.instruction} ({found.opcode}, in {found.computation})")
    for one in found.tiles:
        click.echo(f"  operand {one.operand} ({one.operand_name})")
        click.echo(f"    {one.access.text}")
        if sizes is not None:
            click.echo(f"    this tile    {_text(one)}")
        if one.symbolic is None:
            click.echo("    any tile     no such form is seen")
        else:
            lines = one.symbolic.text.splitlines()[1:]
            for number, line in enumerate(lines):
                click.echo(f"    {'any tile' if number == 0 else '':<11}{line}")


def _text(one: OperandTile) -> str:
    if one.tile is None:
        return "what is read is no tile"
    parts = [f"{name} {','.join(map(str, values))}" for name, values in one.tile._asdict().items() if values]
    return ", ".join(parts) if parts else "the only element"


def _json(one: OperandTile, style: str) -> dict[str, Any]:
    symbolic = one.symbolic
    return {
        "operand": one.operand,
        "operand_name": one.operand_name,
        "leaf": one.access.leaf,
        "map": one.access.text,
        "tile": None if one.tile is None else one.tile._asdict(),
        "symbolic": None
        if symbolic is None
        else {
            "offset_map": symbolic.offset_map.to_text(style),
            "size_map": symbolic.size_map.to_text(style),
            "stride_map": symbolic.stride_map.to_text(style),
            "constraints": symbolic.constraints,
        },
    }
