"""Writes instructions as text: `LineWriter.write` is the innermost loop of the writer.

    line := 'ROOT '? name ' = ' shape ' ' opcode '(' operands ')' attributes calls common
    common := sharding, frontend_attributes, control-predecessors, statistics, origin, metadata, backend_config, each
              where it is set

An async-start, async-update or async-done is written as the instruction that its computation wraps, if there is just
one: `all-gather-start`. `PrintOptions` say which constants are written in full and which as `{...}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from xlashape.base.display import printable
from xlashape.base.text import Source
from xlashape.errors import InvalidModuleError, ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction
from xlashape.hlo.literal import literal_text, parse_literal, raw
from xlashape.hlo.literal.data import element_count, element_type
from xlashape.hlo.literal.number import ELEMENT_TYPES, ElementType
from xlashape.hlo.ops.asynchronous import ASYNC_EXECUTION_THREAD
from xlashape.hlo.ops.attributes import AttributeUse
from xlashape.hlo.ops.opcode import UnknownOpcode
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.text.writer.printed_module import Pieces, PrintedModule, PrintOptions
from xlashape.hlo.tokens import with_index_comments
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.metadata import ORIGIN, STATISTICS
from xlashape.hlo.values.plain import BACKEND_CONFIG, FRONTEND_ATTRIBUTES
from xlashape.hlo.values.sharding import SHARDING
from xlashape.limits import spend
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

_ELIDED: Final = "{...}"
_MAX_ELEMENTS: Final = 10
"""A constant of more elements is written as `{...}`, unless the options ask for large constants."""


def constant_text(constant: xla.HloInstructionProto, options: PrintOptions) -> str:
    """The text between the parentheses of a constant."""
    if not constant.HasField("literal"):
        return _ELIDED
    literal = constant.literal
    return _essential_text(literal) if options.print_only_essentials else _text(literal, options.print_large_constants)


def _text(literal: xla.LiteralProto, large: bool) -> str:
    is_small = literal.shape.element_type in ELEMENT_TYPES and element_count(literal.shape) <= _MAX_ELEMENTS
    return literal_text(literal) if large or is_small else _ELIDED


def _essential_text(literal: xla.LiteralProto) -> str:
    """The text of a constant in a fingerprint: `0` or `1` if all elements are 0 or all are 1, integers in full, and
    `{...}` for anything else."""
    if literal.shape.element_type not in ELEMENT_TYPES:
        return _ELIDED
    element = element_type(literal.shape)
    values, count = raw(literal), element_count(literal.shape)
    if values == bytes(element.width) * count:
        return "0"
    if values == _one(element) * count:
        return "1"
    return literal_text(literal) if element.kind == "int" else _ELIDED


def _one(element: ElementType) -> bytes:
    """The raw bytes of the number 1; b"" for s1, which has no 1."""
    text = "(1, 0)" if element.kind == "complex" else "1"
    try:
        return raw(parse_literal(Source(text), 0, xla.ShapeProto(element_type=element.number))[0])
    except ParseError:
        return b""


_OPCODE: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
"""The names that may be written for an opcode that this library does not know."""
_NUMBER: Final = Contents.PARAMETER_NUMBER
_COMPACT: Final = 4
"""The number of operands that are written with the option `compact_operands`."""


_CHANNEL: Final = ", channel_id=1"
"""The channel in the attributes of a kind. No text in quotes precedes it."""


def _channel_end(attributes: str, instruction: HloInstruction) -> int:
    """The index after the channel in the attributes of an instruction's opcode; 0 if they have none."""
    if instruction.channel < 1 or "channel_id" not in instruction.kind.row.readable:
        return 0
    at = attributes.find(_CHANNEL)
    return at + len(_CHANNEL) if at >= 0 else 0


class LineWriter:
    """Writes the instructions of one computation. It is the `xlashape.hlo.values.attribute.Context` that attributes ask
    about the instruction that is being written."""

    def __init__(
        self,
        module: PrintedModule,
        names: list[str],
        own_names: list[str],
        level: int,
        body: Callable[[HloComputation, int, bool], str],
        *,
        frontend: bool = True,
        shows_names: bool = True,
    ) -> None:
        """`names` are the names that are written, and `own_names` the instructions' own names, both by index.
        `body(computation, level, frontend)` gives the text of a called computation; `level` is the depth of
        computations that are written where they are called. `frontend` says whether frontend attributes are written,
        `shows_names` whether the names of operands are."""
        self._module = module
        self._names = names
        self._own_names = own_names
        options = module.options
        shows_operand_names = options.print_operand_names or options.canonicalize_instruction_names
        self._operand_names = names if shows_names and shows_operand_names else [""] * len(names)
        self._frontend = frontend
        # Up to this number of operands, the text of the operands is their names, without index comments.
        interval = options.operand_index_interval or _COMPACT  # an interval of 0 stands for no comments
        self._max_plain_operands = 0 if options.print_operand_shape else min(_COMPACT, interval)
        self._level = level
        self._body = body
        self.instruction: HloInstruction | None = None
        """The instruction that is being written; None before the first."""

    def write(self, order: Sequence[HloInstruction], indent: str, lines: list[str]) -> None:
        """Appends the lines of the instructions of `order`."""
        if not order:
            return
        module = self._module
        names, metadata, append, begin = self._names, module.metadata, lines.append, len(lines)
        operand_names, max_plain_operands = self._operand_names, self._max_plain_operands
        known, frontend = module.pieces.get, self._frontend
        for instruction in order:
            pieces = known(instruction.kind)
            if pieces is None or not frontend:
                self.instruction = instruction
                pieces = self._pieces(instruction)
            targets = instruction.operands
            count = len(targets)
            # Nearly all instructions have one or two operands.
            if count == 1 <= max_plain_operands:
                inside = operand_names[targets[0].index]
            elif count == 2 <= max_plain_operands:
                inside = f"{operand_names[targets[0].index]}, {operand_names[targets[1].index]}"
            elif count:
                inside = self._operands(targets)
            else:
                inside = pieces.inside or (str(instruction.number) if instruction.kind.row.contents is _NUMBER else "")
            if instruction.called_computations or instruction.control_predecessors:
                self.instruction = instruction
                attributes = self._linked(instruction, pieces)
            else:
                attributes = pieces.attributes
            end = pieces.channel_end
            if end:
                attributes = f"{attributes[: end - 1]}{instruction.channel}{attributes[end:]}"
            said = instruction.said_metadata
            append(
                f"{indent}{names[instruction.index]}{pieces.head}{inside}{attributes}"
                f"{metadata[said] if said else ''}{pieces.backend_config}"
            )
        root = order[0].computation.root
        if root in order:
            line = begin + order.index(root)
            lines[line] = f"{indent}ROOT {lines[line][len(indent) :]}"
        if module.channels_0:
            self._add_channels_0(order, lines)
        if module.options.print_sources:
            for line, instruction in enumerate(order, begin):
                said = instruction.metadata
                origin = printable("  ".join([part for part in (said.source, said.op_name) if part])).replace("\n", " ")
                lines[line] += f"  // {origin}" if origin else ""

    def _add_channels_0(self, order: Sequence[HloInstruction], lines: list[str]) -> None:
        """Adds `channel_id=0` to the lines of the instructions that had it in the text that the module was read from.
        The proto cannot hold it. The lines of `order` are the last of `lines`."""
        for line, instruction in enumerate(order, len(lines) - len(order)):
            if instruction.name in self._module.channels_0:
                self.instruction = instruction
                pieces = self._pieces(instruction)
                attributes = self._linked(instruction, pieces)
                head, _, tail = lines[line].rpartition(attributes)
                lines[line] = f"{head}), channel_id=0{attributes[1:]}{tail}"

    def _pieces(self, instruction: HloInstruction) -> Pieces:
        """The pieces of the line of `instruction`. They are kept where they hold for all instructions of its kind."""
        module, kind = self._module, instruction.kind
        options, row, message = module.options, kind.row, kind.message
        pieces = Pieces()
        opcode = str(kind.opcode)
        if row.async_step is not None:
            opcode, pieces.before_calls = self._async(instruction, row.async_step)
        else:
            if isinstance(kind.opcode, UnknownOpcode) and _OPCODE.fullmatch(opcode) is None:
                raise InvalidModuleError(f"{opcode!r} is not the name of an opcode")
            pieces.before_calls = self._own_attributes(instruction)
            pieces.after_calls = self._texts(row.attributes_after_calls, message)
            pieces.channel_end = _channel_end(f"){pieces.before_calls}", instruction)
        pieces.before_calls = f"){pieces.before_calls}"
        pieces.before_control, pieces.after_control = self._common(message)
        shape = f"{module.shapes[kind.shape]} " if options.print_result_shape else ""
        pieces.head = f" = {shape}{opcode}("
        pieces.attributes = f"{pieces.before_calls}{pieces.before_control}{pieces.after_control}"
        if row.contents is Contents.LITERAL:
            pieces.inside = constant_text(message, options)
        pieces.backend_config = BACKEND_CONFIG.write(message, self) if options.print_backend_config else ""
        # Which precisions are the default depends on the number of operands.
        precision = message.precision_config.operand_precision if message.HasField("precision_config") else ()
        depends = row.text_depends_on_operands or any(precision)
        if self._frontend and not depends and row.async_step is None:
            module.pieces[kind] = pieces
        return pieces

    def _own_attributes(self, instruction: HloInstruction) -> str:
        """The attributes of the opcode that are written before the called computations."""
        row, message = instruction.kind.row, instruction.kind.message
        # Attributes are written even without `print_extra_attributes` if there is a result_accuracy.
        if self._module.options.print_extra_attributes or message.result_accuracy.ByteSize():
            return self._texts(row.attributes, message)
        return ""

    def _common(self, message: xla.HloInstructionProto) -> tuple[str, str]:
        """The attributes that any instruction may have, before control predecessors and after them."""
        before = SHARDING.write(message, self)
        if self._frontend:
            before += FRONTEND_ATTRIBUTES.write(message, self)
        return before, STATISTICS.write(message, self) + ORIGIN.write(message, self)

    def _texts(self, uses: Sequence[AttributeUse], message: xla.HloInstructionProto) -> str:
        return "".join([use.attribute.write(message, self) for use in uses])

    def _linked(self, instruction: HloInstruction, pieces: Pieces) -> str:
        """The text from the closing parenthesis to the metadata, with called computations and control predecessors."""
        text = pieces.before_calls
        if instruction.called_computations and instruction.kind.row.async_step is None:
            text += self._called(instruction) + pieces.after_calls
        return text + pieces.before_control + self._control(instruction) + pieces.after_control

    def _control(self, instruction: HloInstruction) -> str:
        if not instruction.control_predecessors or not self._module.options.print_control_dependencies:
            return ""
        spend(len(instruction.control_predecessors))
        names = [self._own_names[each.index] for each in instruction.control_predecessors]
        return f", control-predecessors={{{', '.join(names)}}}"

    def _operands(self, operands: tuple[HloInstruction, ...]) -> str:
        options = self._module.options
        shown = operands[:_COMPACT] if options.compact_operands else operands
        names = self._operand_names
        if options.print_operand_shape:
            shapes = self._module.shapes
            parts = [f"{shapes[each.shape]} {names[each.index]}".rstrip() for each in shown]
        else:
            parts = [names[each.index] for each in shown]
        text = with_index_comments(parts, options.operand_index_interval)
        return text if len(shown) == len(operands) else f"{text}, ...(+{len(operands) - len(shown)})"

    # -- called computations ------------------------------------------------------------------

    def _called(self, instruction: HloInstruction) -> str:
        calls, called = instruction.kind.row.calls, instruction.called_computations
        if len(called) == len(calls.parts) and (not calls.parts_need_predicate or self._is_on_predicate()):
            return "".join([f", {name}={self._target(called[index])}" for name, index in calls.parts])
        if calls.is_list:
            return f", {calls.label}={self._targets(called)}"
        bodies = self._module.options.print_computation_bodies
        label = (bodies and calls.label_of_bodies) or calls.label
        if len(called) == 1:
            return f", {label}={self._target(called[0])}"
        if bodies:
            return f", {label}={self._targets(called)}"
        return f", {label}={', '.join([self._target(each) for each in called])}"

    def _is_on_predicate(self) -> bool:
        """Whether the first operand is a predicate."""
        shape = self.operand_shape(0)
        return shape is not None and shape.element_type == PrimitiveType.PRED

    def _target(self, called: HloComputation) -> str:
        """The name of a called computation, or its text if the options say that computations are written where they
        are called."""
        module = self._module
        if module.options.print_computation_bodies:
            return "\n" + self._body(called, self._level + 1, self._frontend)
        return module.name(called)

    def _targets(self, called: Sequence[HloComputation]) -> str:
        module = self._module
        if module.options.print_computation_bodies:
            # As in XLA, the brace that closes the list is not indented.
            return "{\n" + ",\n".join([self._body(each, self._level + 1, self._frontend) for each in called]) + "\n}"
        return f"{{{', '.join([module.name(each) for each in called])}}}"

    def _async(self, instruction: HloInstruction, step: AsyncStep) -> tuple[str, str]:
        """The opcode that is written for an asynchronous instruction, and its attributes."""
        module, message = self._module, instruction.kind.message
        target = module.async_computation(instruction)
        inner = None if target is None else module.wrapped(target)
        opcode = str(instruction.opcode) if inner is None else f"{inner.opcode}{step.value}"
        if step is not AsyncStep.START:
            if step is AsyncStep.UPDATE and module.options.print_extra_attributes:
                return opcode, OUTPUT_TO_OPERAND_ALIASING.write(message, self)
            return opcode, ""
        attributes = ""
        if module.options.print_extra_attributes:
            attributes = ASYNC_EXECUTION_THREAD.write(message, self)
            if inner is not None:
                has_frontend = bool(FRONTEND_ATTRIBUTES.write(message, self))
                attributes += self._wrapped_attributes(inner, frontend=not has_frontend)
            attributes += OUTPUT_TO_OPERAND_ALIASING.write(message, self)
        if instruction.called_computations and (inner is None or module.options.print_computation_bodies):
            attributes += f", calls={self._target(instruction.called_computations[0])}"
        return opcode, attributes

    def _wrapped_attributes(self, instruction: HloInstruction, *, frontend: bool) -> str:
        """The attributes of the instruction that an async-start wraps. Unless `frontend`, its frontend attributes are
        left out, and so are those in computations that are written where it calls them."""
        names = self._module.instruction_names(instruction.computation)
        writer = LineWriter(self._module, names, names, self._level, self._body, frontend=frontend and self._frontend)
        writer.instruction = instruction
        row, message = instruction.kind.row, instruction.kind.message
        text = writer._own_attributes(instruction)
        end = _channel_end(text, instruction)
        if end:
            text = f"{text[: end - 1]}{instruction.channel}{text[end:]}"
        if instruction.called_computations:
            text += writer._called(instruction) + writer._texts(row.attributes_after_calls, message)
        before, after = writer._common(message)
        return text + before + writer._control(instruction) + after

    # -- the members of Context ----------------------------------------------------------------

    @property
    def _operands_now(self) -> tuple[HloInstruction, ...]:
        return () if self.instruction is None else self.instruction.operands

    @property
    def operand_count(self) -> int:
        """The number of the instruction's operands."""
        return len(self._operands_now)

    def operand_shape(self, number: int) -> Shape | None:
        """The shape of an operand; None where the instruction has no operand of that number."""
        operands = self._operands_now
        return operands[number].shape if number < len(operands) else None

    def shape_text(self, shape: xla.ShapeProto) -> str:
        """The text of a shape, layout included."""
        return self._module.shapes_with_layout[self._module.module.shape_of(shape)]

    @property
    def payloads(self) -> Sequence[bytes]:
        """The module's table of payloads."""
        return self._module.payloads

    @property
    def is_fingerprint(self) -> bool:
        """Whether the text is made for a fingerprint."""
        return self._module.options.print_only_essentials

    @property
    def show_ids(self) -> bool:
        """Whether the names of the module and its computations are written."""
        return self._module.options.print_ids

    @property
    def show_metadata(self) -> bool:
        """Whether shardings are written with their metadata."""
        return self._module.options.print_metadata
