"""What the parser of one module knows while it reads: shapes and attributes by their text, computations by name,
instructions read.

An instruction is kept as bytes of its HloInstructionProto, without what is known only at the end: its final name, the
ids of a module that may still change, and the number of its stack frame in the table that the module gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlashape.errors import ParseError
from xlashape.hlo.literal import Elided
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.text import Source

MAX_DEPTH = 100
"""Levels of operations within operands, and of computations within instructions."""

MAIN_THREAD = b"main"
"""The execution thread of computations and instructions without one. Protos leave its name out."""

_SHAPES_KEPT = 1 << 23  # characters of shapes' texts
_ATTRIBUTES_KEPT = 1 << 23
_ERRORS = 20  # after so many errors the rest of the text is not read


class ParsedShape:
    """A shape that the text has: its value, its message and its bytes as field `shape` of an instruction."""

    __slots__ = ("_bare", "_of_literal", "data", "field", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.data = shape.to_proto().SerializeToString()
        self.field = FIELDS.message("shape", self.data)
        self._bare: Shape | None = None
        self._of_literal: ParsedShape | None = None

    @property
    def bare(self) -> Shape:
        """The shape without layouts. Operands' written shapes and computations' results are compared without them."""
        if self._bare is None:
            self._bare = self.shape.without_layout()
        return self._bare

    def is_like(self, written: ParsedShape) -> bool:
        """Whether `written` may stand for this shape: they are equal but for layouts and for which dimensions are
        dynamic."""
        if self is written or self.data == written.data or self.bare == written.bare:
            return True
        return _without_dynamism(self.proto()) == _without_dynamism(written.proto())

    @property
    def is_plain(self) -> bool:
        """Whether a literal of this shape has this very shape: a static array whose elements have their type's own
        size."""
        shape = self.shape
        return (
            shape.is_array
            and not any(shape.dynamic_dimensions)
            and (shape.layout is None or not shape.layout.element_size_in_bits)
        )

    def of_literal(self) -> ParsedShape:
        """The shape of a literal of this shape, which is also that of the constant."""
        if self._of_literal is None:
            proto = self.proto()
            if proto.element_type == xla.BUFFER:
                proto = proto.tuple_shapes[0]
            make_static(proto)
            self._of_literal = ParsedShape(Shape.from_proto(proto))
        return self._of_literal

    def in_default_order(self) -> ParsedShape:
        """The shape with its dimensions in the default order in memory; tiles and the rest of its layouts stay."""
        proto = self.proto()
        _reset_order(proto)
        return ParsedShape(Shape.from_proto(proto))

    def proto(self) -> xla.ShapeProto:
        """A new message of the shape."""
        return xla.ShapeProto.FromString(self.data)


def _reset_order(shape: xla.ShapeProto) -> None:
    if shape.HasField("layout"):  # sorting nothing makes an empty layout in protobuf 4.25
        shape.layout.minor_to_major.sort(reverse=True)
    for part in shape.tuple_shapes:
        _reset_order(part)


def _without_dynamism(shape: xla.ShapeProto) -> Shape:
    make_static(shape)
    return Shape.from_proto(shape).without_layout()


def make_static(shape: xla.ShapeProto) -> None:
    """Takes dynamic dimensions and element sizes out of a shape and its parts."""
    if True in shape.is_dynamic_dimension:
        shape.is_dynamic_dimension[:] = [False] * len(shape.is_dynamic_dimension)
    if shape.layout.element_size_in_bits:
        shape.layout.element_size_in_bits = 0
    for part in shape.tuple_shapes:
        make_static(part)


class ParsedAttribute:
    """An attribute read: bytes of the instruction's fields, and what cannot be bytes yet."""

    __slots__ = ("attribute", "calls", "data", "frame", "payload", "thread")

    def __init__(
        self,
        attribute: Attribute,
        data: bytes,
        *,
        calls: tuple[int, ...] = (),
        frame: int = 0,
        payload: bytes | None = None,
        thread: bytes = b"",
    ) -> None:
        self.attribute = attribute
        self.data = data
        self.calls = calls
        """The indices of the computations it calls, or of the instructions it names."""
        self.frame = frame
        """The stack frame in the text's table that metadata names; 0 for none."""
        self.payload = payload
        """The payload of the metadata, which is kept in the module's table of payloads."""
        self.thread = thread
        """The execution thread of an asynchronous operation."""


class ParsedInstruction:
    """An instruction read. `data` are its fields but name, id and operands."""

    __slots__ = (
        "async_computation",
        "async_origin",
        "calls",
        "control",
        "data",
        "frame",
        "name",
        "opcode",
        "operands",
        "payload",
        "shape",
        "thread",
    )

    def __init__(self, name: str, opcode: str, shape: ParsedShape, data: bytes, operands: tuple[int, ...]) -> None:
        self.name = name
        self.opcode = opcode
        self.shape = shape
        self.data = data
        self.operands = operands
        self.calls: tuple[int, ...] = ()
        self.control: tuple[int, ...] = ()
        self.frame = 0
        self.payload: bytes | None = None
        self.thread = MAIN_THREAD
        self.async_computation = -1
        """The index of the computation that an asynchronous instruction runs; -1 if there is none."""
        self.async_origin: ParsedInstruction | None = None
        """Of an async-update or async-done, the instruction that names the computation that runs, if it is known."""

    def set_shape(self, shape: ParsedShape) -> None:
        """Gives it another shape, in its data too."""
        message = xla.HloInstructionProto.FromString(self.data)
        message.shape.CopyFrom(shape.proto())
        self.shape, self.data = shape, message.SerializeToString()

    @property
    def is_linked(self) -> bool:
        """Whether it refers to anything but its operands."""
        return bool(self.calls or self.control or self.frame) or self.thread != MAIN_THREAD or self.payload is not None


class ParsedComputation:
    """A computation read: its instructions in the order of the text."""

    __slots__ = ("instructions", "is_fusion", "name", "parameters", "root", "thread")

    def __init__(self, name: str) -> None:
        self.name = name
        self.instructions: list[ParsedInstruction] = []
        self.root = -1
        self.parameters: dict[int, int] = {}
        """Parameter number → index of the instruction."""
        self.thread = MAIN_THREAD
        self.is_fusion = False


class State:
    """What is known of the module that is being read."""

    __slots__ = (
        "_attributes_kept",
        "_shapes_kept",
        "async_origins",
        "attributes",
        "channels_0",
        "computation_indices",
        "computations",
        "cursor",
        "depth",
        "elided",
        "errors",
        "literals",
        "shapes",
        "source",
        "text",
        "thread_steps",
        "threads",
    )

    def __init__(self, source: Source, *, elided_values: bool = True) -> None:
        self.source = source
        self.text = source.text
        self.cursor = HloCursor(source)
        self.computations: list[ParsedComputation] = []
        self.computation_indices: dict[str, int] = {}
        """Name of a computation → its index; -1 for a computation that could not be read."""
        self.channels_0: list[str] = []
        """The instructions whose text says `channel_id=0`."""
        self.async_origins: dict[Any, Any] = {}
        """Where asynchronous operations were started, as far as it has been looked for."""
        self.threads: dict[int, bytes] = {}
        """Index of a computation → the thread that it and all that it calls have been put on."""
        self.thread_steps = 0
        """How often a computation has been put on a thread."""
        self.elided = Elided(is_filled=elided_values)
        self.errors: list[ParseError] = []
        self.depth = 0
        """Computations written within computations that are being read."""
        self.shapes: dict[str, ParsedShape] = {}
        self._shapes_kept = 0
        self._attributes_kept = 0
        self.attributes: dict[str, ParsedAttribute] = {}
        """Attributes by their text. The same text may be another attribute for another opcode:
        `ParsedAttribute.attribute` is the attribute that was read. Kept while this module is read, as are the
        literals."""
        self.literals: dict[str, bytes] = {}
        """The field `literal` of scalar constants, by shape and text."""

    def keep_attribute(self, text: str, attribute: ParsedAttribute) -> None:
        """Keeps an attribute by its text."""
        self._make_room(text)
        self.attributes[text] = attribute

    def keep_literal(self, text: str, data: bytes) -> None:
        """Keeps the literal of a scalar by its shape and text."""
        self._make_room(text)
        self.literals[text] = data

    def _make_room(self, text: str) -> None:
        # Removes all attributes and literals when there are many.
        self._attributes_kept += len(text) + 64
        if self._attributes_kept > _ATTRIBUTES_KEPT:
            self._attributes_kept = 0
            self.attributes.clear()
            self.literals.clear()

    def shape_of_text(self, text: str, at: int) -> ParsedShape:
        """The shape of `text`, which is at `at` in the source."""
        found = self.shapes.get(text)
        if found is None:
            cursor = self.cursor
            cursor.at = at
            found = self.parse_shape()
            if cursor.at != at + len(text):
                cursor.fail("an opcode")
        return found

    def parse_shape(self) -> ParsedShape:
        """The shape at the cursor."""
        cursor = self.cursor
        cursor.skip_space()
        at = cursor.at
        found = ParsedShape(cursor.parse_shape())
        self._shapes_kept += cursor.at - at
        if self._shapes_kept > _SHAPES_KEPT:
            self._shapes_kept = 0
            self.shapes.clear()
        self.shapes[self.text[at : cursor.at]] = found
        return found

    def computation(self, name: str, at: int) -> int:
        """The index of the computation of a name, which is at `at` in the text."""
        index = self.computation_indices.get(name)
        if index is None:
            raise self.cursor.error(
                f"no computation {name!r} is defined before this",
                at=at,
                expected="a computation defined before",
                found=name,
            )
        return index

    def note(self, error: ParseError) -> None:
        """Keeps an error, so that reading can go on after it. Raises all of them when there are many."""
        self.errors.append(error)
        if len(self.errors) >= _ERRORS:
            self.raise_errors()

    def raise_errors(self) -> None:
        """Raises the first of the errors kept, with the others in it, if there are any."""
        if self.errors:
            first, *others = self.errors
            first.others = tuple(others)
            raise first


class Body:
    """One computation's body while it is read."""

    __slots__ = ("computation", "current", "cursor", "elements", "names", "open", "parse_body", "state", "text")

    def __init__(
        self, state: State, computation: ParsedComputation, parse_body: Callable[[State, ParsedComputation], None]
    ) -> None:
        self.state = state
        self.cursor = state.cursor
        self.text = state.text
        self.computation = computation
        self.parse_body = parse_body
        """Reads a computation written where it is called."""
        self.names: dict[str, int] = {}
        """Name → index; -1 for an instruction that could not be read."""
        self.elements: dict[tuple[int, int], int] = {}
        """(Index of a tuple, number of an element) → index of the get-tuple-element that stands for operands such as
        `%x#0`."""
        self.current = ""
        """The name of the instruction that is being read."""
        self.open = False
        """Whether an operand that no instruction defines becomes a parameter."""

    def check_parameters(self) -> None:
        """Raises ParseError if a parameter of a number below the greatest is missing."""
        parameters = self.computation.parameters
        for number in range(len(parameters)):
            if number not in parameters:
                raise self.cursor.error(
                    f"computation {self.computation.name!r} has {len(parameters)} parameters: parameter({number}) is "
                    "missing",
                    at=self.cursor.at - 1,
                )
