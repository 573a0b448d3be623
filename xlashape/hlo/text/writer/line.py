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

from xlashape.errors import InvalidModuleError, ParseError
from xlashape.hlo.literal import literal_text, parse_literal, raw
from xlashape.hlo.literal.data import element_count, element_type
from xlashape.hlo.literal.number import ELEMENT_TYPES, ElementType
from xlashape.hlo.ops.asynchronous import ASYNC_EXECUTION_THREAD
from xlashape.hlo.ops.opcode import UnknownOpcode
from xlashape.hlo.ops.operation import AsyncStep, Contents
from xlashape.hlo.text.writer.printed_module import PrintedModule, PrintOptions
from xlashape.hlo.text.writer.templates import InstructionTemplate, PrintedComputation
from xlashape.hlo.tokens import with_index_comments
from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import ABSENT
from xlashape.hlo.values.metadata import ORIGIN, STATISTICS
from xlashape.hlo.values.plain import BACKEND_CONFIG, FRONTEND_ATTRIBUTES
from xlashape.hlo.values.sharding import SHARDING
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape
from xlashape.text import Source

_ELIDED: Final = "{...}"
_MAX_ELEMENTS: Final = 10
"""A constant of more elements is written as `{...}`, unless the options ask for large constants."""


def constant_text(data: bytes, options: PrintOptions) -> str:
    """The text between the parentheses of a constant whose literal is `data`, a serialized LiteralProto or ABSENT."""
    if data == ABSENT:
        return _ELIDED
    return _essential_text(data) if options.print_only_essentials else _text(data, options.print_large_constants)


def _text(data: bytes, large: bool) -> str:
    literal = xla.LiteralProto.FromString(data)
    is_small = literal.shape.element_type in ELEMENT_TYPES and element_count(literal.shape) <= _MAX_ELEMENTS
    return literal_text(literal) if large or is_small else _ELIDED


def _essential_text(data: bytes) -> str:
    """The text of a constant in a fingerprint: `0` or `1` if all elements are 0 or all are 1, integers in full, and
    `{...}` for anything else."""
    literal = xla.LiteralProto.FromString(data)
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
_NO_MESSAGE: Final = (ABSENT, b"")
_COMPACT: Final = 4
"""The number of operands that are written with the option `compact_operands`."""


class LineWriter:
    """Writes the instructions of one computation. It is the `xlashape.hlo.values.attribute.Context` that attributes ask
    about the instruction at `index`."""

    __slots__ = (
        "_body",
        "_computation",
        "_frontend",
        "_level",
        "_max_plain_operands",
        "_module",
        "_names",
        "_operand_names",
        "_own_names",
        "index",
    )

    def __init__(
        self,
        module: PrintedModule,
        computation: PrintedComputation,
        names: list[str],
        own_names: list[str],
        level: int,
        body: Callable[[int, int, bool], str],
        *,
        frontend: bool = True,
        shows_names: bool = True,
    ) -> None:
        """`names` are the names that are written, and `own_names` the instructions' own names, both by index.
        `body(id, level, frontend)` gives the text of a called computation; `level` is the depth of computations that
        are written where they are called. `frontend` says whether frontend attributes are written, `shows_names`
        whether the names of operands are."""
        self._module = module
        self._computation = computation
        self._names = names
        self._own_names = own_names
        options = module.options
        shows_operand_names = options.print_operand_names or options.canonicalize_instruction_names
        self._operand_names = names if shows_names and shows_operand_names else [""] * len(names)
        self._frontend = frontend
        # Up to this number of operands, the text of the operands is their names, without index comments.
        self._max_plain_operands = 0 if options.print_operand_shape else min(_COMPACT, options.operand_index_interval)
        self._level = level
        self._body = body
        self.index = -1
        """The index of the instruction that is being written; -1 before the first."""

    def write(self, order: list[int], indent: str, lines: list[str]) -> None:
        """Appends the lines of the instructions at the indices of `order`."""
        computation = self._computation
        templates, operands, metadata_bytes = computation.templates, computation.operands, computation.metadata
        names, metadata, append = self._names, self._module.metadata, lines.append
        operand_names, max_plain_operands = self._operand_names, self._max_plain_operands
        root = computation.root
        for index in order:
            template = templates[index]
            if not template.is_written or not self._frontend:
                self.index = index
                self._write_template(template)
            targets = operands[index]
            if not targets:
                inside = template.inside
            elif len(targets) <= max_plain_operands:
                # Nearly all instructions. If `_operands` were called for these too, small modules would take a
                # twentieth more time.
                inside = ", ".join([operand_names[i] for i in targets])
            else:
                inside = self._operands(targets)
            append(
                f"{indent}{'ROOT ' if index == root else ''}{names[index]}{template.head}{inside}{template.attributes}"
                f"{metadata[metadata_bytes[index]]}{template.backend_config}"
            )
        if self._module.channels_0:
            self._add_channels_0(order, lines)

    def _add_channels_0(self, order: list[int], lines: list[str]) -> None:
        """Adds `channel_id=0` to the lines of the instructions that had it in the text that the module was read from.
        The proto cannot hold it. The lines of `order` are the last of `lines`."""
        computation = self._computation
        for line, index in enumerate(order, len(lines) - len(order)):
            if computation.names[index] in self._module.channels_0:
                attributes = computation.templates[index].attributes
                head, _, tail = lines[line].rpartition(attributes)
                lines[line] = f"{head}), channel_id=0{attributes[1:]}{tail}"

    def _write_template(self, template: InstructionTemplate) -> None:
        """Sets the texts of a template as they are for the instruction at `self.index`."""
        module = self._module
        options = module.options
        row, message = template.row, template.message
        depends_on_instruction = (
            row.text_depends_on_operands
            or template.predecessors
            or (template.called and options.print_computation_bodies)
        )
        opcode = template.opcode
        if row.async_step is not None:
            opcode, attributes = self._async(template, row.async_step)
        elif isinstance(row.opcode, UnknownOpcode) and _OPCODE.fullmatch(opcode) is None:
            raise InvalidModuleError(f"{opcode!r} is not the name of an opcode")
        else:
            attributes = self._attributes(template)
        attributes += self._common(template)
        shape = f"{module.shapes[template.shape]} " if options.print_result_shape else ""
        template.head = f" = {shape}{opcode}("
        template.attributes = f"){attributes}"
        template.inside = ""
        if row.contents is Contents.PARAMETER_NUMBER:
            template.inside = str(message.parameter_number)
        elif row.contents is Contents.LITERAL:
            template.inside = constant_text(message.literal, options)
        template.backend_config = BACKEND_CONFIG.write(message, self) if options.print_backend_config else ""
        template.is_written = self._frontend and not depends_on_instruction

    def _attributes(self, template: InstructionTemplate) -> str:
        """The attributes of the opcode, and the computations that are called."""
        message, row = template.message, template.row
        text = ""
        # Attributes are written even without `print_extra_attributes` if there is a result_accuracy.
        if self._module.options.print_extra_attributes or message.result_accuracy not in _NO_MESSAGE:
            text = "".join([use.attribute.write(message, self) for use in row.attributes])
        if template.called:
            text += self._called(template)
            text += "".join([use.attribute.write(message, self) for use in row.attributes_after_calls])
        return text

    def _operands(self, operands: tuple[int, ...]) -> str:
        options = self._module.options
        shown = operands[:_COMPACT] if options.compact_operands else operands
        names = self._operand_names
        if options.print_operand_shape:
            shapes, templates = self._module.shapes, self._computation.templates
            parts = [f"{shapes[templates[i].shape]} {names[i]}".rstrip() for i in shown]
        else:
            parts = [names[i] for i in shown]
        text = with_index_comments(parts, options.operand_index_interval)
        return text if len(shown) == len(operands) else f"{text}, ...(+{len(operands) - len(shown)})"

    def _common(self, template: InstructionTemplate) -> str:
        """The attributes that any instruction may have, from those of its opcode to its metadata."""
        message = template.message
        text = SHARDING.write(message, self)
        if self._frontend:
            text += FRONTEND_ATTRIBUTES.write(message, self)
        if template.predecessors and self._module.options.print_control_dependencies:
            names = [self._own_names[i] for i in self._computation.predecessors_of(self.index)]
            text += f", control-predecessors={{{', '.join(names)}}}"
        return text + STATISTICS.write(message, self) + ORIGIN.write(message, self)

    # -- called computations ------------------------------------------------------------------

    def _called(self, template: InstructionTemplate) -> str:
        calls, called = template.row.calls, template.called
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
        return f", {label}={', '.join([self._target(i) for i in called])}"

    def _is_on_predicate(self) -> bool:
        """Whether the first operand is a predicate."""
        shape = self.operand_shape(0)
        return shape is not None and shape.element_type == PrimitiveType.PRED

    def _target(self, called: int) -> str:
        """The name of a called computation, or its text if the options say that computations are written where they
        are called."""
        module = self._module
        if module.options.print_computation_bodies:
            return "\n" + self._body(called, self._level + 1, self._frontend)
        return module.names[module.index_of(called)]

    def _targets(self, called: Sequence[int]) -> str:
        module = self._module
        if module.options.print_computation_bodies:
            # As in XLA, the brace that closes the list is not indented.
            return "{\n" + ",\n".join([self._body(i, self._level + 1, self._frontend) for i in called]) + "\n}"
        return f"{{{', '.join([module.names[module.index_of(i)] for i in called])}}}"

    def _async(self, template: InstructionTemplate, step: AsyncStep) -> tuple[str, str]:
        """The opcode that is written for an asynchronous instruction, and its attributes."""
        module, message = self._module, template.message
        target = module.async_computation(self._computation, self.index)
        inner = None if target is None else module.wrapped(target)
        wrapped = None
        if target is not None and inner is not None:
            wrapped = module.computations[target].templates[inner]
        opcode = template.opcode if wrapped is None else wrapped.opcode + step.value
        if step is not AsyncStep.START:
            if step is AsyncStep.UPDATE and module.options.print_extra_attributes:
                return opcode, OUTPUT_TO_OPERAND_ALIASING.write(message, self)
            return opcode, ""
        attributes = ""
        if module.options.print_extra_attributes:
            attributes = ASYNC_EXECUTION_THREAD.write(message, self)
            if target is not None and inner is not None:
                has_frontend = bool(FRONTEND_ATTRIBUTES.write(message, self))
                attributes += self._wrapped_attributes(module.computations[target], inner, frontend=not has_frontend)
            attributes += OUTPUT_TO_OPERAND_ALIASING.write(message, self)
        if template.called and (wrapped is None or module.options.print_computation_bodies):
            attributes += f", calls={self._target(template.called[0])}"
        return opcode, attributes

    def _wrapped_attributes(self, computation: PrintedComputation, index: int, *, frontend: bool) -> str:
        """The attributes of the instruction that an async-start wraps. Unless `frontend`, its frontend attributes are
        left out, and so are those in computations that are written where it calls them."""
        names = self._module.instruction_names(computation)
        writer = LineWriter(
            self._module, computation, names, names, self._level, self._body, frontend=frontend and self._frontend
        )
        writer.index = index
        template = computation.templates[index]
        return writer._attributes(template) + writer._common(template)

    # -- the members of Context ----------------------------------------------------------------

    @property
    def operand_count(self) -> int:
        """The number of the instruction's operands."""
        return len(self._computation.operands[self.index])

    def operand_shape(self, number: int) -> Shape | None:
        """The shape of an operand; None where the instruction has no operand of that number."""
        operands = self._computation.operands[self.index]
        if number >= len(operands):
            return None
        return Shape.from_proto(self._computation.templates[operands[number]].shape)

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized shape, layout included."""
        return self._module.shapes_with_layout[data]

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
