"""How many bytes shapes and the instructions of modules take: `size`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

from xlashape.cli.completing import complete_files, computation_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import is_module, loaded, module_of, naming
from xlashape.cli.output import echo, one_line, print_json, share_text
from xlashape.cli.progress import progress
from xlashape.cli.rows import Row, Selection, row_options, write_rows
from xlashape.cli.tables import Heading, print_table
from xlashape.errors import XlashapeError
from xlashape.math import byte_text, checked_int64
from xlashape.shape import Shape, Target
from xlashape.shape.tiling.physical_size import physical_bytes
from xlashape.tables import Column, Kind

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods
    from xlashape_client.results import ByteTotals, InstructionSize

__all__ = ["SIZE_COLUMNS", "size"]

SIZE_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "the name of the instruction"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("shape", Kind.TEXT, "the shape of its result, with its layout"),
    Column("logical_bytes", Kind.INTEGER, "the bytes of the elements"),
    Column("physical_bytes", Kind.INTEGER, "the bytes of the buffers, padding included"),
    Column("padding_bytes", Kind.INTEGER, "the bytes of the buffers that are not elements"),
    Column("padding_share", Kind.NUMBER, "padding ÷ buffers, 0 to 1"),
    Column("error", Kind.TEXT, "why the sizes are not known"),
)

_HEADINGS: Final = (
    Heading("instruction"),
    Heading("shape", importance=5),
    Heading("logical", is_right=True, importance=2),
    Heading("physical", is_right=True, importance=4),
    Heading("padding", is_right=True, importance=3),
    Heading("share", is_right=True, importance=1),
)

_ORDERS: Final = {"padding": "padding_bytes", "physical": "physical_bytes", "module": "module"}
_SORTS: Final = {"padding": "padding_bytes", "physical": "physical_bytes"}


@click.command(short_help="How many bytes a shape or the instructions of a module take.")
@click.argument("what", metavar="SHAPE_OR_FILE", shell_complete=complete_files)
@row_options(20, "instructions")
@click.option("--order", type=click.Choice(["padding", "physical", "module"]), hidden=True, help="The older --sort.")
@click.option(
    "--computation", default="", metavar="NAME", shell_complete=computation_names, help="Of a file: only the instructions of this computation.",
)  # fmt: skip
@click.option(
    "--target", metavar="DEVICE",
    help="Count what is reserved on cpu, gpu, tpu, or a TPU's generation such as tpu-v5e; of a tuple, its table too. TPUs give layouts without tiles their own order and tiles. This process answers, with modules/… from --server.",
)  # fmt: skip
@query_options
def size(
    what: str,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    order: str | None,
    computation: str,
    target: str | None,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """How many bytes a shape takes; or the instructions of the HLO module in a file, those with the most padding first.

    Of a file, only results that have memory of their own count. --sort module keeps the module's order.
    """
    form = "json" if as_json else form or "table"
    selected = Selection(filters, sort, limit, {"share": "padding_share", "padding": "padding_bytes"})
    if target is not None:
        device = Target.of(target)
        if is_module(what):
            with naming(what):
                _module_size_on_target(what, device, form, selected, order, computation, server, timeout)
        else:
            _size_on_target(what, device, form == "json")
        return
    with naming(what), connected(server, timeout) as service:
        if is_module(what):
            _module_size(service, what, form, selected, order, computation)
        else:
            _shape_size(service, what, form == "json")


def _shape_size(service: ServiceMethods, text: str, as_json: bool) -> None:
    shape_size = service.byte_size(text)
    if as_json:
        print_json("size.v1", {"shape": text, **shape_size._asdict(), "padding_bytes": shape_size.padding_bytes})
        return
    padding = shape_size.padding_bytes
    echo(
        byte_text(shape_size.physical_bytes)
        + (
            f": {byte_text(shape_size.logical_bytes)} of elements, {byte_text(padding)} ({share_text(padding, shape_size.physical_bytes)}) of padding"
            if padding
            else ""
        )
    )


def _size_on_target(text: str, target: Target, as_json: bool) -> None:
    from xlashape.cli.targets import buffers_on_target  # deferred, as all that loads NumPy

    buffers = buffers_on_target(Shape.parse(text), target)
    total = checked_int64(sum([size for _, _, size in buffers]), "the number of bytes")
    if as_json:
        rows = [{"index": index, "shape": shape, "bytes": size} for index, shape, size in buffers]
        print_json("size-on-target.v1", {"shape": text, "target": target.name, "bytes": total, "buffers": rows})
        return
    if len(buffers) > 1:
        print_table(
            [Heading("index"), Heading("shape", importance=1), Heading("bytes", is_right=True)],
            [(index, shape, f"{size:,}") for index, shape, size in buffers],
        )
    echo(byte_text(total))


def _module_size(
    service: ServiceMethods, file: str, form: str, selection: Selection, order: str | None, computation: str
) -> None:
    module = module_of(file)
    progress("reading the module")
    totals = service.byte_totals(module, computation=computation)
    order, selection = _ordered(order, selection)
    answers = service.byte_sizes(module, computation=computation, order=_ORDERS[order or "padding"])
    _write(file, None, form, selection, totals, _counted(map(_row, answers), totals.instruction_count))


def _module_size_on_target(
    file: str,
    target: Target,
    form: str,
    selection: Selection,
    order: str | None,
    computation: str,
    server: ServerAddress | None,
    timeout: float,
) -> None:
    from xlashape.cli.targets import module_on_target  # deferred, as above

    totals, rows = module_on_target(loaded(file, server, timeout), computation, target)
    order, selection = _ordered(order, selection)
    if order != "module":
        number = 5 if order == "physical" else 6
        rows.sort(key=lambda row: -1 if row[number] is None else row[number], reverse=True)
    _write(file, target, form, selection, totals, rows)


def _ordered(order: str | None, selection: Selection) -> tuple[str | None, Selection]:
    """The order that the answers come in, and what is left for the selection to order."""
    if selection.sort == "module":
        return "module", selection._replace(sort=None)
    return order, selection if order is None else selection._replace(sort=_SORTS.get(order))


def _write(
    file: str, target: Target | None, form: str, selection: Selection, totals: ByteTotals, answers: Iterable[Row]
) -> None:
    rows = selection.chosen(SIZE_COLUMNS, answers, limit=20 if form == "table" else 0)
    if form == "json":
        names = [column.name for column in SIZE_COLUMNS]
        instructions = [dict(zip(names, row, strict=True)) for row in rows]
        name = None if target is None else target.name
        print_json(
            "module-size.v1",
            {"module": file, "target": name, "totals": totals._asdict(), "instructions": instructions},
        )
    elif form == "table":
        print_table(_HEADINGS, map(_cells, rows))
        on = "" if target is None else f" on {target.name}"
        echo(
            f"\n{totals.instruction_count} results{on}: {byte_text(totals.physical_bytes)}, of which {byte_text(totals.padding_bytes)} "
            f"({share_text(totals.padding_bytes, totals.physical_bytes)}) padding{_left_out(totals)}"
        )
    else:
        write_rows(form, SIZE_COLUMNS, rows)


def _counted(rows: Iterator[Row], total: int) -> Iterator[Row]:
    for number, row in enumerate(rows):
        if not number % 64:
            progress("measuring instructions", number, total)
        yield row


def _row(answer: InstructionSize) -> Row:
    known = answer.physical_bytes
    share = None if known is None else (answer.padding_bytes or 0) / known if known else 0.0
    return (
        answer.instruction,
        answer.computation,
        answer.opcode,
        str(answer.shape),
        answer.logical_bytes,
        known,
        answer.padding_bytes,
        share,
        _reason(answer.shape) if known is None else None,
    )


def _reason(shape: Shape) -> str:
    """Why the sizes of a shape are not known."""
    try:
        for leaf in shape.leaves():
            if leaf.is_array or leaf.is_buffer:
                physical_bytes(leaf.buffer_shape if leaf.is_buffer else leaf)
    except XlashapeError as error:
        return one_line(error)
    return "the size is not known"


def _cells(row: Row) -> tuple[str, ...]:
    name, _, _, shape, logical, physical, padding, _, error = row
    if error is not None:
        return (name, f"{shape}: {error}", "?", "?", "?", "")
    return (
        name,
        shape,
        f"{logical:,}",
        f"{physical:,}",
        f"{padding:,}",
        share_text(padding, physical) if physical else "",
    )


def _left_out(totals: ByteTotals) -> str:
    """A line that says which instructions are not counted; nothing if all are."""
    shared, fused = totals.shared_instruction_count, totals.fused_instruction_count
    reasons = [f"{shared} that share the buffers of others"] if shared else []
    reasons += [f"{fused} that are fused or applied to elements"] if fused else []
    return f"\nnot counted: {', '.join(reasons)}" if reasons else ""
