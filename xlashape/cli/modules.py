"""Commands about modules: `size` and `map`."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlashape.cli.connection import connected, query_options
from xlashape.cli.output import one_line, print_json, print_table, share_text
from xlashape.errors import InvalidArgumentError, NotFoundError
from xlashape.math import byte_text, checked_int64
from xlashape.shape import Shape, shape_util
from xlashape.shape.parts.target import TARGETS

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods
    from xlashape_client.results import ByteTotals, InstructionMaps, InstructionSize

__all__ = ["map_", "size"]


@click.command(short_help="How many bytes a shape or a module takes.")
@click.argument("what", metavar="SHAPE_OR_FILE")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="The number of instructions to show; 0 shows all. --json always lists all.",
)
@click.option(
    "--order", type=click.Choice(["padding", "physical", "module"]), default="padding", show_default=True,
    help="Of a file: the order of the instructions.",
)  # fmt: skip
@click.option("--computation", default="", metavar="NAME", help="Of a file: only the instructions of this computation.")
@click.option(
    "--target", type=click.Choice(sorted(TARGETS)),
    help="Of a shape: the buffers that XLA reserves for it on such a device, tables of tuples included.",
)  # fmt: skip
@query_options
def size(
    what: str,
    limit: int,
    order: str,
    computation: str,
    target: str | None,
    server: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """How many bytes a shape takes; or the instructions of the HLO module in a file, ordered by the bytes of padding in their results."""
    if target is not None:
        if _is_module(what):
            raise InvalidArgumentError(
                "--target is for a shape; for a module ask `xlashape why FILE --target …`", field="--target"
            )
        _size_on_target(what, target, as_json)
        return
    with connected(server, timeout) as service:
        if _is_module(what):
            _module_size(service, what, limit, order, computation, as_json)
        else:
            _shape_size(service, what, as_json)


def module_of(file: str) -> bytes | str:
    """A module as the service takes it: the bytes of standard input for `-`, which can be read once, else the path."""
    return sys.stdin.buffer.read() if file == "-" else file


def _is_module(what: str) -> bool:
    """Whether `what` is the name of a stored module, an existing file, or text without the brackets of a shape, which is taken for a path."""
    if what == "-" or what.startswith("modules/"):
        return True
    try:
        if what and ("#" in what or Path(what).is_dir()):  # a module of a profile, or a directory of modules
            return True
        return bool(what) and (Path(what).is_file() or not any(bracket in what for bracket in "[("))
    except (OSError, ValueError):  # the text is too long for a file name, or has a NUL
        return False


def _shape_size(service: ServiceMethods, text: str, as_json: bool) -> None:
    shape_size = service.byte_size(text)
    if as_json:
        print_json({"shape": text, **shape_size._asdict(), "padding_bytes": shape_size.padding_bytes})
        return
    padding = shape_size.padding_bytes
    click.echo(
        byte_text(shape_size.physical_bytes)
        + (
            f": {byte_text(shape_size.logical_bytes)} of elements, {byte_text(padding)} ({share_text(padding, shape_size.physical_bytes)}) of padding"
            if padding
            else ""
        )
    )


def _size_on_target(text: str, target: str, as_json: bool) -> None:
    buffers = shape_util.buffers_of(Shape.parse(text), target)
    total = checked_int64(sum([buffer.byte_size for buffer in buffers]), "the number of bytes")
    if as_json:
        rows = [{"index": str(b.shape_index), "shape": str(b.shape), "bytes": b.byte_size} for b in buffers]
        print_json({"shape": text, "target": target, "bytes": total, "buffers": rows})
        return
    if len(buffers) > 1:
        print_table(
            ["index", "shape", "bytes"],
            [(str(buffer.shape_index), str(buffer.shape), f"{buffer.byte_size:,}") for buffer in buffers],
            right=["bytes"],
        )
    click.echo(byte_text(total))


_ORDERS = {"padding": "padding_bytes", "physical": "physical_bytes", "module": "module"}


def _module_size(service: ServiceMethods, file: str, limit: int, order: str, computation: str, as_json: bool) -> None:
    module = module_of(file)
    totals = service.byte_totals(module, computation=computation)
    rows = service.byte_sizes(module, computation=computation, order=_ORDERS[order])
    if as_json:
        print_json({"module": file, "totals": totals._asdict(), "instructions": [_size_json(row) for row in rows]})
        return
    shown = list(islice(rows, limit or None))
    print_table(
        ["instruction", "shape", "logical", "physical", "padding", "share"],
        [
            (
                row.instruction,
                row.shape,
                _count(row.logical_bytes),
                _count(row.physical_bytes),
                _count(row.padding_bytes),
                share_text(row.padding_bytes, row.physical_bytes)
                if row.padding_bytes is not None and row.physical_bytes
                else "",
            )
            for row in shown
        ],
        right=["logical", "physical", "padding", "share"],
        footer=(
            f"\n{totals.instruction_count} results: {byte_text(totals.physical_bytes)}, of which {byte_text(totals.padding_bytes)} "
            f"({share_text(totals.padding_bytes, totals.physical_bytes)}) padding{_left_out(totals)}"
        ),
    )


def _left_out(totals: ByteTotals) -> str:
    """A line that says which instructions are not counted; nothing if all are."""
    shared, fused = totals.shared_instruction_count, totals.fused_instruction_count
    reasons = [f"{shared} that share the buffers of others"] if shared else []
    reasons += [f"{fused} that are fused or applied to elements"] if fused else []
    return f"\nnot counted: {', '.join(reasons)}" if reasons else ""


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _size_json(row: InstructionSize) -> dict[str, Any]:
    return row._asdict() | {"shape": str(row.shape)}


@click.command("map", short_help="What the instructions of a module read.")
@click.argument("file")
@click.argument("instruction", required=False, default="")
@click.option("--operand", type=click.IntRange(min=0), metavar="N", help="Only the maps of this operand.")
@click.option("--output", type=click.IntRange(min=0), metavar="N", help="Only the maps of this output.")
@click.option(
    "--input-to-output",
    "forward",
    is_flag=True,
    help="Map elements of an operand to elements of the output, instead of elements of the output to elements of operands.",
)
@click.option(
    "--style", type=click.Choice(["xla", "affine"]), default="xla", show_default=True, help="The syntax of the maps."
)
@click.option("--raw", is_flag=True, help="Print the maps as the operation defines them, not simplified.")
@click.option(
    "--physical", is_flag=True, help="Map positions in the output's buffer to positions in the operands' buffers."
)
@click.option("--computation", default="", metavar="NAME", help="Only the instructions of this computation.")
@query_options
def map_(
    file: str,
    instruction: str,
    operand: int | None,
    output: int | None,
    forward: bool,
    style: str,
    raw: bool,
    physical: bool,
    computation: str,
    server: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Which elements of its operands an instruction reads, as indexing maps: INSTRUCTION of the module in FILE, or each instruction.

    In the list for a whole module, an instruction that is not answered has the reason in place of its maps.
    """
    with connected(server, timeout) as service:
        module = module_of(file)
        answers = service.indexing_maps(
            module,
            instruction,
            computation=computation,
            direction="input_to_output" if forward else "output_to_input",
            index=operand if forward else output,
            raw=raw,
            physical=physical,
            style=style,
            report_errors=True,
        )
        chosen = (_selected(instruction_maps, operand, output) for instruction_maps in answers)
        if instruction and (operand is not None or output is not None):
            chosen = iter([_checked(service, next(chosen), module, operand, output)])
        if as_json:
            print_json([_maps_json(instruction_maps) for instruction_maps in chosen])
            return
        for number, instruction_maps in enumerate(
            instruction_maps
            for instruction_maps in chosen
            if instruction_maps.maps or instruction_maps.error or instruction
        ):
            if number:
                click.echo()
            _print_maps(instruction_maps)


def _selected(instruction_maps: InstructionMaps, operand: int | None, output: int | None) -> InstructionMaps:
    maps = (
        tensor
        for tensor in instruction_maps.maps
        if operand in (None, tensor.operand) and output in (None, tensor.output)
    )
    return instruction_maps._replace(maps=tuple(maps))


def _checked(
    service: ServiceMethods,
    instruction_maps: InstructionMaps,
    module: bytes | str,
    operand: int | None,
    output: int | None,
) -> InstructionMaps:
    """The selected maps. NotFoundError if there are none because the instruction has no such operand or output."""
    if not instruction_maps.maps:
        known = next(
            each
            for each in service.list_instructions(module, computation=instruction_maps.computation)
            if each.name == instruction_maps.instruction
        )
        outputs = sum(1 for _ in known.shape.leaves())
        for what, number, count in (("operand", operand, len(known.operands)), ("output", output, outputs)):
            if number is not None and number >= count:
                raise NotFoundError(f"{instruction_maps.instruction} has no {what} {number}: it has {count}")
    return instruction_maps


def _maps_json(instruction_maps: InstructionMaps) -> dict[str, Any]:
    error = instruction_maps.error
    return {
        "instruction": instruction_maps.instruction,
        "computation": instruction_maps.computation,
        "opcode": instruction_maps.opcode,
        "direction": instruction_maps.direction,
        "maps": [
            {
                "output": tensor.output,
                "operand": tensor.operand,
                "operand_name": tensor.operand_name,
                "knowledge": tensor.knowledge,
                "accesses": [
                    {
                        "map": access.text,
                        "knowledge": access.knowledge,
                        "runtime": [{"instruction": rt.instruction, "map": str(rt.map)} for rt in access.runtime],
                    }
                    for access in tensor.accesses
                ],
            }
            for tensor in instruction_maps.maps
        ],
        **({} if error is None else {"error": one_line(error)}),
    }


def _print_maps(instruction_maps: InstructionMaps) -> None:
    click.echo(f"{instruction_maps.instruction} ({instruction_maps.opcode}, in {instruction_maps.computation})")
    if instruction_maps.error is not None:
        click.echo(f"  not known: {one_line(instruction_maps.error)}")
    elif not instruction_maps.maps:
        click.echo("  reads nothing")
    outputs = {tensor.output for tensor in instruction_maps.maps}
    for tensor in instruction_maps.maps:
        output = f"output {tensor.output}" if len(outputs) > 1 else "output"
        operand = f"operand {tensor.operand} ({tensor.operand_name})"
        ends = f"{output} → {operand}" if instruction_maps.direction == "output_to_input" else f"{operand} → {output}"
        doubt = "" if tensor.knowledge == "exact" else f": {tensor.knowledge}"
        click.echo(f"  {ends}{doubt}")
        for access in tensor.accesses:
            click.echo(f"    {access.text}")
            for number, rt in enumerate(access.runtime):
                click.echo(f"      rt{number} is {rt.instruction} at {rt.map}")
