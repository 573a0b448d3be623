"""Computations as text. Matches XLA's HloComputation printer.

computation := 'ENTRY '? name signature? '{' line* '}' (', execution_thread="' thread '"')?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from xlashape.errors import InvalidModuleError, LimitExceededError, XlashapeError
from xlashape.hlo.formatting import safe_names, without_suffix
from xlashape.hlo.order import post_order, roots
from xlashape.hlo.structure import LOCAL_ID
from xlashape.hlo.text.writer.frames import FrameTables
from xlashape.hlo.text.writer.line import ASYNC, LineWriter
from xlashape.hlo.text.writer.options import PrintOptions
from xlashape.hlo.text.writer.source import ABSENT, Computation, read_computations
from xlashape.hlo.values.metadata_text import (
    frontend_attributes_text,
    metadata_fields,
    original_value_text,
    statistics_text,
)
from xlashape.hlo.values.sharding_text import sharding_text
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.shape.text.shape import shape_text

__all__ = ["ComputationPrinter"]

_MAX_BODY_LEVELS = 100
_MAX_BODIES = 1 << 20
"""Bodies within bodies grow exponentially where computations call others twice."""


class _Texts(dict[bytes, str]):
    """Serialized message → text, made on first use."""

    def __init__(self, make: Callable[[bytes], str], nothing: tuple[bytes, ...] = ()) -> None:
        super().__init__()
        self._make = make
        self.update(dict.fromkeys(nothing, ""))

    def __missing__(self, data: bytes) -> str:
        text = self[data] = self._make(data)
        return text


class ComputationPrinter:
    """Prints the computations of one module."""

    def __init__(self, module: xla.HloModuleProto, options: PrintOptions, data: bytes | None = None) -> None:
        # `data` is the module serialized, for callers that have it.
        self.options = options
        self.computations = read_computations(module if data is None else data)
        self.payloads = list(module.payloads)
        self.percent = "%" if options.print_percent else ""
        self.names = self._shown(safe_names([one.name for one in self.computations]))
        self._places = {one.id: place for place, one in enumerate(self.computations)}
        self._orders: dict[int, list[int]] = {}
        self._bodies = 0
        self._wrapped: dict[int, int | None] = {}
        self.frames = frames = FrameTables(
            module.stack_frame_index, self._used_frames() if options.print_metadata else ()
        )
        with_layout = _Texts(lambda data: str(Shape.from_proto(data)))
        self._bare_shapes = _Texts(lambda data: shape_text(Shape.from_proto(data), layout=False))
        self.full_shapes = with_layout
        self.shapes = with_layout if options.include_layout_in_shapes else self._bare_shapes

        def metadata(data: bytes) -> str:
            one = xla.OpMetadata.FromString(data)
            fields = metadata_fields(one, frames.number(one.stack_frame_id), self.payloads)
            return f", metadata={{{fields}}}" if fields else ""

        def sharding(data: bytes) -> str:
            return f", sharding={sharding_text(xla.OpSharding.FromString(data), metadata=options.print_metadata)}"

        def frontend(data: bytes) -> str:
            text = frontend_attributes_text(xla.FrontendAttributes.FromString(data))
            return f", frontend_attributes={text}" if text else ""

        def statistics(data: bytes) -> str:
            text = statistics_text(xla.StatisticsViz.FromString(data))
            return f", statistics={text}" if text else ""

        def origin(data: bytes) -> str:
            return f", origin={original_value_text(xla.OriginalValueProto.FromString(data))}"

        self.metadata = _Texts(metadata if options.print_metadata else lambda _: "", (ABSENT, b""))
        self.shardings = _Texts(sharding, (ABSENT,))
        self.frontend = _Texts(frontend, (ABSENT, b""))
        self.statistics = _Texts(statistics, (ABSENT, b""))
        self.origins = _Texts(origin, (ABSENT,))

    def _used_frames(self) -> Iterator[int]:
        seen: set[bytes] = set()
        for computation in self.computations:
            for _, data in sorted(
                zip(computation.ids, computation.metadata, strict=True), key=lambda pair: pair[0] & LOCAL_ID
            ):
                if data not in seen:
                    seen.add(data)
                    yield 0 if data == ABSENT else xla.OpMetadata.FromString(data).stack_frame_id

    def _shown(self, names: list[str]) -> list[str]:
        if not self.options.print_ids:
            names = [without_suffix(name) for name in names]
        return [self.percent + name for name in names]

    def called(self, computation_id: int) -> int:
        """The place of the computation of an id. Raises InvalidModuleError."""
        place = self._places.get(computation_id & LOCAL_ID)
        if place is None:
            raise InvalidModuleError(f"there is no computation of id {computation_id}")
        return place

    def instruction_names(self, computation: Computation) -> list[str]:
        """The names of a computation's instructions, as the options show them."""
        return self._shown(safe_names(computation.names))

    # -- order -------------------------------------------------------------------------------

    def order(self, place: int) -> list[int]:
        """The places of a computation's instructions, operands before their users."""
        order = self._orders.get(place)
        if order is None:
            computation = self.computations[place]
            operands, ids = computation.operands, computation.ids
            starts = roots(operands)
            if len(starts) > 1:
                starts.sort(key=lambda i: ids[i] & LOCAL_ID)
            before: Sequence[Sequence[int]] = operands
            if any(computation.kinds[i].predecessors for i in computation.notable):
                before = [
                    [*(computation.place(i, user) for i in reversed(kind.predecessors)), *targets]
                    for user, (kind, targets) in enumerate(zip(computation.kinds, operands, strict=True))
                ]
            order = self._orders[place] = post_order(before, starts)
            if len(order) < len(ids):
                order += sorted(set(range(len(ids))).difference(order))
        return order

    def computation_order(self) -> list[int]:
        """The places of the computations, called ones before their callers."""
        called: list[list[int]] = []
        for computation in self.computations:
            kinds, ids = computation.kinds, computation.ids
            calls = [(ids[i] & LOCAL_ID, kinds[i].called) for i in computation.notable if kinds[i].called]
            calls.sort(key=itemgetter(0))
            called.append([self.called(i) for _, targets in calls for i in targets])
        order = post_order(called, roots(called))
        if len(order) < len(called):
            order += sorted(set(range(len(called))).difference(order))
        return order

    # -- asynchronous instructions -----------------------------------------------------------

    def wrapped(self, place: int) -> int | None:
        """The place of the one instruction that a computation wraps, its parameters left aside; None if it does more."""
        if place not in self._wrapped:
            computation = self.computations[place]
            root = computation.root
            parameters = sum(computation.kinds[i].opcode == "parameter" for i in computation.notable)
            # The root may be a parameter itself: XLA writes parameter-start.
            alone = root >= 0 and len(computation.ids) - parameters == (computation.kinds[root].opcode != "parameter")
            self._wrapped[place] = root if alone else None
        return self._wrapped[place]

    def hidden(self) -> frozenset[int]:
        """The computations that are not printed, because the asynchronous instructions that call them stand for them."""
        called = {
            self.called(target)
            for computation in self.computations
            for i in computation.notable
            if computation.kinds[i].opcode in ASYNC
            for target in computation.kinds[i].called
        }
        return frozenset(place for place in called if self.wrapped(place) is not None)

    def async_computation(self, computation: Computation, place: int) -> int | None:
        """The place of the computation that an async-start, or the start of an update or done, calls; None if there is none."""
        for _ in computation.ids:
            kind = computation.kinds[place]
            if kind.called:
                return self.called(kind.called[0])
            if kind.opcode not in ASYNC or kind.opcode == "async-start" or not computation.operands[place]:
                return None
            place = computation.operands[place][0]
        return None

    # -- lines -------------------------------------------------------------------------------

    def lines(
        self, place: int, *, entry: bool, order: list[int] | None = None, level: int = 0, nested: bool = False
    ) -> list[str]:
        """The lines of a computation, each indented, from its header to its closing brace.

        `order` is its schedule, `level` its depth among bodies printed within bodies.
        """
        options = self.options
        computation = self.computations[place]
        order = self.order(place) if order is None else order
        tab = "  " * (options.indent_amount + level)
        own = self.instruction_names(computation)
        names = own
        if options.canonicalize_instruction_names:
            names = [""] * len(own)
            for number, i in enumerate(order):
                names[i] = f"tmp_{number}"
        head = "ENTRY " if entry else ""
        if not nested and not options.is_in_nested_computation:
            head += f"{self.names[place]} " if options.print_ids else self.percent
        writer = LineWriter(self, computation, names, own, level)
        try:
            lines = [""]
            writer.write(order, f"{tab}  ", lines)
            if options.print_program_shape:
                head += self._signature(computation, own)
            lines[0] = f"{tab}{head}{{"
        except LimitExceededError:
            raise
        except XlashapeError as error:
            at = writer.place
            name = f"instruction {computation.names[at]!r}: " if at >= 0 else ""
            raise InvalidModuleError(f"computation {computation.name!r}: {name}{error.message}") from error
        thread = computation.thread
        shown = thread and thread != "main" and options.print_ids
        lines.append(f'{tab}}}, execution_thread="{thread}"' if shown else f"{tab}}}")
        return lines

    def _signature(self, computation: Computation, names: list[str]) -> str:
        cut = len(self.percent)
        shapes = self._bare_shapes
        kinds = computation.kinds
        parameters = [
            (kinds[i].message.parameter_number, f"{names[i][cut:]}: {shapes[kinds[i].shape]}")
            for i in computation.notable
            if kinds[i].opcode == "parameter"
        ]
        parameters.sort(key=itemgetter(0))
        result = shapes[computation.kinds[computation.root].shape] if computation.root >= 0 else ""
        return f"({', '.join([text for _, text in parameters])}) -> {result} "

    def body(self, called: int, level: int) -> str:
        """The body of a called computation, from its opening brace on, as it stands within another."""
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
        return "\n".join(self.lines(self.called(called), entry=False, level=level, nested=True))
