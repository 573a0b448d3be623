"""Computations as text, a line an instruction. Matches XLA's HloComputation and HloInstruction printers.

    computation := 'ENTRY '? name signature? '{' line* '}' (', execution_thread="' thread '"')?
    line        := 'ROOT '? name ' = ' shape ' ' opcode '(' operands ')' attributes calls tail
    tail        := sharding, frontend_attributes, control-predecessors, statistics, origin, metadata, backend_config: those there are

An async-start, -update or -done whose computation only wraps one instruction is written as that instruction: `all-gather-start`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlashape.errors import InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo.print_line import ASYNC, LineWriter
from xlashape.hlo.print_metadata import (
    frontend_attributes_text,
    metadata_fields,
    original_value_text,
    statistics_text,
)
from xlashape.hlo.print_options import PrintOptions
from xlashape.hlo.print_order import post_order, unused
from xlashape.hlo.print_sharding import sharding_text
from xlashape.hlo.print_text import safe_name, without_suffix
from xlashape.hlo.print_twin import ABSENT
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.text import shape_text

__all__ = ["ComputationPrinter"]


class _Texts(dict[bytes, str]):
    """Serialized message → text, made on first use."""

    def __init__(self, make: Callable[[bytes], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, data: bytes) -> str:
        text = self[data] = self._make(data)
        return text


def _first(pair: tuple[int, Any]) -> int:
    return pair[0]


class _Names(dict[int, str]):
    """Id → name. XLA looks at the low 32 bits of an id only, so an id that is not there as it stands is looked up by those."""

    def __missing__(self, one: int) -> str:
        local = one & LOCAL_ID
        for key in self:
            if key & LOCAL_ID == local:
                name = self[one] = self[key]
                return name
        raise InvalidModuleError(f"there is no instruction of id {one}")


class ComputationPrinter:
    """Prints the computations of one module, given in the printer's schema (print_twin)."""

    def __init__(self, module: Any, options: PrintOptions) -> None:
        self.module = module
        self.options = options
        self.show_metadata = options.print_metadata
        self.computations: Sequence[Any] = module.computations
        self.place_of_id = {one.id & LOCAL_ID: place for place, one in enumerate(self.computations)}
        self.percent = "%" if options.print_percent else ""
        self.frames = len(self._parse(xla.StackFrameIndexProto, module.stack_frame_index).stack_frames)
        self._orders: dict[int, list[int]] = {}
        self._bodies = 0
        self._operand_shapes: dict[int, _Names] = {}
        self._instructions: dict[int, dict[int, Any]] = {}
        layout = options.include_layout_in_shapes
        self.shapes = _Texts(
            (lambda data: str(Shape.from_proto(data)))
            if layout
            else (lambda data: shape_text(Shape.from_proto(data), layout=False))
        )
        self._full_shapes = self.shapes if layout else _Texts(lambda data: str(Shape.from_proto(data)))
        self._bare_shapes = _Texts(lambda data: shape_text(Shape.from_proto(data), layout=False))
        self.metadata = _Texts(self._metadata_text)
        self.shardings = _Texts(
            lambda data: f", sharding={sharding_text(xla.OpSharding.FromString(data), metadata=self.show_metadata)}"
        )
        self.frontend = _Texts(self._frontend_text)
        self.statistics = _Texts(self._statistics_text)
        self.origins = _Texts(lambda data: f", origin={original_value_text(xla.OriginalValueProto.FromString(data))}")
        self.metadata[ABSENT] = self.shardings[ABSENT] = self.frontend[ABSENT] = ""
        self.metadata[b""] = self.frontend[b""] = self.statistics[b""] = ""
        self.statistics[ABSENT] = self.origins[ABSENT] = ""

    @staticmethod
    def _parse(kind: Any, data: bytes) -> Any:
        return kind() if data == ABSENT else kind.FromString(data)

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized shape, layout included."""
        return self._full_shapes[data]

    def _metadata_text(self, data: bytes) -> str:
        fields = metadata_fields(xla.OpMetadata.FromString(data), self.frames, self.module.payloads)
        return f", metadata={{{fields}}}" if fields else ""

    @staticmethod
    def _frontend_text(data: bytes) -> str:
        text = frontend_attributes_text(xla.FrontendAttributes.FromString(data))
        return f", frontend_attributes={text}" if text else ""

    @staticmethod
    def _statistics_text(data: bytes) -> str:
        text = statistics_text(xla.StatisticsViz.FromString(data))
        return f", statistics={text}" if text else ""

    # -- what belongs to a computation ------------------------------------------------------

    def order(self, place: int) -> list[int]:
        """The places of a computation's instructions, operands before their users."""
        order = self._orders.get(place)
        if order is None:
            operands, before = self._edges(place)
            count = len(before)
            roots = unused(count, operands)
            ids = [one.id & LOCAL_ID for one in self.computations[place].instructions]
            if ids != sorted(ids):
                roots.sort(key=ids.__getitem__)
            order = self._orders[place] = post_order(before, roots)
            if len(order) < count:
                order += sorted(set(range(count)).difference(order))
        return order

    def _edges(self, place: int) -> tuple[list[list[int]], list[list[int]]]:
        # Per instruction the places of its operands, and of all that comes before it.
        computation = self.computations[place]
        places = {one.id & LOCAL_ID: i for i, one in enumerate(computation.instructions)}
        operands: list[list[int]] = []
        before: list[list[int]] = []
        for one in computation.instructions:
            try:
                targets = [places[i & LOCAL_ID] for i in one.operand_ids]
                operands.append(targets)
                predecessors = one.control_predecessor_ids
                before.append([places[i & LOCAL_ID] for i in reversed(predecessors)] + targets if predecessors else targets)
            except KeyError as error:
                raise InvalidModuleError(
                    f"computation {computation.name!r}: instruction {one.name!r} names an operand or control predecessor of id"
                    f" {error.args[0]}, which is not in its computation"
                ) from None
        return operands, before

    def computation_order(self) -> list[int]:
        """The places of the computations, called ones before their callers."""

        called: list[list[int]] = []
        for computation in self.computations:
            instructions = computation.instructions
            calls = [(one.id & LOCAL_ID, one.called_computation_ids) for one in instructions if one.called_computation_ids]
            calls.sort(key=_first)
            called.append([self._place(i) for _, ids in calls for i in ids])
        order = post_order(called, unused(len(called), called))
        if len(order) < len(called):
            order += sorted(set(range(len(called))).difference(order))
        return order

    def _place(self, computation_id: int) -> int:
        place = self.place_of_id.get(computation_id & LOCAL_ID)
        if place is None:
            raise InvalidModuleError(f"there is no computation of id {computation_id}")
        return place

    def wrapped(self, place: int) -> Any:
        """The one instruction that a computation wraps, its parameters left aside; None if it does more."""
        computation = self.computations[place]
        root = None
        for one in computation.instructions:
            if one.id & LOCAL_ID == computation.root_id & LOCAL_ID:
                root = one
            elif one.opcode != "parameter":
                return None
        if root is None or root.opcode == "parameter":
            return None
        if len(root.operand_ids) != len(computation.instructions) - 1:
            return None
        return root

    def is_sugar(self, place: int, async_places: frozenset[int]) -> bool:
        """Whether a computation is not printed, because the instructions that call it stand for it."""
        return place in async_places and self.wrapped(place) is not None

    def async_places(self) -> frozenset[int]:
        """The computations that async-start instructions call."""
        return frozenset(
            self._place(called)
            for computation in self.computations
            for one in computation.instructions
            if one.opcode in ASYNC
            for called in one.called_computation_ids
        )

    def async_computation(self, place: int, one: Any) -> int | None:
        """The place of the computation that an async-start, or the start of an update or done, calls."""
        instructions = self.computations[place].instructions
        for _ in range(len(instructions)):
            if one.called_computation_ids:
                return self._place(one.called_computation_ids[0])
            if not one.operand_ids or one.opcode == "async-start":
                return None
            before = one.operand_ids[0] & LOCAL_ID
            one = self._by_local_id(place).get(before)
            if one is None or one.opcode not in ASYNC:
                return None
        return None

    def _by_local_id(self, place: int) -> dict[int, Any]:
        found = self._instructions.get(place)
        if found is None:
            found = self._instructions[place] = {
                one.id & LOCAL_ID: one for one in self.computations[place].instructions
            }
        return found

    def name_of(self, place: int, one: int) -> str:
        """The own name of an instruction, whatever the options call it."""
        found = self._by_local_id(place).get(one & LOCAL_ID)
        if found is None:
            raise InvalidModuleError(f"there is no instruction of id {one}")
        return self.name_text(found)

    def operand_shapes(self, place: int) -> dict[int, str]:
        """The texts of the shapes of a computation's instructions by id."""
        found = self._operand_shapes.get(place)
        if found is None:
            shapes = self.shapes
            found = _Names((one.id, shapes[one.shape]) for one in self.computations[place].instructions)
            self._operand_shapes[place] = found
        return found

    def instruction(self, place: int, one: int) -> Any:
        """The instruction of an id in a computation, or None."""
        return self._by_local_id(place).get(one & LOCAL_ID)

    # -- lines -------------------------------------------------------------------------------

    def lines(
        self, place: int, *, entry: bool, order: list[int] | None = None, level: int = 0, nested: bool = False
    ) -> list[str]:
        """The lines of a computation, each indented, from its header to its closing brace.

        `order` is its schedule, `level` its depth among bodies printed within bodies.
        """
        options = self.options
        computation = self.computations[place]
        instructions = computation.instructions
        order = self.order(place) if order is None else order
        tab = "  " * (options.indent_amount + level)
        if options.canonicalize_instruction_names:
            names = _Names((instructions[i].id, f"tmp_{number}") for number, i in enumerate(order))
        else:
            names = _Names((one.id, self.name_text(one)) for one in instructions)
        head = "ENTRY " if entry else ""
        if not nested and not options.is_in_nested_computation:
            head += self.percent + (f"{safe_name(computation.name)} " if options.print_ids else "")
        if options.print_program_shape:
            head += self._signature(computation)
        lines = [f"{tab}{head}{{"]
        root = computation.root_id & LOCAL_ID
        write = LineWriter(self, place, names, level).write
        indent, root_indent = tab + "  ", tab + "  ROOT "
        one = None
        try:
            for i in order:
                one = instructions[i]
                lines.append((root_indent if one.id & LOCAL_ID == root else indent) + write(one))
        except LimitExceededError:
            raise
        except XlashapeError as error:
            name = one.name if one is not None else ""
            raise InvalidModuleError(
                f"computation {computation.name!r}: instruction {name!r}: {error.message}"
            ) from error
        thread = computation.execution_thread
        shown = thread and thread != "main" and options.print_ids
        lines.append(f'{tab}}}, execution_thread="{thread}"' if shown else f"{tab}}}")
        return lines

    def name_text(self, one: Any) -> str:
        """The own name of an instruction or computation; without what makes it unique where the options show no ids."""
        name = safe_name(one.name)
        return self.percent + (name if self.options.print_ids else without_suffix(name))

    def _signature(self, computation: Any) -> str:
        parameters: list[tuple[int, str]] = []
        result = ""
        for one in computation.instructions:
            if one.opcode == "parameter":
                text = f"{self.name_text(one).removeprefix(self.percent)}: {self._bare_shapes[one.shape]}"
                parameters.append((one.parameter_number, text))
            if one.id & LOCAL_ID == computation.root_id & LOCAL_ID:
                result = self._bare_shapes[one.shape]
        parameters.sort(key=lambda pair: pair[0])
        return f"({', '.join([text for _, text in parameters])}) -> {result} "

    def body(self, called: int, level: int) -> str:
        """The body of a called computation, from its opening brace on, as it stands within another."""
        self._bodies += 1
        if level > _MAX_BODY_LEVELS:
            raise LimitExceededError(
                f"computations call each other more than {_MAX_BODY_LEVELS} levels deep",
                limit="body levels",
                maximum=_MAX_BODY_LEVELS,
                value=level,
            )
        if self._bodies > _MAX_BODIES:
            raise LimitExceededError(
                f"more than {_MAX_BODIES} bodies within bodies", limit="bodies", maximum=_MAX_BODIES, value=self._bodies
            )
        return "\n".join(self.lines(self._place(called), entry=False, level=level, nested=True))

    def called_name(self, called: int) -> str:
        """The name of a called computation."""
        return self.name_text(self.computations[self._place(called)])


_MAX_BODY_LEVELS = 100
_MAX_BODIES = 1 << 20
"""Bodies within bodies grow exponentially where computations call others twice."""
