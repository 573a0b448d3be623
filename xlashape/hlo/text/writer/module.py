"""Writes the text of a module, of one of its computations, or of one instruction. The text is that of XLA's
HloModule::ToString, which is `module.to_string()` in jaxlib.

    module_text(PrintedModule(module, PrintOptions()))

    computation := 'ENTRY '? name signature? '{' line* '}' (', execution_thread="' thread '"')?

The text is made of the module's proto. The values that HloModuleProto has no field for (replica_count, num_partitions,
…) come from a ModuleConfig. `line.LineWriter` writes the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Final

from xlashape.errors import InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.module_proto.module_config import ModuleConfig
from xlashape.hlo.module_proto.structure import LOCAL_ID
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.serde import read_module, sequences
from xlashape.hlo.text.writer.line import LineWriter
from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions, frame_lines
from xlashape.hlo.tokens import ints, safe_name, with_index_comments
from xlashape.hlo.values.aliasing import ALIAS_KINDS
from xlashape.hlo.values.metadata import debug_attributes_text, original_array_text
from xlashape.hlo.values.plain import frontend_attributes_text
from xlashape.limits import check, spend
from xlashape.proto import xla

_MAX_BODY_LEVELS: Final = 100
_MAX_BODIES: Final = 1 << 20
"""The greatest number of computations that are written where they are called. If computations call others twice, this
number grows exponentially with the depth of the calls."""


class ComputationWriter:
    """Writes the computations of one module."""

    def __init__(self, module: PrintedModule) -> None:
        self._module = module
        self._bodies = 0
        self._sequences = dict(sequences(module.module))

    def lines(
        self, computation: HloComputation, *, level: int = 0, nested: bool = False, frontend: bool = True
    ) -> list[str]:
        """The lines of a computation, each indented, from its header to its closing brace.

        `nested` says that the computation is written where it is called, and `level` at which depth. `frontend` says
        whether frontend attributes are written.
        """
        module = self._module
        options = module.options
        order = self._order(computation, nested=nested)
        tab = "  " * (options.indent_amount + level)
        own_names = module.instruction_names(computation)
        compact = self._compact_elements(computation) if options.compact_get_tuple_elements else {}
        if compact:
            order = [each for each in order if each not in compact]
        names = self._names(own_names, order)
        if compact:
            names = list(names)
            for each, number in compact.items():  # operands are before their users
                names[each.index] = f"{names[each.operands[0].index]}#{number}"
        head = "ENTRY " if not nested and computation is module.entry else ""
        if not nested and not options.is_in_nested_computation:
            head += f"{module.name(computation)} " if options.print_ids else module.percent
        writer = LineWriter(module, names, own_names, level, self._body, frontend=frontend)
        lines = [""]
        try:
            writer.write(order, f"{tab}  ", lines)
            if options.print_program_shape:
                head += self._signature(computation, own_names)
        except LimitExceededError:
            raise
        except XlashapeError as error:
            raise _at_instruction(error, computation, writer) from error
        lines[0] = f"{tab}{head}{{"
        thread = computation.execution_thread
        shows_thread = thread and thread != "main" and options.print_ids
        lines.append(f'{tab}}}, execution_thread="{thread}"' if shows_thread else f"{tab}}}")
        return lines

    def line(self, instruction: HloInstruction) -> str:
        """The text of an instruction, without `ROOT`.

        As in XLA, an instruction that is written alone has no names at all if the options replace names by `tmp_0`, …,
        unless they also have `is_in_nested_computation`.
        """
        module = self._module
        computation = instruction.computation
        own_names = module.instruction_names(computation)
        names = own_names
        if module.options.canonicalize_instruction_names:
            names = self._names(own_names, self._order(computation))
        shows_names = not module.options.canonicalize_instruction_names or module.options.is_in_nested_computation
        # Level -1 gives the bodies of called computations the same indentation as the instruction.
        writer = LineWriter(module, names, own_names, -1, self._body, shows_names=shows_names)
        lines: list[str] = []
        try:
            writer.write([instruction], "  " * module.options.indent_amount, lines)
        except LimitExceededError:
            raise
        except XlashapeError as error:
            raise _at_instruction(error, computation, writer) from error
        text = "\n".join(lines)
        indent = "  " * module.options.indent_amount
        text = text.removeprefix(indent)
        if instruction.is_root:
            text = text.removeprefix("ROOT ")
        if not shows_names:
            text = text.removeprefix(f"{names[instruction.index]} = ")
        return indent + text

    def _order(self, computation: HloComputation, *, nested: bool = False) -> Sequence[HloInstruction]:
        """The instructions in the order in which they are written: that of their schedule or, without one and where a
        computation is written where it is called, XLA's post order."""
        schedule = None if nested else self._sequences.get(computation)
        if schedule is None:
            return computation.post_order()
        by_local_id = computation.by_local_id()
        order = [by_local_id.get(ident & LOCAL_ID) for ident in schedule]
        found = [each for each in order if each is not None]
        if not len(order) == len(found) == len(set(found)) == len(by_local_id):
            raise InvalidModuleError(
                f"computation {computation.name!r}: its schedule is not an order of its instructions"
            )
        return found

    def _names(self, own_names: list[str], order: Sequence[HloInstruction]) -> list[str]:
        """The names that are written, by index of the instruction: its own, or `tmp_0`, … as the options say."""
        if not self._module.options.canonicalize_instruction_names:
            return own_names
        names = [""] * len(own_names)
        for number, each in enumerate(order):
            names[each.index] = f"tmp_{number}"
        return names

    def _compact_elements(self, computation: HloComputation) -> dict[HloInstruction, int]:
        """Instruction → number of an element, for get-tuple-elements that have no line of their own because operands
        are written as `%x#0`. Operands come before their users."""
        named = {before for user in computation.instructions for before in user.control_predecessors}
        return {
            each: each.kind.tuple_index
            for each in computation.post_order()
            if each.opcode is Opcode.GET_TUPLE_ELEMENT
            and not each.is_root
            and each not in named
            and not each.control_predecessors
            and len(each.operands) == 1
        }

    def _signature(self, computation: HloComputation, names: list[str]) -> str:
        percent = len(self._module.percent)
        shapes = self._module.shapes_without_layout
        parameters = [each for each in computation.instructions if each.kind.opcode is Opcode.PARAMETER]
        parameters.sort(key=attrgetter("number"))
        text_of = {kind: shapes[kind.shape] for kind in {each.kind for each in parameters}}
        texts = [f"{names[each.index][percent:]}: {text_of[each.kind]}" for each in parameters]
        return f"({', '.join(texts)}) -> {shapes[computation.root.kind.shape]} "

    def _body(self, computation: HloComputation, level: int, frontend: bool) -> str:
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
        return "\n".join(self.lines(computation, level=level, nested=True, frontend=frontend))


def _at_instruction(error: XlashapeError, computation: HloComputation, writer: LineWriter) -> InvalidModuleError:
    """An error that names the computation and the instruction that was being written."""
    name = f"instruction {writer.instruction.name!r}: " if writer.instruction is not None else ""
    return InvalidModuleError(f"computation {computation.name!r}: {name}{error.message}")


# -- modules -----------------------------------------------------------------------------------


_MAX_RECOVERY_DEPTH: Final = 20


def module_text(printed: PrintedModule) -> str:
    """The text of a module. Raises InvalidModuleError naming the instruction for a module that cannot be printed,
    LimitExceededError if computations that are written where they are called are too many or too deep.
    """
    return _module_text(printed, 0)


def _module_text(printed: PrintedModule, depth: int) -> str:
    options, head = printed.options, printed.module.head
    writer = ComputationWriter(printed)
    tab = "  " * options.indent_amount
    parts = [tab + _header(head, printed, printed.module.config), *_recovery_table(printed, depth)]
    debug_attributes = debug_attributes_text(head)
    if debug_attributes:
        parts[-1] += ","
        parts += debug_attributes
    parts.append("")
    tables = frame_lines(printed.frames)
    if tables:
        parts += [*tables, ""]
    hidden = printed.hidden()
    entry = printed.module.entry
    written = [each for each in printed.computation_order() if each not in hidden]
    blocks = [(each is entry, "\n".join(writer.lines(each))) for each in written]
    if options.canonicalize_computations:
        blocks.sort()
    for _, text in blocks:
        parts += [text, ""]
    parts.append("")
    return "\n".join(parts)


def part_text(printed: PrintedModule, part: HloInstruction | HloComputation) -> str:
    """The text of one instruction, without `ROOT`; or of one computation, from its name or ENTRY to its closing
    brace."""
    writer = ComputationWriter(printed)
    return writer.line(part) if isinstance(part, HloInstruction) else "\n".join(writer.lines(part))


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


def _recovery_table(printed: PrintedModule, depth: int) -> list[str]:
    """The lines of the recovery table after `origin_recovery_table={`; empty if the module has no table."""
    proto, options = printed.module.head, printed.options
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
            recovery = type(printed.module)()
            read_module(recovery, entry.recovery_module.SerializePartialToString(), is_program=False)
            text = _module_text(PrintedModule(recovery, inner), depth + 1)
            # The text is a string over several lines: quotes and backslashes are escaped, line ends are not.
            lines += [f'{tab}  "', text.replace("\\", "\\\\").replace('"', '\\"'), f'{tab}  "']
    return [*lines, "}", ""]


def _aliases(proto: xla.HloModuleProto) -> list[str]:
    """`{0}: (1, {}, may-alias)` for each entry, sorted by the index into the result."""
    entries = proto.input_output_alias.entries
    spend(len(entries))
    parts: list[tuple[list[int], str]] = []
    for entry in entries:
        output, index = entry.output_shape_index[:], entry.parameter_shape_index[:]
        target = f"({entry.parameter_number}, {ints(index) if index else '{}'}, {ALIAS_KINDS.text(entry.kind)})"
        parts.append((output, f"{ints(output)}: {target}"))
    return [text for _, text in sorted(parts)]


def _program_shape(proto: xla.HloModuleProto, printed: PrintedModule) -> str:
    shape, shape_of = proto.host_program_shape, printed.module.shape_of
    given = [parameter.SerializePartialToString() for parameter in shape.parameters]
    text_of = {data: printed.shapes_with_layout[shape_of(data)] for data in set(given)}
    parameters = [text_of[data] for data in given]
    result = printed.shapes_with_layout[shape_of(shape.result)] if shape.HasField("result") else "()"
    return f"({with_index_comments(parameters)})->{result}"
