"""One instruction as text. Here is the innermost loop of the printer.

    line := 'ROOT '? name ' = ' shape ' ' opcode '(' operands ')' attributes calls tail
    tail := sharding, frontend_attributes, control-predecessors, statistics, origin, metadata, backend_config: those there are

An async-start, -update or -done whose computation only wraps one instruction is written as that instruction: `all-gather-start`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xlashape.errors import InvalidModuleError
from xlashape.hlo.formatting import escape, is_json_dict
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.text.writer.attributes import ATTRIBUTES
from xlashape.hlo.text.writer.constants import constant_text
from xlashape.hlo.text.writer.source import ABSENT, Computation, Kind
from xlashape.hlo.values.metadata_text import payload_bytes
from xlashape.hlo.values.sharding_text import numbered
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

if TYPE_CHECKING:
    from xlashape.hlo.text.writer.computation import ComputationPrinter

__all__ = ["ASYNC", "LineWriter"]

ASYNC: Final = {"async-start": "-start", "async-update": "-update", "async-done": "-done"}

_OPCODES: Final = frozenset(str(opcode) for opcode in Opcode)
_NO_MESSAGE: Final = (ABSENT, b"")
_COMPACT: Final = 4  # operands shown of a compact list

# How an opcode introduces the computation that it calls: by name, and where it is printed in full.
_TO_APPLY: Final = frozenset(
    "all-reduce all-reduce-start call map reduce reduce-scatter reduce-window scan scatter sort topk".split()
)
_BODY_TO_APPLY: Final = _TO_APPLY - {"reduce-scatter", "scan"}

# A kind's text is the same for all its instructions, or it must be made for each: what it says depends on operands or on the place.
_NEW, _SAME, _EACH = 0, 1, 2
_DEPENDENT: Final = frozenset(("collective-permute", "collective-permute-start", "compare", "conditional", *ASYNC))


class LineWriter:
    """Writes the instructions of one computation. `names` are what they are called by place, `own` their own names."""

    __slots__ = ("_computation", "_level", "_names", "_own", "_plain", "_printer", "place")

    def __init__(
        self, printer: ComputationPrinter, computation: Computation, names: list[str], own: list[str], level: int
    ) -> None:
        self._printer = printer
        self._computation = computation
        self._names = names
        self._own = own
        self._level = level
        self.place = -1
        """The instruction being put into words."""
        options = printer.options
        self._plain = not options.print_operand_shape and (
            options.print_operand_names or options.canonicalize_instruction_names
        )

    def write(self, order: list[int], indent: str, lines: list[str]) -> None:
        """Appends the lines of the instructions at the places of `order`."""
        computation = self._computation
        kinds, operands, data = computation.kinds, computation.operands, computation.metadata
        names, metadata, append = self._names, self._printer.metadata, lines.append
        few = 5 if self._plain else 0
        root = computation.root
        for place in order:
            kind = kinds[place]
            if kind.state != _SAME:
                self.place = place
                self._prepare(kind, place)
            targets = operands[place]
            if not targets:
                inside = kind.inside
            elif len(targets) < few:
                inside = names[targets[0]] if len(targets) == 1 else ", ".join([names[i] for i in targets])
            else:
                inside = self._operands(targets)
            append(
                f"{indent}{'ROOT ' if place == root else ''}{names[place]}{kind.head}{inside}{kind.tail}"
                f"{metadata[data[place]]}{kind.config}"
            )

    def _prepare(self, kind: Kind, place: int) -> None:
        # Puts a kind into words: head and tail around the operands, inside for an instruction that has none, and its config.
        printer = self._printer
        options = printer.options
        opcode, one = kind.opcode, kind.message
        same = not (
            opcode in _DEPENDENT
            or kind.predecessors
            or (opcode == "custom-call" and one.precision_config not in _NO_MESSAGE)
            or (kind.called and options.print_computation_bodies)
        )
        attributes = ""
        if opcode in ASYNC:
            opcode, attributes = self._async(kind, place)
        elif opcode not in _OPCODES:
            raise InvalidModuleError(f"{opcode!r} is no opcode")
        else:
            attributes = self._attributes(kind, place)
        attributes += self._common(kind, place)
        shape = f"{printer.shapes[kind.shape]} " if options.print_result_shape else ""
        kind.head = f" = {shape}{opcode}("
        kind.tail = f"){attributes}"
        kind.inside = ""
        if opcode == "parameter":
            kind.inside = str(one.parameter_number)
        elif opcode == "constant":
            kind.inside = constant_text(one.literal, options)
        kind.config = self._backend_config(one) if options.print_backend_config else ""
        kind.state = _SAME if same else _EACH

    def _attributes(self, kind: Kind, place: int) -> str:
        own = ATTRIBUTES.get(kind.opcode)
        text = ""
        # An accuracy is shown even where attributes are not.
        if own is not None and (
            self._printer.options.print_extra_attributes or kind.message.result_accuracy not in _NO_MESSAGE
        ):
            message = kind.message
            message.operand_ids[:] = self._computation.operands[place]
            text = own(message, self)
        return text + self._called(kind, place) if kind.called else text

    def _operands(self, operands: tuple[int, ...]) -> str:
        printer = self._printer
        options = printer.options
        more = 0
        if options.compact_operands and len(operands) > _COMPACT:
            more = len(operands) - _COMPACT
            operands = operands[:_COMPACT]
        if options.print_operand_names or options.canonicalize_instruction_names:
            parts = [self._names[i] for i in operands]
        else:
            parts = [""] * len(operands)
        if options.print_operand_shape:
            shapes, kinds = printer.shapes, self._computation.kinds
            space = " " if parts and parts[0] else ""
            parts = [f"{shapes[kinds[i].shape]}{space}{part}" for i, part in zip(operands, parts, strict=True)]
        text = numbered(parts, options.operand_index_interval)
        return f"{text}, ...(+{more})" if more else text

    def _common(self, kind: Kind, place: int, *, frontend: bool = True) -> str:
        # What any instruction may have, between its own attributes and its metadata.
        printer, one = self._printer, kind.message
        text = printer.shardings[one.sharding]
        if frontend:
            text += printer.frontend[one.frontend_attributes]
        if kind.predecessors and printer.options.print_control_dependencies:
            names = [self._own[self._computation.place(i, place)] for i in kind.predecessors]
            text += f", control-predecessors={{{', '.join(names)}}}"
        return text + printer.statistics[one.statistics_viz] + printer.origins[one.original_value]

    def _backend_config(self, one: Any) -> str:
        data = one.backend_config
        if one.backend_config_payload != ABSENT:
            data = payload_bytes(xla.Payload.FromString(one.backend_config_payload), self._printer.payloads) or data
        if not data:
            return ""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return f', backend_config="{escape(data)}"'
        return f", backend_config={text}" if is_json_dict(text) else f', backend_config="{escape(text)}"'

    # -- called computations ------------------------------------------------------------------

    def _called(self, kind: Kind, place: int) -> str:
        opcode, called = kind.opcode, kind.called
        if opcode == "while" and len(called) == 2:
            return f", condition={self._target(called[1])}, body={self._target(called[0])}"
        if opcode == "select-and-scatter" and len(called) == 2:
            return f", select={self._target(called[0])}, scatter={self._target(called[1])}"
        if opcode == "conditional":
            if len(called) == 2 and self._is_pred(place):
                return f", true_computation={self._target(called[0])}, false_computation={self._target(called[1])}"
            return f", branch_computations={self._targets(called)}"
        if opcode == "custom-call":
            return f", called_computations={self._targets(called)}"
        bodies = self._printer.options.print_computation_bodies
        label = "to_apply" if opcode in (_BODY_TO_APPLY if bodies else _TO_APPLY) else "calls"
        if len(called) == 1:
            text = f", {label}={self._target(called[0])}"
            return f"{text}, is_composite=true" if kind.message.is_composite else text
        if bodies:
            return f", {label}={self._targets(called)}"
        return f", {label}={', '.join([self._target(i) for i in called])}"

    def _is_pred(self, place: int) -> bool:
        operands = self._computation.operands[place]
        return bool(operands) and self._shape(operands[0]).element_type == PrimitiveType.PRED

    def _target(self, called: int) -> str:
        printer = self._printer
        if printer.options.print_computation_bodies:
            return "\n" + printer.body(called, self._level + 1)
        return printer.names[printer.called(called)]

    def _targets(self, called: list[int]) -> str:
        printer = self._printer
        if printer.options.print_computation_bodies:
            # XLA does not indent the brace that closes the list.
            return "{\n" + ",\n".join([printer.body(i, self._level + 1) for i in called]) + "\n}"
        return f"{{{', '.join([printer.names[printer.called(i)] for i in called])}}}"

    def _async(self, kind: Kind, place: int) -> tuple[str, str]:
        # The opcode and the attributes of an asynchronous instruction.
        printer = self._printer
        opcode = kind.opcode
        target = printer.async_computation(self._computation, place)
        inner = None if target is None else printer.wrapped(target)
        if target is None or inner is None:
            wrapped = None
        else:
            computation = printer.computations[target]
            wrapped = computation.kinds[inner]
        attributes = ""
        if opcode == "async-start":
            if printer.options.print_extra_attributes:
                thread = kind.message.async_execution_thread
                if thread and thread != "main":
                    attributes = f', async_execution_thread="{thread}"'
                if target is not None and inner is not None:
                    own = bool(printer.frontend[kind.message.frontend_attributes])
                    attributes += self._wrapped_attributes(printer.computations[target], inner, frontend=not own)
            if kind.called and (wrapped is None or printer.options.print_computation_bodies):
                attributes += f", calls={self._target(kind.called[0])}"
        return (opcode if wrapped is None else wrapped.opcode + ASYNC[opcode]), attributes

    def _wrapped_attributes(self, computation: Computation, place: int, *, frontend: bool) -> str:
        # The frontend attributes of the start stand for those of what it wraps.
        names = self._printer.instruction_names(computation)
        writer = LineWriter(self._printer, computation, names, names, self._level)
        kind = computation.kinds[place]
        return writer._attributes(kind, place) + writer._common(kind, place, frontend=frontend)

    # -- what attributes ask for --------------------------------------------------------------

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized shape, layout included."""
        return self._printer.full_shapes[data]

    def operand_shape(self, one: Any, number: int) -> Shape | None:
        """The shape of an operand; None if there is none of that number."""
        operands = one.operand_ids
        return self._shape(operands[number]) if number < len(operands) else None

    def _shape(self, place: int) -> Shape:
        return Shape.from_proto(self._computation.kinds[place].shape)

    @property
    def is_fingerprint(self) -> bool:
        """Whether only what decides the program is shown."""
        return self._printer.options.print_only_essentials

    @property
    def show_ids(self) -> bool:
        """Whether names, and with them parameter_replication, are shown."""
        return self._printer.options.print_ids

    @property
    def show_metadata(self) -> bool:
        """Whether shardings show their metadata."""
        return self._printer.options.print_metadata
