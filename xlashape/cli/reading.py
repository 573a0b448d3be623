"""How efficiently instructions read: `reads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from xlashape.cli.connection import connected, query_options
from xlashape.cli.modules import module_of
from xlashape.cli.output import one_line, print_json, print_table

if TYPE_CHECKING:
    from xlashape_client.results import CoalescedAccess, InstructionReads, OperandReads

__all__ = ["reads"]


@click.command(short_help="How efficiently the instructions of a module read their operands.")
@click.argument("file")
@click.argument("instruction", required=False, default="")
@click.option("--output", type=click.IntRange(min=0), metavar="N", help="Only the reads of this output.")
@click.option("--computation", default="", metavar="NAME", help="Only the instructions of this computation.")
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
    output: int | None,
    computation: str,
    warp: int,
    segment_bytes: int,
    server: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """How efficiently an instruction reads its operands: INSTRUCTION of the module in FILE, or each instruction that is executed.

    For each operand: the part of it that is read, and how often. For each way it is read: the distance in memory, in elements, between the
    reads of neighbouring outputs, and the average number of segments that a warp of outputs reads, beside the least possible number.

    The list for a whole module leaves out instructions that read nothing from memory: those of fused and applied computations, tuples and
    their elements, and bitcasts. --computation lists all instructions of one computation. Instructions that are not answered come last,
    with the reason.
    """
    with connected(server, timeout) as service:
        answers = service.operand_reads(
            module_of(file),
            instruction,
            computation=computation,
            output=output,
            warp=warp,
            segment_bytes=segment_bytes,
            report_errors=True,
        )
        rows: list[tuple[InstructionReads, OperandReads, CoalescedAccess]] = []
        failed: list[tuple[InstructionReads, str]] = []
        for instruction_reads in answers:
            if instruction_reads.error is not None:
                failed.append((instruction_reads, one_line(instruction_reads.error)))
            for read in instruction_reads.reads:
                rows += [(instruction_reads, read, access) for access in read.accesses]
    if as_json:
        print_json(
            [
                {
                    "instruction": instruction_reads.instruction,
                    "computation": instruction_reads.computation,
                    "opcode": instruction_reads.opcode,
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
                for instruction_reads, read, access in rows
            ]
            + [
                {
                    "instruction": instruction_reads.instruction,
                    "computation": instruction_reads.computation,
                    "opcode": instruction_reads.opcode,
                    "error": reason,
                }
                for instruction_reads, reason in failed
            ]
        )
        return
    print_table(
        ["instruction", "reads", "part read", "times", "stride", "segments", "ideal"],
        [
            (
                instruction_reads.instruction,
                read.operand_name,
                ("≤ " if read.is_upper_bound else "") + _number(read.utilisation, ".1%"),
                _number(read.reads_per_element, ".4g"),
                _number(access.stride, "d"),
                _number(access.transactions, ".4g"),
                _number(access.ideal_transactions if access.transactions is not None else None, "d"),
            )
            for instruction_reads, read, access in rows
        ],
        right=["part read", "times", "stride", "segments", "ideal"],
        footer="\n".join(["", *[f"{reads.instruction} is not known: {reason}" for reads, reason in failed]]),
    )


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
