"""How well instructions read: `reads`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from xlashape.cli.modules import module_of
from xlashape.cli.output import print_json, print_table
from xlashape.errors import XlashapeError

__all__ = ["reads"]


class _Row(NamedTuple):
    """One way in which one output of an instruction reads one operand. What is not known is None."""

    instruction: str
    output: int
    operand: int
    operand_name: str
    elements: int
    distinct: int | None
    utilisation: float | None
    reads_per_element: float | None
    stride: int | None
    transactions: float | None
    ideal: int | None
    map: str


@click.command(short_help="How well the instructions of a module read their operands.")
@click.argument("file")
@click.argument("instruction", required=False, default="")
@click.option(
    "--warp", type=click.IntRange(min=1), default=32, show_default=True, help="Neighbouring outputs that read together."
)
@click.option(
    "--segment-bytes",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="What one memory transaction fetches.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text for people.")
def reads(file: str, instruction: str, warp: int, segment_bytes: int, as_json: bool) -> None:
    """How INSTRUCTION (or each one of the entry computation) of the module in FILE reads its operands.

    For each operand: which part of it is read and how often; and, for each way it is read, how many elements apart in memory
    neighbouring outputs read, and how many segments a warp of them touches on average, beside as few as could be.
    """
    from xlashape.hlo import HloModule

    content = module_of(file)
    module = HloModule.from_bytes(content) if isinstance(content, bytes) else HloModule.load(content)
    chosen = [module.instruction(instruction)] if instruction else module.entry.instructions
    rows = [row for one in chosen for row in _rows(one, warp, segment_bytes, strict=bool(instruction))]
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    print_table(
        ["instruction", "reads", "part read", "times", "stride", "segments", "ideal"],
        [
            (
                row.instruction,
                row.operand_name,
                _number(row.utilisation, ".1%"),
                _number(row.reads_per_element, ".4g"),
                _number(row.stride, "d"),
                _number(row.transactions, ".4g"),
                _number(row.ideal, "d"),
            )
            for row in rows
        ],
        right=["part read", "times", "stride", "segments", "ideal"],
    )


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)


def _rows(one: Any, warp: int, segment_bytes: int, *, strict: bool) -> Iterator[_Row]:
    from xlashape.indexing import coalescing, operand_utilisation
    from xlashape.indexing.registry import leaves

    for output, leaf in enumerate(leaves(one.shape)):
        if not leaf.is_array or not one.operands:
            continue
        try:
            used = operand_utilisation(one, output)
            ways = coalescing(one, output, warp=warp, segment_bytes=segment_bytes)
        except XlashapeError:
            if strict:
                raise
            continue
        for way in ways:
            use = used[way.operand]
            yield _Row(
                instruction=one.name,
                output=output,
                operand=way.operand,
                operand_name=one.operands[way.operand].name,
                elements=use.elements,
                distinct=use.distinct,
                utilisation=use.utilisation,
                reads_per_element=use.reads_per_element,
                stride=way.stride,
                transactions=way.transactions,
                ideal=way.ideal if way.transactions is not None else None,
                map=str(way.indexing.map),
            )
