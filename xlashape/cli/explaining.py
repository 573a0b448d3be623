"""Why buffers are as large as they are: `why`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from xlashape.cli.connection import connected, query_options
from xlashape.cli.output import print_json
from xlashape.errors import InvalidArgumentError

if TYPE_CHECKING:
    from xlashape.memory import Memory
    from xlashape.shape import Target

__all__ = ["why"]


@click.command(short_help="Why a buffer is as large as it is, and what would make it smaller.")
@click.argument("what", metavar="X")
@click.argument("instruction", required=False, default="")
@click.option(
    "--target",
    metavar="DEVICE",
    help="Count as on cpu, gpu, tpu, or a TPU's generation such as tpu-v5e. TPUs give layouts without tiles their own order and tiles.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Of a module: the number of buffers to explain; 0 explains all. --json lists all, and explains this many.",
)
@query_options
def why(
    what: str, instruction: str, target: str | None, limit: int, server: str | None, timeout: float, as_json: bool
) -> None:
    """Why the buffers of X are as large as they are, and what would make them smaller.

    X is a shape such as 's32[1024,8,4]{2,1,0:T(8,128)}'; a file with an HLO module, or one INSTRUCTION of it; the name of a module that
    --server keeps; or text with shapes in it, such as the report of a compiler that has run out of memory, in a file or as it is. `-` reads
    standard input.
    """
    # Deferred: NumPy and the readers of HLO take longer to load than the command line.
    from xlashape.shape import Target

    device = None if target is None else Target.of(target)
    memory = _explained(what, instruction, device, server, timeout)
    from xlashape.memory import ModuleMemory

    if as_json:
        rows = limit or None
        print_json({"x": what} | (memory.to_dict(rows) if isinstance(memory, ModuleMemory) else memory.to_dict()))
    else:
        click.echo(memory.to_text(limit) if isinstance(memory, ModuleMemory) else str(memory))


def _explained(what: str, instruction: str, target: Target | None, server: str | None, timeout: float) -> Memory:
    from xlashape.hlo import HloModule
    from xlashape.memory import why as explain

    if what.startswith("modules/"):
        with connected(server, timeout) as service:
            content = service.download_module(what)
        module = HloModule.from_bytes(content, name=what)
        return explain(module.instruction(instruction) if instruction else module, target=target)
    if instruction:
        module = HloModule.from_bytes(sys.stdin.buffer.read()) if what == "-" else HloModule.load(what)
        return explain(module.instruction(instruction), target=target)
    if what == "-":
        content = sys.stdin.buffer.read()
        if not content.strip():
            raise InvalidArgumentError("standard input is empty", field="X")
        return explain(content, target=target)
    return explain(what, target=target)
