"""What the instructions of modules read, as indexing maps: `map`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from xlashape.cli.completing import complete_files, computation_names, instruction_names
from xlashape.cli.connection import ServerAddress, connected, query_options
from xlashape.cli.modules import count_readers, module_of, naming
from xlashape.cli.output import echo, one_line, print_json
from xlashape.cli.progress import progress
from xlashape.cli.rows import Row, Selection, row_options, write_rows
from xlashape.errors import NotFoundError
from xlashape.tables import Column, Kind

if TYPE_CHECKING:
    from xlashape_client.methods import ServiceMethods
    from xlashape_client.results import Access, InstructionMaps, TensorMaps

MAP_COLUMNS: Final = (
    Column("instruction", Kind.TEXT, "the name of the instruction"),
    Column("computation", Kind.TEXT, "the computation that it is in"),
    Column("opcode", Kind.TEXT, "its opcode"),
    Column("direction", Kind.TEXT, "output_to_input or input_to_output"),
    Column("output", Kind.INTEGER, "which array of its result, counted depth first"),
    Column("operand", Kind.INTEGER, "the number of the operand"),
    Column("operand_name", Kind.TEXT, "the name of the operand"),
    Column("knowledge", Kind.TEXT, "exact, every element (the operand may be read in part), or unknown"),
    Column("map", Kind.TEXT, "the map"),
    Column("error", Kind.TEXT, "why there are no maps"),
)


class _Part(NamedTuple):
    """A row, with what it is a row of."""

    row: Row
    of: InstructionMaps
    tensor: TensorMaps | None
    access: Access | None


@click.command("map", short_help="What the instructions of a module read, as indexing maps.")
@click.argument("file", shell_complete=complete_files)
@click.argument("instruction", required=False, default="", shell_complete=instruction_names)
@row_options(0, "instructions; of csv, jsonl and parquet, maps")
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
@click.option(
    "--computation", default="", metavar="NAME", shell_complete=computation_names, help="Only the instructions of this computation.",
)  # fmt: skip
@query_options
def map_(
    file: str,
    instruction: str,
    form: str | None,
    limit: int | None,
    sort: str | None,
    filters: tuple[str, ...],
    operand: int | None,
    output: int | None,
    forward: bool,
    style: str,
    raw: bool,
    physical: bool,
    computation: str,
    server: ServerAddress | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Which elements of its operands an instruction reads, as indexing maps: INSTRUCTION of the module in FILE, or each instruction.

    In the list for a whole module, an instruction that is not answered has the reason in place of its maps.
    """
    form = "json" if as_json else form or "table"
    selection = Selection(filters, sort, limit)
    with naming(file), connected(server, timeout) as service:
        module = module_of(file)
        total = None if instruction else count_readers(service, module, computation, executed=False)
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
        chosen = (_selected(instruction_maps, operand, output) for instruction_maps in _counted(answers, total))
        if instruction and (operand is not None or output is not None):
            chosen = iter([_checked(service, next(chosen), module, operand, output)])
        if form in ("json", "table"):
            found = _instructions(chosen, selection)
            if form == "json":
                print_json("map.v1", {"module": file, "instructions": [_maps_json(maps) for maps in found]})
            else:
                _print(found, with_empty=bool(instruction))
        else:
            rows = (part.row for maps in chosen for part in _parts(maps) if part.tensor is not None or maps.error)
            write_rows(form, MAP_COLUMNS, selection.chosen(MAP_COLUMNS, rows))


def _counted(answers: Iterable[InstructionMaps], total: int | None) -> Iterator[InstructionMaps]:
    for number, answer in enumerate(answers):
        progress("analysing maps", number, total)
        yield answer


def _parts(maps: InstructionMaps) -> Iterator[_Part]:
    """A row for each map of an instruction; for an instruction without maps, one without."""
    who = (maps.instruction, maps.computation, maps.opcode, maps.direction)
    if not maps.maps:
        error = None if maps.error is None else one_line(maps.error)
        yield _Part((*who, None, None, None, None, None, error), maps, None, None)
    for tensor in maps.maps:
        for access in tensor.accesses:
            ends = (tensor.output, tensor.operand, tensor.operand_name)
            yield _Part((*who, *ends, access.knowledge, access.text, None), maps, tensor, access)


def _instructions(answers: Iterable[InstructionMaps], selection: Selection) -> Iterator[InstructionMaps]:
    """The instructions of which the selection takes a map, with these maps."""
    if selection.is_all:
        return islice(answers, selection.limit or None)
    # The selection sees rows; each row carries what it was made of behind the columns.
    rows = ((*part.row, part) for maps in answers for part in _parts(maps))
    chosen = (row[-1] for row in selection._replace(limit=0).chosen(MAP_COLUMNS, rows))
    grouped = (list(group) for _, group in groupby(chosen, key=lambda part: (part.of.computation, part.of.instruction)))
    return islice(map(_together, grouped), selection.limit or None)


def _together(parts: list[_Part]) -> InstructionMaps:
    """An instruction with some of its maps."""
    tensors: dict[int, tuple[TensorMaps, list[Access]]] = {}
    for part in parts:
        if part.tensor is not None and part.access is not None:
            tensors.setdefault(id(part.tensor), (part.tensor, []))[1].append(part.access)
    kept = tuple([tensor._replace(accesses=tuple(accesses)) for tensor, accesses in tensors.values()])
    return parts[0].of._replace(maps=kept)


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
        "error": None if error is None else one_line(error),
    }


def _print(found: Iterable[InstructionMaps], *, with_empty: bool) -> None:
    is_first = True
    for maps in found:
        if maps.maps or maps.error or with_empty:
            if not is_first:
                echo()
            is_first = False
            _print_maps(maps)


def _print_maps(instruction_maps: InstructionMaps) -> None:
    echo(f"{instruction_maps.instruction} ({instruction_maps.opcode}, in {instruction_maps.computation})")
    if instruction_maps.error is not None:
        echo(f"  not known: {one_line(instruction_maps.error)}")
    elif not instruction_maps.maps:
        echo("  reads nothing")
    outputs = {tensor.output for tensor in instruction_maps.maps}
    for tensor in instruction_maps.maps:
        output = f"output {tensor.output}" if len(outputs) > 1 else "output"
        operand = f"operand {tensor.operand} ({tensor.operand_name})"
        ends = f"{output} → {operand}" if instruction_maps.direction == "output_to_input" else f"{operand} → {output}"
        doubt = "" if tensor.knowledge == "exact" else f": {tensor.knowledge}"
        echo(f"  {ends}{doubt}")
        for access in tensor.accesses:
            echo(f"    {access.text}")
            for number, rt in enumerate(access.runtime):
                echo(f"      rt{number} is {rt.instruction} at {rt.map}")
