"""One instruction as text. Here is the innermost loop of the printer: each look at a field of the proto counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xlashape.errors import InvalidModuleError
from xlashape.hlo.opcode import Opcode
from xlashape.hlo.print_attributes import ATTRIBUTES
from xlashape.hlo.print_constants import constant_text
from xlashape.hlo.print_metadata import payload_bytes
from xlashape.hlo.print_sharding import numbered
from xlashape.hlo.print_text import escape, is_json_dict
from xlashape.hlo.print_twin import ABSENT
from xlashape.proto import xla
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo.print_computation import ComputationPrinter

__all__ = ["ASYNC", "LineWriter"]

ASYNC: Final = {"async-start": "-start", "async-update": "-update", "async-done": "-done"}

_OPCODES: Final = frozenset(str(opcode) for opcode in Opcode)
_NO_MESSAGE: Final = (ABSENT, b"")
_COMPACT: Final = 4  # operands shown of a compact list

# How an opcode introduces the computation that it calls: by name, and where it is printed in full.
_TO_APPLY: Final = frozenset(
    (
        "all-reduce", "all-reduce-start", "call", "map", "reduce", "reduce-scatter", "reduce-window", "scan", "scatter", "sort", "topk",
    )
)  # fmt: skip
_BODY_TO_APPLY: Final = _TO_APPLY - {"reduce-scatter", "scan"}


class LineWriter:
    """Writes the instructions of one computation. `names` are what its instructions are called, by id."""

    __slots__ = ("_level", "_names", "_place", "_printer", "_shown")

    def __init__(self, printer: ComputationPrinter, place: int, names: dict[int, str], level: int) -> None:
        self._printer = printer
        self._place = place
        self._names = names
        self._level = level

    def write(self, one: Any) -> str:
        """The line of an instruction, without indentation and `ROOT`."""
        printer = self._printer
        options = printer.options
        names = self._names
        opcode = one.opcode
        ids = one.operand_ids
        if opcode == "parameter":
            operands = str(one.parameter_number)
        elif opcode == "constant":
            operands = constant_text(one.literal, options)
        elif ids:
            operands = (
                self._operands(ids)
                if options.print_operand_shape or not options.print_operand_names or len(ids) > 4
                else ", ".join([names[i] for i in ids])
            )
        else:
            operands = ""
        attributes = ""
        if opcode in ASYNC:
            opcode, attributes = self._async(one)
        else:
            if opcode not in _OPCODES:
                raise InvalidModuleError(f"{opcode!r} is no opcode")
            if options.print_extra_attributes:
                own = ATTRIBUTES.get(opcode)
                if own is not None:
                    attributes = own(one, self)
            elif one.result_accuracy not in _NO_MESSAGE and opcode in ATTRIBUTES:
                attributes = ATTRIBUTES[opcode](one, self)
            if one.called_computation_ids:
                attributes += self._called(one)
        attributes += self._common(one)
        metadata = printer.metadata[one.metadata] if options.print_metadata else ""
        backend = one.backend_config
        config = ""
        if options.print_backend_config and (backend or one.backend_config_payload != ABSENT):
            config = self._backend_config(one)
        shape = f"{printer.shapes[one.shape]} " if options.print_result_shape else ""
        return f"{names[one.id]} = {shape}{opcode}({operands}){attributes}{metadata}{config}"

    def _operands(self, ids: Any) -> str:
        printer = self._printer
        options = printer.options
        shown = list(ids)
        more = 0
        if options.compact_operands and len(shown) > _COMPACT:
            more = len(shown) - _COMPACT
            shown = shown[:_COMPACT]
        if options.print_operand_names or options.canonicalize_instruction_names:
            parts = [self._names[i] for i in shown]
        else:
            parts = [""] * len(shown)
        if options.print_operand_shape:
            shapes = printer.operand_shapes(self._place)
            space = " " if parts and parts[0] else ""
            parts = [f"{shapes[i]}{space}{part}" for i, part in zip(shown, parts, strict=True)]
        text = numbered(parts, options.operand_index_interval)
        return f"{text}, ...(+{more})" if more else text

    def _common(self, one: Any) -> str:
        # What any instruction may have, between its own attributes and its metadata.
        printer = self._printer
        text = printer.shardings[one.sharding] + printer.frontend[one.frontend_attributes]
        predecessors = one.control_predecessor_ids
        if predecessors and printer.options.print_control_dependencies:
            text += f", control-predecessors={{{', '.join([printer.name_of(self._place, i) for i in predecessors])}}}"
        return text + printer.statistics[one.statistics_viz] + printer.origins[one.original_value]

    # -- what attributes ask for --------------------------------------------------------------

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized shape, layout included."""
        return self._printer.shape_text(data)

    def operand_shape(self, one: Any, number: int) -> Shape | None:
        """The shape of an operand; None if there is none of that number."""
        if number >= len(one.operand_ids):
            return None
        found = self._printer.instruction(self._place, one.operand_ids[number])
        return None if found is None else Shape.from_proto(found.shape)

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
        return self._printer.show_metadata

    # -- parts of a line ----------------------------------------------------------------------

    def _backend_config(self, one: Any) -> str:
        data = one.backend_config
        if one.backend_config_payload != ABSENT:
            payload = xla.Payload.FromString(one.backend_config_payload)
            data = payload_bytes(payload, self._printer.module.payloads) or data
            if not data:
                return ""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return f', backend_config="{escape(data)}"'
        return f", backend_config={text}" if is_json_dict(text) else f', backend_config="{escape(text)}"'

    def _called(self, one: Any) -> str:
        opcode, called = one.opcode, one.called_computation_ids
        printer = self._printer
        bodies = printer.options.print_computation_bodies
        if opcode == "while" and len(called) == 2:
            return f", condition={self._target(called[1])}, body={self._target(called[0])}"
        if opcode == "select-and-scatter" and len(called) == 2:
            return f", select={self._target(called[0])}, scatter={self._target(called[1])}"
        if opcode == "conditional":
            if len(called) == 2 and self._is_pred(one):
                return f", true_computation={self._target(called[0])}, false_computation={self._target(called[1])}"
            return f", branch_computations={self._targets(called)}"
        if opcode == "custom-call":
            return f", called_computations={self._targets(called)}"
        label = "to_apply" if opcode in (_BODY_TO_APPLY if bodies else _TO_APPLY) else "calls"
        if len(called) == 1:
            text = f", {label}={self._target(called[0])}"
            return f"{text}, is_composite=true" if one.is_composite else text
        if bodies:
            return f", {label}={self._targets(called)}"
        return f", {label}={', '.join([self._target(i) for i in called])}"

    def _is_pred(self, one: Any) -> bool:
        shape = self.operand_shape(one, 0)
        return shape is not None and shape.element_type == xla.PRED

    def _target(self, called: int) -> str:
        printer = self._printer
        if printer.options.print_computation_bodies:
            return "\n" + printer.body(called, self._level + 1)
        return printer.called_name(called)

    def _targets(self, called: Any) -> str:
        printer = self._printer
        if printer.options.print_computation_bodies:
            tab = "  " * (printer.options.indent_amount + self._level)
            return "{\n" + ",\n".join([printer.body(i, self._level + 1) for i in called]) + f"\n{tab}}}"
        return f"{{{', '.join([printer.called_name(i) for i in called])}}}"

    def _async(self, one: Any) -> tuple[str, str]:
        # The opcode and the attributes of an asynchronous instruction.
        printer = self._printer
        opcode = one.opcode
        place = printer.async_computation(self._place, one)
        wrapped = None if place is None else printer.wrapped(place)
        attributes = ""
        if opcode == "async-start" and printer.options.print_extra_attributes:
            thread = one.async_execution_thread
            if thread and thread != "main":
                attributes = f', async_execution_thread="{thread}"'
            if wrapped is not None and place is not None:
                attributes += LineWriter(printer, place, {}, self._level).all_attributes(wrapped)
        if opcode == "async-start" and one.called_computation_ids:
            if wrapped is None or printer.options.print_computation_bodies:
                attributes += f", calls={self._target(one.called_computation_ids[0])}"
        return (opcode if wrapped is None else wrapped.opcode + ASYNC[opcode]), attributes

    def all_attributes(self, one: Any) -> str:
        """Everything between an instruction's operands and its metadata."""
        attributes = ""
        if self._printer.options.print_extra_attributes:
            own = ATTRIBUTES.get(one.opcode)
            attributes = "" if own is None else own(one, self)
        if one.called_computation_ids:
            attributes += self._called(one)
        return attributes + self._common(one)
