"""How efficiently instructions read: `reads`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from xlashape.cli.completing import complete_files, computation_names, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import count_readers, module_of, naming
from xlashape.cli.output import echo, one_line, print_json
from xlashape.cli.progress import progress
from xlashape.cli.rows import Row, Selection, row_options, write_rows
from xlashape.cli.tables import Heading, TableWriter

if TYPE_CHECKING:
    from xlashape_client.results import InstructionReads

__all__ = ["reads"]

_HEADINGS: Final = (
    Heading("instruction"),
    Heading("reads", importance=6),
    Heading("part read", is_right=True, importance=5),
    Heading("times", is_right=True, importance=3),
    Heading("stride", is_right=True, importance=2),
    Heading("segments", is_right=True, importance=4),
    Heading("ideal", is_right=True, importance=1),
)

_NAMES: Final = {
    "part read": "utilisation",
    "times": "reads_per_element",
    "segments": "transactions",
    "reads": "operand_name",
}


@click.command(short_help="How efficiently the instructions of a module read their operands.")
@click.argument("file", shell_complete=complete_files)
@click.argument("instruction", required=False, default="", shell_complete=instruction_names)
@row_options(0, "reads")
@click.option("--output", type=click.IntRange(min=0), metavar="N", help="Only the reads of this output.")
@click.option(
    "--computation", default="", metavar="NAME", shell_complete=computation_names, help="Only the instructions of this computation.",
)  # fmt: skip
@click.option(
    "--warp",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="The number of neighbouring outputs that read together.",
)
@click.option(
    "--segment-bytes",
    type=click.IntRange(1, 2**31 - 1),
    default=128,
    show_default=True,
    help="The bytes that one memory transaction fetches.",
)
@query_options
def reads(
    file: str,
    instruction: str,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    output: int | None,
    computation: str,
    warp: int,
    segment_bytes: int,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """How efficiently an instruction reads its operands: INSTRUCTION of the module in FILE, or each instruction that is executed.

    For each operand: the part of it that is read, and how often. For each way it is read: the distance in memory, in elements, between the
    reads of neighbouring outputs, and the average number of segments that a warp of outputs reads, beside the least possible number.

    The list for a whole module leaves out instructions that read nothing from memory: those of fused and applied computations, tuples and
    their elements, and bitcasts. --computation lists all instructions of one computation. An instruction that is not answered is a row
    with the reason.
    """
    # Deferred: the analysis takes longer to load than the command line.
    from xlashape.indexing.reports.read_table import READ_COLUMNS

    form = "json" if as_json else form or "table"
    with naming(file), connected(server, timeout) as service:
        module = module_of(file)
        total = None if instruction else count_readers(service, module, computation, executed=not computation)
        answers = service.operand_reads(
            module,
            instruction,
            computation=computation,
            output=output,
            warp=warp,
            segment_bytes=segment_bytes,
            report_errors=True,
        )
        rows = Selection(filters, sort, limit, _NAMES).chosen(READ_COLUMNS, _rows(answers, total))
        if form == "json":
            names = [column.name for column in READ_COLUMNS]
            print_json("reads.v1", {"module": file, "reads": [dict(zip(names, row, strict=True)) for row in rows]})
        elif form == "table":
            _print(rows, [column.name for column in READ_COLUMNS])
        else:
            write_rows(form, READ_COLUMNS, rows)


def _rows(answers: Iterable[InstructionReads], total: int | None) -> Iterator[Row]:
    """A row for each way of reading an operand, or for the reason why there is none."""
    for number, answer in enumerate(answers):
        progress("analysing reads", number, total)
        who = (answer.instruction, answer.computation, answer.opcode)
        for read in answer.reads:
            of_operand = (
                read.output,
                read.operand,
                read.operand_name,
                read.elements,
                read.distinct_elements,
                read.is_upper_bound,
                read.reads,
                read.utilisation,
                read.reads_per_element,
            )
            for access in read.accesses:
                yield (
                    *who,
                    *of_operand,
                    access.leaf,
                    access.stride,
                    access.transactions,
                    access.ideal_transactions,
                    access.text,
                    None,
                )
        if answer.error is not None:
            yield (*who, *[None] * 14, one_line(answer.error))


def _print(rows: Iterable[Row], names: Sequence[str]) -> None:
    failed: list[str] = []
    with TableWriter(_HEADINGS) as table:  # what was answered before an error, such as the end of the time, is shown
        for row in rows:
            known = dict(zip(names, row, strict=True))
            name = known["instruction"]
            if known["error"] is not None:
                table.add((name, "not known", "?", "?", "?", "?", "?"))
                failed.append(f"{name} is not known: {known['error']}")
                continue
            is_known = known["transactions"] is not None
            table.add(
                (
                    name,
                    known["operand_name"],
                    ("≤ " if known["is_upper_bound"] else "") + _number(known["utilisation"], ".1%"),
                    _number(known["reads_per_element"], ".4g"),
                    _number(known["stride"], "d"),
                    _number(known["transactions"], ".4g"),
                    _number(known["ideal"] if is_known else None, "d"),
                )
            )
    if failed:
        echo("\n" + "\n".join(failed))


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
