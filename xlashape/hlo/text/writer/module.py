"""HLO text of a module. Matches XLA's HloModule::ToString, what `module.to_string()` of jaxlib gives.

    module_text(module)                                  # the default
    module_text(module, style="short_parsable")          # or canonical, fingerprint
    module_text(module, print_large_constants=True, print_percent=False)

The text is that of the proto: what the schema has no field for (replica_count, num_partitions, …) is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from xlashape.errors import InvalidModuleError
from xlashape.hlo.config import ModuleConfig
from xlashape.hlo.formatting import ints, safe_name
from xlashape.hlo.structure import LOCAL_ID
from xlashape.hlo.text.writer.computation import ComputationPrinter
from xlashape.hlo.text.writer.options import PrintOptions
from xlashape.hlo.text.writer.source import Computation
from xlashape.hlo.values.metadata_text import frontend_attributes_text, original_array_text
from xlashape.hlo.values.sharding_text import numbered
from xlashape.limits import check
from xlashape.proto import coerce, xla

if TYPE_CHECKING:
    from xlashape.hlo.module import HloModule

__all__ = ["PrintOptions", "module_text"]

_MAX_RECOVERY_DEPTH = 20
_ALIAS_KINDS = {xla.MAY_ALIAS: "may-alias", xla.MUST_ALIAS: "must-alias"}


def module_text(
    module: HloModule | Message | bytes,
    style: str | PrintOptions = "default",
    *,
    config: ModuleConfig | None = None,
    **changes: Any,
) -> str:
    """The text of a module: an HloModule, an HloModuleProto or its bytes.

    `style` is a PrintOptions or the name of one: default, short_parsable, canonical, fingerprint; `changes` are single options.
    `config` is what the head says beyond the proto; an HloModule brings its own.
    Raises InvalidArgumentError for an unknown style or option, InvalidModuleError naming the instruction for a module that
    cannot be printed, LimitExceededError where computations within computations grow without end.

    >>> one = xla.HloInstructionProto(name="p", opcode="parameter", shape=xla.ShapeProto(element_type=xla.F32))
    >>> main = xla.HloComputationProto(name="main", instructions=[one])
    >>> print(module_text(xla.HloModuleProto(name="m", computations=[main])).strip())
    HloModule m, entry_computation_layout={()->()}
    <BLANKLINE>
    ENTRY %main (p: f32[]) -> f32[] {
      ROOT %p = f32[] parameter(0)
    }
    """
    if config is None:
        config = ModuleConfig() if isinstance(module, (bytes, Message)) else module.config
    return _module_text(module, PrintOptions.of(style, **changes), 0, config)


def _module_text(module: HloModule | Message | bytes, options: PrintOptions, depth: int, config: ModuleConfig) -> str:
    data = module if isinstance(module, bytes) else None
    proto = coerce(xla.HloModuleProto, module if isinstance(module, (bytes, Message)) else module.proto)
    printer = ComputationPrinter(proto, options, data)
    tab = "  " * options.indent_amount
    parts = [tab + _header(proto, printer, config), *_recovery_table(proto, options, depth), ""]
    tables = printer.frames.lines()
    if tables:
        parts += [*tables, ""]
    hidden = printer.hidden()
    schedules = {place & LOCAL_ID: one.instruction_ids for place, one in proto.schedule.sequences.items()}
    entry = proto.entry_computation_id & LOCAL_ID
    blocks: list[tuple[bool, str]] = []
    for place in printer.computation_order():
        if place in hidden:
            continue
        computation = printer.computations[place]
        sequence = schedules.get(computation.id)
        order = None if sequence is None else _scheduled(computation, sequence)
        is_entry = computation.id == entry
        blocks.append((is_entry, "\n".join(printer.lines(place, entry=is_entry, order=order))))
    if options.canonicalize_computations:
        blocks.sort()
    for _, text in blocks:
        parts += [text, ""]
    parts.append("")
    return "\n".join(parts)


def _scheduled(computation: Computation, sequence: Iterable[int]) -> list[int]:
    """The places of the instructions in the order of their schedule."""
    order = [computation.places.get(one & LOCAL_ID, -1) for one in sequence]
    if -1 in order or not len(order) == len(computation.ids) == len(set(order)):
        raise InvalidModuleError(f"computation {computation.name!r}: its schedule is not an order of its instructions")
    return order


def _header(proto: xla.HloModuleProto, printer: ComputationPrinter, config: ModuleConfig) -> str:
    text = f"HloModule {safe_name(proto.name) if printer.options.print_ids else ''}"
    if proto.HasField("schedule"):
        text += ", is_scheduled=true"
    aliases = _aliases(proto)
    if aliases:
        text += f", input_output_alias={{ {', '.join(aliases)} }}"
    donors = sorted((one.parameter_number, tuple(one.parameter_shape_index)) for one in proto.buffer_donor.entries)
    if donors:
        text += f", buffer_donor={{ {', '.join([f'({number}, {ints(index)})' for number, index in donors])} }}"
    text += (
        f"{config.before_layout}, entry_computation_layout={{{_program_shape(proto, printer)}}}{config.after_layout}"
    )
    frontend = frontend_attributes_text(proto.frontend_attributes)
    text = f"{text}, frontend_attributes={frontend}" if frontend else text
    return f"{text}, origin_recovery_table={{" if proto.original_value_recovery_table.entries else text


def _recovery_table(proto: xla.HloModuleProto, options: PrintOptions, depth: int) -> list[str]:
    """The lines behind `origin_recovery_table={`; none without a table."""
    entries = {
        (one.old_original_array.instruction_name, tuple(one.old_original_array.shape_index)): one
        for one in proto.original_value_recovery_table.entries
    }
    if not entries:
        return []
    check("recovery modules within recovery modules", depth, _MAX_RECOVERY_DEPTH)
    tab = "  " * options.indent_amount
    lines: list[str] = []
    for _, one in sorted(entries.items(), key=itemgetter(0)):
        old, new = original_array_text(one.old_original_array), original_array_text(one.new_original_array)
        whole = one.HasField("recovery_module")
        lines.append(f"{tab}  {{{old}}} : {{{new}}}{',' if whole else ''}")
        if whole:
            inner = PrintOptions(indent_amount=options.indent_amount + 2)
            lines += [f'{tab}  "', _module_text(one.recovery_module, inner, depth + 1, ModuleConfig()), f'{tab}  "']
    return [*lines, "}", ""]


def _aliases(proto: xla.HloModuleProto) -> list[str]:
    parts: list[tuple[tuple[int, ...], str]] = []
    for one in proto.input_output_alias.entries:
        kind = _ALIAS_KINDS.get(one.kind)
        if kind is None:
            raise InvalidModuleError(f"{one.kind} is no kind of aliasing")
        target = f"({one.parameter_number}, {ints(one.parameter_shape_index)}, {kind})"
        parts.append((tuple(one.output_shape_index), f"{ints(one.output_shape_index)}: {target}"))
    return [text for _, text in sorted(parts)]


def _program_shape(proto: xla.HloModuleProto, printer: ComputationPrinter) -> str:
    shape = proto.host_program_shape
    parameters = [printer.full_shapes[one.SerializeToString()] for one in shape.parameters]
    result = printer.full_shapes[shape.result.SerializeToString()] if shape.HasField("result") else "()"
    return f"({numbered(parameters)})->{result}"
