"""Why buffers are as large as they are: `why`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from xlashape.cli.completing import complete_files, instruction_names
from xlashape.cli.connection import ServerAddress, answer_options
from xlashape.cli.modules import loaded, naming
from xlashape.cli.output import echo, print_json
from xlashape.cli.progress import progress
from xlashape.cli.rows import Selection, row_options, write_rows
from xlashape.errors import InvalidArgumentError

if TYPE_CHECKING:
    from xlashape.memory import Memory, ModuleMemory
    from xlashape.shape import Target

__all__ = ["why"]

_SHOWN: Final = 10


@click.command(short_help="Why a buffer is as large as it is, and what would make it smaller.")
@click.argument("what", metavar="X", shell_complete=complete_files)
@click.argument("instruction", required=False, default="", shell_complete=instruction_names)
@row_options(_SHOWN, "buffers of a module to explain")
@click.option(
    "--target",
    metavar="DEVICE",
    help="Count as on cpu, gpu, tpu, or a TPU's generation such as tpu-v5e. TPUs give layouts without tiles their own order and tiles.",
)
@answer_options
def why(
    what: str,
    instruction: str,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    target: str | None,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Why the buffers of X are as large as they are, and what would make them smaller.

    X is a shape such as 's32[1024,8,4]{2,1,0:T(8,128)}'; a file with an HLO module, or one INSTRUCTION of it; the name of a module that
    --server keeps; or text with shapes in it, such as the report of a compiler that has run out of memory, in a file or as it is. `-` reads
    standard input.

    Of a module, --format json lists all buffers and explains the first ten; --limit N lists and explains N.
    """
    # Deferred: NumPy and the readers of HLO take longer to load than the command line.
    from xlashape.memory import ModuleMemory
    from xlashape.shape import Target

    form = "json" if as_json else form or "table"
    selection = Selection(filters, sort, limit)
    device = None if target is None else Target.of(target)
    progress("measuring buffers")
    memory = _explained(what, instruction, device, server, timeout)
    if isinstance(memory, ModuleMemory):
        memory = _chosen(memory, selection, form)
    if form not in ("json", "table"):
        table = memory.table()
        rows = (tuple(row.values()) for row in table)
        rest = selection if not isinstance(memory, ModuleMemory) else Selection((), None, None)
        write_rows(form, table.columns, rest.chosen(table.columns, rows))
    elif not isinstance(memory, ModuleMemory):
        if form == "json":
            print_json("why.v1", {"x": what, **memory.to_dict()})
        else:
            echo(str(memory))
    elif form == "json":
        print_json("why.v1", {"x": what, **memory.to_dict(_SHOWN if limit is None else None if limit == 0 else limit)})
    else:
        echo(memory.to_text(_SHOWN if limit is None else limit, only_larger=selection.is_all))


def _chosen(memory: ModuleMemory, selection: Selection, form: str) -> ModuleMemory:
    """The memory with the buffers that are asked for, in their order. Sums are those of these buffers, if there is a filter."""
    if selection.is_all and (selection.limit is None or form == "table"):
        return memory
    table = memory.table()
    rows: Iterator[tuple[object, ...]] = (
        (*row.values(), buffer) for row, buffer in zip(table, memory.buffers, strict=True)
    )
    limited = selection if form != "table" else selection._replace(limit=0)
    return memory.replace(buffers=tuple([row[-1] for row in limited.chosen(table.columns, rows)]))


def _explained(
    what: str, instruction: str, target: Target | None, server: ServerAddress | None, timeout: float
) -> Memory:
    from xlashape.memory import why as explain

    if what.startswith("modules/") or instruction:
        with naming(what):
            module = loaded(what, server, timeout)
        return explain(module.instruction(instruction) if instruction else module, target=target)
    if what == "-":
        content = sys.stdin.buffer.read()
        if not content.strip():
            raise InvalidArgumentError("standard input is empty", field="X")
        return explain(content, target=target)
    return explain(what, target=target)
