"""Writes the text of a module, of one of its computations, or of one instruction. The text is that of XLA's
HloModule::ToString, which is `module.to_string()` in jaxlib.

    module_text(module)                                  # the default
    module_text(module, style="short_parsable")          # or canonical, fingerprint
    module_text(module, print_large_constants=True, print_percent=False)

    computation := 'ENTRY '? name signature? '{' line* '}' (', execution_thread="' thread '"')?

The text is made of the module's proto. The values that HloModuleProto has no field for (replica_count, num_partitions,
…) come from a ModuleConfig. `line.LineWriter` writes the lines.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from xlashape.errors import InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo.module_proto.compact import Held
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.text.writer.line import LineWriter
from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions
from xlashape.hlo.text.writer.templates import PrintedComputation
from xlashape.hlo.tokens import ints, safe_name, with_index_comments
from xlashape.hlo.values.aliasing import ALIAS_KINDS
from xlashape.hlo.values.metadata import debug_attributes_text, original_array_text
from xlashape.hlo.values.plain import frontend_attributes_text
from xlashape.limits import check, spend
from xlashape.proto import coerce, xla

_MAX_BODY_LEVELS: Final = 100
_MAX_BODIES: Final = 1 << 20
"""The greatest number of computations that are written where they are called. If computations call others twice, this
number grows exponentially with the depth of the calls."""


class ComputationWriter:
    """Writes the computations of one module."""

    def __init__(self, module: PrintedModule) -> None:
        self._module = module
        self._bodies = 0

    def lines(
        self,
        index: int,
        *,
        is_entry: bool,
        order: list[int] | None = None,
        level: int = 0,
        nested: bool = False,
        frontend: bool = True,
    ) -> list[str]:
        """The lines of a computation, each indented, from its header to its closing brace.

        `order` are the indices of its instructions in the order of the schedule; None for XLA's post order. `nested`
        says that the computation is written where it is called, and `level` at which depth. `frontend` says whether
        frontend attributes are written.
        """
        module = self._module
        options = module.options
        computation = module.computations[index]
        order = module.order(index) if order is None else order
        tab = "  " * (options.indent_amount + level)
        own_names = module.instruction_names(computation)
        compact = self._compact_elements(computation) if options.compact_get_tuple_elements else {}
        order = [i for i in order if i not in compact]
        names = self._names(own_names, order)
        for i in compact:  # operands are before their users
            names[i] = f"{names[computation.operands[i][0]]}#{compact[i]}"
        head = "ENTRY " if is_entry else ""
        if not nested and not options.is_in_nested_computation:
            head += f"{module.names[index]} " if options.print_ids else module.percent
        writer = LineWriter(module, computation, names, own_names, level, self._body, frontend=frontend)
        lines = [""]
        with _errors_name_instruction(computation, writer):
            writer.write(order, f"{tab}  ", lines)
            if options.print_program_shape:
                head += self._signature(computation, own_names)
            lines[0] = f"{tab}{head}{{"
        thread = computation.thread
        shows_thread = thread and thread != "main" and options.print_ids
        lines.append(f'{tab}}}, execution_thread="{thread}"' if shows_thread else f"{tab}}}")
        return lines

    def line(self, index: int, instruction: int, order: list[int] | None = None) -> str:
        """The text of instruction number `instruction` of computation number `index`, without `ROOT`. `order` is as for
        `lines`.

        As in XLA, an instruction that is written alone has no names at all if the options replace names by `tmp_0`, …,
        unless they also have `is_in_nested_computation`.
        """
        module = self._module
        computation = module.computations[index]
        own_names = module.kept_names(index)
        names = own_names
        if module.options.canonicalize_instruction_names:
            names = self._names(own_names, module.order(index) if order is None else order)
        shows_names = not module.options.canonicalize_instruction_names or module.options.is_in_nested_computation
        # Level -1 gives the bodies of called computations the same indentation as the instruction.
        writer = LineWriter(module, computation, names, own_names, -1, self._body, shows_names=shows_names)
        lines: list[str] = []
        with _errors_name_instruction(computation, writer):
            writer.write([instruction], "  " * module.options.indent_amount, lines)
        text = "\n".join(lines)
        indent = "  " * module.options.indent_amount
        text = text.removeprefix(indent)
        if instruction == computation.root:
            text = text.removeprefix("ROOT ")
        if not shows_names:
            text = text.removeprefix(f"{names[instruction]} = ")
        return indent + text

    def _names(self, own_names: list[str], order: list[int]) -> list[str]:
        """The names that are written, by index of the instruction: its own, or `tmp_0`, … as the options say."""
        if not self._module.options.canonicalize_instruction_names:
            return own_names
        names = [""] * len(own_names)
        for number, i in enumerate(order):
            names[i] = f"tmp_{number}"
        return names

    def _compact_elements(self, computation: PrintedComputation) -> dict[int, int]:
        """Index of an instruction → number of an element, for get-tuple-elements that have no line of their own because
        operands are written as `%x#0`. Operands come before their users."""
        templates = computation.templates
        named = {i for user in computation.notable for i in computation.predecessors_of(user)}
        return {
            i: templates[i].message.tuple_index
            for i in self._module.order(self._module.index_of(computation.id))
            if templates[i].opcode == "get-tuple-element"
            and i != computation.root
            and i not in named
            and not templates[i].predecessors
            and len(computation.operands[i]) == 1
        }

    def _signature(self, computation: PrintedComputation, names: list[str]) -> str:
        percent = len(self._module.percent)
        shapes = self._module.shapes_without_layout
        templates = computation.templates
        parameters = [
            (templates[i].message.parameter_number, f"{names[i][percent:]}: {shapes[templates[i].shape]}")
            for i in computation.notable
            if templates[i].is_parameter
        ]
        parameters.sort(key=itemgetter(0))
        result = shapes[templates[computation.root].shape] if computation.root >= 0 else ""
        return f"({', '.join([text for _, text in parameters])}) -> {result} "

    def _body(self, computation_id: int, level: int, frontend: bool) -> str:
        """The text of a called computation, from its opening brace on, as it is written where it is called."""
        self._bodies += 1
        if level > _MAX_BODY_LEVELS:
            raise LimitExceededError(
                f"computations call each other more than {_MAX_BODY_LEVELS} levels deep",
                limit="body_levels",
                maximum=_MAX_BODY_LEVELS,
                value=level,
            )
        if self._bodies > _MAX_BODIES:
            raise LimitExceededError(
                f"more than {_MAX_BODIES} bodies within bodies", limit="bodies", maximum=_MAX_BODIES, value=self._bodies
            )
        index = self._module.index_of(computation_id)
        return "\n".join(self.lines(index, is_entry=False, level=level, nested=True, frontend=frontend))


@contextmanager
def _errors_name_instruction(computation: PrintedComputation, writer: LineWriter) -> Generator[None, None, None]:
    """Turns errors within the block into an InvalidModuleError that names the computation and the instruction that is
    being written. LimitExceededError stays as it is."""
    try:
        yield
    except LimitExceededError:
        raise
    except XlashapeError as error:
        name = f"instruction {computation.names[writer.index]!r}: " if writer.index >= 0 else ""
        raise InvalidModuleError(f"computation {computation.name!r}: {name}{error.message}") from error


# -- modules -----------------------------------------------------------------------------------


_MAX_RECOVERY_DEPTH: Final = 20


class ModuleView(Protocol):
    """The two properties of HloModule that the writer needs."""

    @property
    def held(self) -> Held:
        """The module itself."""
        ...

    @property
    def config(self) -> ModuleConfig:
        """The values in the header of the text that the proto has no field for."""
        ...


def module_text(
    module: ModuleView | Held | Message | bytes,
    style: str | PrintOptions = "default",
    *,
    config: ModuleConfig | None = None,
    **changes: Any,
) -> str:
    """The text of a module, which is given as an HloModule, its Held, an HloModuleProto or the bytes of one.

    `style` is a PrintOptions or the name of one: default, short_parsable, canonical, fingerprint. `changes` are single
    options that replace those of the style. `config` has the values in the header that the proto has no field for; an
    HloModule has a `config` of its own.
    Raises InvalidArgumentError for an unknown style or option, InvalidModuleError naming the instruction for a module
    that cannot be printed, LimitExceededError if computations that are written where they are called are too many or
    too deep.

    >>> p = xla.HloInstructionProto(name="p", opcode="parameter", shape=xla.ShapeProto(element_type=xla.F32))
    >>> main = xla.HloComputationProto(name="main", instructions=[p])
    >>> print(module_text(xla.HloModuleProto(name="m", computations=[main])).strip())
    HloModule m, entry_computation_layout={()->()}
    <BLANKLINE>
    ENTRY %main (p: f32[]) -> f32[] {
      ROOT %p = f32[] parameter(0)
    }
    """
    options = PrintOptions.of(style, **changes)
    if isinstance(module, bytes):
        module = Held.of_bytes(module)
    elif isinstance(module, Message):
        module = Held.of_message(coerce(xla.HloModuleProto, module))
    if isinstance(module, Held):
        return _module_text(module, options, 0, config or ModuleConfig())
    return _module_text(module.held, options, 0, config or module.config)


def _module_text(module: Held, options: PrintOptions, depth: int, config: ModuleConfig) -> str:
    proto = module.head
    printed = PrintedModule(module, options, config.channels_0)
    writer = ComputationWriter(printed)
    tab = "  " * options.indent_amount
    parts = [tab + _header(proto, printed, config), *_recovery_table(proto, options, depth)]
    debug_attributes = debug_attributes_text(proto)
    if debug_attributes:
        parts[-1] += ","
        parts += debug_attributes
    parts.append("")
    tables = printed.frames.lines()
    if tables:
        parts += [*tables, ""]
    hidden = printed.hidden()
    schedules = _schedules(proto)
    entry = proto.entry_computation_id & LOCAL_ID
    blocks: list[tuple[bool, str]] = []
    for index in printed.computation_order():
        if index in hidden:
            continue
        computation = printed.computations[index]
        order = _scheduled(computation, schedules.get(computation.id))
        is_entry = computation.id == entry
        blocks.append((is_entry, "\n".join(writer.lines(index, is_entry=is_entry, order=order))))
    if options.canonicalize_computations:
        blocks.sort()
    for _, text in blocks:
        parts += [text, ""]
    parts.append("")
    return "\n".join(parts)


def printed_module(module: ModuleView, style: str | PrintOptions = "default", **changes: Any) -> PrintedModule:
    """The PrintedModule that `computation_text` and `instruction_text` need. A caller that makes several texts with the
    same options keeps it."""
    return PrintedModule(module.held, PrintOptions.of(style, **changes), module.config.channels_0)


def computation_text(module: xla.HloModuleProto, printed: PrintedModule, index: int) -> str:
    """The text of one computation, from its name or ENTRY to its closing brace. `module` is `Held.head` of the
    module."""
    computation = printed.computations[index]
    is_entry = computation.id == module.entry_computation_id & LOCAL_ID
    order = _scheduled(computation, _schedules(module).get(computation.id))
    return "\n".join(ComputationWriter(printed).lines(index, is_entry=is_entry, order=order))


def instruction_text(module: xla.HloModuleProto, printed: PrintedModule, computation: int, index: int) -> str:
    """The text of one instruction, by the indices of its computation and of the instruction, without `ROOT`. `module`
    is `Held.head` of the module."""
    order = None
    if printed.options.canonicalize_instruction_names:
        owner = printed.computations[computation]
        order = _scheduled(owner, _schedules(module).get(owner.id))
    return ComputationWriter(printed).line(computation, index, order)


def _schedules(module: xla.HloModuleProto) -> dict[int, Sequence[int]]:
    """Id of a computation → the ids of its instructions in the order of the schedule."""
    return {ident & LOCAL_ID: sequence.instruction_ids for ident, sequence in module.schedule.sequences.items()}


def _scheduled(computation: PrintedComputation, schedule: Sequence[int] | None) -> list[int] | None:
    """The indices of the instructions in the order of their schedule; None without a schedule."""
    if schedule is None:
        return None
    order = [computation.indices.get(ident & LOCAL_ID, -1) for ident in schedule]
    if -1 in order or not len(order) == len(computation.ids) == len(set(order)):
        raise InvalidModuleError(f"computation {computation.name!r}: its schedule is not an order of its instructions")
    return order


def _header(proto: xla.HloModuleProto, printed: PrintedModule, config: ModuleConfig) -> str:
    text = f"HloModule {safe_name(proto.name) if printed.options.print_ids else ''}"
    if proto.HasField("schedule"):
        text += ", is_scheduled=true"
    aliases = _aliases(proto)
    if aliases:
        text += f", input_output_alias={{ {', '.join(aliases)} }}"
    donors = sorted(
        (entry.parameter_number, tuple(entry.parameter_shape_index)) for entry in proto.buffer_donor.entries
    )
    if donors:
        text += f", buffer_donor={{ {', '.join([f'({number}, {ints(index)})' for number, index in donors])} }}"
    text += (
        f"{config.before_layout}, entry_computation_layout={{{_program_shape(proto, printed)}}}{config.after_layout}"
    )
    frontend = frontend_attributes_text(proto.frontend_attributes)
    text = f"{text}, frontend_attributes={frontend}" if frontend else text
    return f"{text}, origin_recovery_table={{" if proto.original_value_recovery_table.entries else text


def _recovery_table(proto: xla.HloModuleProto, options: PrintOptions, depth: int) -> list[str]:
    """The lines of the recovery table after `origin_recovery_table={`; empty if the module has no table."""
    entries = {
        (entry.old_original_array.instruction_name, tuple(entry.old_original_array.shape_index)): entry
        for entry in proto.original_value_recovery_table.entries
    }
    if not entries:
        return []
    check("recovery modules within recovery modules", depth, _MAX_RECOVERY_DEPTH)
    tab = "  " * options.indent_amount
    lines: list[str] = []
    for _, entry in sorted(entries.items(), key=itemgetter(0)):
        old, new = original_array_text(entry.old_original_array), original_array_text(entry.new_original_array)
        has_module = entry.HasField("recovery_module")
        lines.append(f"{tab}  {{{old}}} : {{{new}}}{',' if has_module else ''}")
        if has_module:
            inner = PrintOptions(indent_amount=options.indent_amount + 2)
            text = _module_text(Held.of_message(entry.recovery_module), inner, depth + 1, ModuleConfig())
            # The text is a string over several lines: quotes and backslashes are escaped, line ends are not.
            lines += [f'{tab}  "', text.replace("\\", "\\\\").replace('"', '\\"'), f'{tab}  "']
    return [*lines, "}", ""]


def _aliases(proto: xla.HloModuleProto) -> list[str]:
    """`{0}: (1, {}, may-alias)` for each entry, sorted by the index into the result."""
    parts: list[tuple[tuple[int, ...], str]] = []
    for entry in proto.input_output_alias.entries:
        spend()
        kind = ALIAS_KINDS.text(entry.kind)
        target = f"({entry.parameter_number}, {ints(entry.parameter_shape_index)}, {kind})"
        parts.append((tuple(entry.output_shape_index), f"{ints(entry.output_shape_index)}: {target}"))
    return [text for _, text in sorted(parts)]


def _program_shape(proto: xla.HloModuleProto, printed: PrintedModule) -> str:
    shape = proto.host_program_shape
    parameters = [printed.shapes_with_layout[parameter.SerializeToString()] for parameter in shape.parameters]
    result = printed.shapes_with_layout[shape.result.SerializeToString()] if shape.HasField("result") else "()"
    return f"({with_index_comments(parameters)})->{result}"
