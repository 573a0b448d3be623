"""How well instructions read: `reads`."""

from __future__ import annotations

import click

from xlashape.cli.connection import connected, query_options
from xlashape.cli.modules import module_of
from xlashape.cli.output import print_json, print_table

__all__ = ["reads"]


@click.command(short_help="How well the instructions of a module read their operands.")
@click.argument("file")
@click.argument("instruction", required=False, default="")
@click.option("--output", type=click.IntRange(min=0), metavar="N", help="The reads of one output of several alone.")
@click.option("--computation", default="", metavar="NAME", help="The instructions of one computation alone.")
@click.option(
    "--warp", type=click.IntRange(min=1), default=32, show_default=True, help="Neighbouring outputs that read together."
)
@click.option(
    "--segment-bytes",
    type=click.IntRange(1, 2**31 - 1),
    default=128,
    show_default=True,
    help="What one memory transaction fetches.",
)
@query_options
def reads(
    file: str,
    instruction: str,
    output: int | None,
    computation: str,
    warp: int,
    segment_bytes: int,
    server: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """How INSTRUCTION (or each one that is executed) of the module in FILE reads its operands.

    For each operand: which part of it is read and how often; and, for each way it is read, how many elements apart in memory
    neighbouring outputs read, and how many segments a warp of them touches on average, beside as few as could be.

    Left out of a whole module is what reads nothing from memory: the instructions of fused and applied computations, tuples and their
    elements, bitcasts. --computation lists all of one.
    """
    with connected(server, timeout) as service:
        found = service.operand_reads(
            module_of(file),
            instruction,
            computation=computation,
            output=output,
            warp=warp,
            segment_bytes=segment_bytes,
        )
        rows = [(each, read, access) for each in found for read in each.reads for access in read.accesses]
    if as_json:
        print_json(
            [
                {
                    "instruction": each.instruction,
                    "computation": each.computation,
                    "opcode": each.opcode,
                    "output": read.output,
                    "operand": read.operand,
                    "operand_name": read.operand_name,
                    "elements": read.elements,
                    "distinct": read.distinct_elements,
                    "is_upper_bound": read.is_upper_bound,
                    "reads": read.reads,
                    "utilisation": read.utilisation,
                    "reads_per_element": read.reads_per_element,
                    "leaf": access.leaf,
                    "stride": access.stride,
                    "transactions": access.transactions,
                    "ideal": access.ideal_transactions,
                    "map": access.text,
                }
                for each, read, access in rows
            ]
        )
        return
    print_table(
        ["instruction", "reads", "part read", "times", "stride", "segments", "ideal"],
        [
            (
                each.instruction,
                read.operand_name,
                ("≤ " if read.is_upper_bound else "") + _number(read.utilisation, ".1%"),
                _number(read.reads_per_element, ".4g"),
                _number(access.stride, "d"),
                _number(access.transactions, ".4g"),
                _number(access.ideal_transactions if access.transactions is not None else None, "d"),
            )
            for each, read, access in rows
        ],
        right=["part read", "times", "stride", "segments", "ideal"],
    )


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
