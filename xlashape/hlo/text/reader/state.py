"""The state of the reader of HLO text: `State` for a module, `Body` for the computation that is being read, and records
for what has been read: ParsedComputation, ParsedInstruction, ParsedAttribute, ParsedShape.

A ParsedInstruction holds serialized fields of HloInstructionProto. Its final name, the ids that it refers to and the
number of its stack frame are known only at the end of the module, so they are not in these bytes.
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
"""The greatest depth of operations within operands, and of computations written within instructions."""

MAIN_THREAD = b"main"
"""The execution thread of computations and instructions without one. Protos leave its name out."""

_SHAPES_KEPT = 1 << 23
"""The greatest number of characters in the texts of shapes that are kept."""
_ATTRIBUTES_KEPT = 1 << 23
"""The greatest number of characters in the texts of attributes and literals that are kept, plus 64 for each text."""
_ERRORS = 20
"""The number of errors after which the rest of the text is not read."""


class ParsedShape:
    """A shape of the text in three forms: the Shape, the serialized ShapeProto (`data`), and the serialized field
    `shape` of an instruction (`field`)."""

    __slots__ = ("_bare", "_of_literal", "data", "field", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.data = shape.to_proto().SerializeToString()
        self.field = FIELDS.message("shape", self.data)
        self._bare: Shape | None = None
        self._of_literal: ParsedShape | None = None

    @property
    def bare(self) -> Shape:
        """The shape without layouts. Layouts do not count when the shape that is written before an operand, or in a
        computation's signature, is compared with the shape of the instruction."""
        if self._bare is None:
            self._bare = self.shape.without_layout()
        return self._bare

    def is_like(self, written: ParsedShape) -> bool:
        """Whether `written` is this shape, apart from layouts and from which dimensions are dynamic."""
        if self is written or self.data == written.data or self.bare == written.bare:
            return True
        return _without_dynamism(self.proto()) == _without_dynamism(written.proto())

    @property
    def is_plain(self) -> bool:
        """Whether this is the shape of a static array whose layout gives no element size of its own. A literal of a
        plain shape has exactly that shape (see `of_literal`)."""
        shape = self.shape
        return (
            shape.is_array
            and not any(shape.dynamic_dimensions)
            and (shape.layout is None or not shape.layout.element_size_in_bits)
        )

    def of_literal(self) -> ParsedShape:
        """The shape that a constant gets if the text gives it this shape; the constant's literal gets it, too. It is
        static and has no element sizes; for a buffer it is that of the array in it."""
        if self._of_literal is None:
            proto = self.proto()
            if proto.element_type == xla.BUFFER:
                proto = proto.tuple_shapes[0]
            make_static(proto)
            self._of_literal = ParsedShape(Shape.from_proto(proto))
        return self._of_literal

    def in_default_order(self) -> ParsedShape:
        """The shape with minor_to_major of every layout in the default order. The rest of the layouts stays."""
        proto = self.proto()
        _reset_order(proto)
        return ParsedShape(Shape.from_proto(proto))

    def proto(self) -> xla.ShapeProto:
        """A new message of the shape."""
        return xla.ShapeProto.FromString(self.data)


def _reset_order(shape: xla.ShapeProto) -> None:
    # With protobuf 4.25, sorting the minor_to_major of a layout that is not set would set the layout.
    if shape.HasField("layout"):
        shape.layout.minor_to_major.sort(reverse=True)
    for part in shape.tuple_shapes:
        _reset_order(part)


def _without_dynamism(shape: xla.ShapeProto) -> Shape:
    make_static(shape)
    return Shape.from_proto(shape).without_layout()


def make_static(shape: xla.ShapeProto) -> None:
    """Makes all dimensions of a shape and its parts static, and removes the element sizes of their layouts."""
    if True in shape.is_dynamic_dimension:
        shape.is_dynamic_dimension[:] = [False] * len(shape.is_dynamic_dimension)
    if shape.layout.element_size_in_bits:
        shape.layout.element_size_in_bits = 0
    for part in shape.tuple_shapes:
        make_static(part)


class ParsedAttribute:
    """An attribute that has been read: the serialized fields of the instruction (`data`), and values that can be
    serialized only at the end of the module."""

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
        """The indices of the computations that the attribute names, or of the instructions that control-predecessors
        names."""
        self.frame = frame
        """The stack frame in the text's table that metadata names; 0 for none."""
        self.payload = payload
        """The payload of the metadata, which is kept in the module's table of payloads."""
        self.thread = thread
        """The execution thread of an asynchronous operation."""


class ParsedInstruction:
    """An instruction that has been read. `data` has its serialized fields other than name, id, operands and references
    to other parts of the module. `operands`, `calls` and `control` are indices: of operands, of called computations,
    and of control predecessors."""

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
        """For an async-update or async-done: the instruction that names the computation that runs, if it is known."""

    def set_shape(self, shape: ParsedShape) -> None:
        """Gives the instruction another shape, in `data` too."""
        message = xla.HloInstructionProto.FromString(self.data)
        message.shape.CopyFrom(shape.proto())
        self.shape, self.data = shape, message.SerializeToString()

    @property
    def is_linked(self) -> bool:
        """Whether the instruction refers to parts of the module other than its operands."""
        return bool(self.calls or self.control or self.frame) or self.thread != MAIN_THREAD or self.payload is not None


class ParsedComputation:
    """A computation that has been read, with its instructions in the order of the text."""

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
    """The state of reading one module."""

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
        """Asynchronous instruction → the instruction where its operation was started. These are the answers so far of
        `find_origin`, which reads and extends them."""
        self.threads: dict[int, bytes] = {}
        """Index of a computation → the thread that it and all computations that it calls have been put on."""
        self.thread_steps = 0
        """How many times a computation has been put on a thread."""
        self.elided = Elided(is_filled=elided_values)
        self.errors: list[ParseError] = []
        self.depth = 0
        """The depth of computations that are written within an instruction and are being read."""
        self.shapes: dict[str, ParsedShape] = {}
        self._shapes_kept = 0
        self._attributes_kept = 0
        self.attributes: dict[str, ParsedAttribute] = {}
        """Text of an attribute → the attribute. The same text may be another Attribute for another opcode;
        `ParsedAttribute.attribute` is the one that was read."""
        self.literals: dict[str, bytes] = {}
        """Shape and text of a scalar constant → its serialized field `literal`."""

    def keep_attribute(self, text: str, attribute: ParsedAttribute) -> None:
        """Adds an attribute to `attributes`."""
        self._make_room(text)
        self.attributes[text] = attribute

    def keep_literal(self, text: str, data: bytes) -> None:
        """Adds the literal of a scalar to `literals`; `text` is its shape and its text."""
        self._make_room(text)
        self.literals[text] = data

    def _make_room(self, text: str) -> None:
        # Removes all attributes and literals once they exceed _ATTRIBUTES_KEPT.
        self._attributes_kept += len(text) + 64
        if self._attributes_kept > _ATTRIBUTES_KEPT:
            self._attributes_kept = 0
            self.attributes.clear()
            self.literals.clear()

    def shape_of_text(self, text: str, at: int) -> ParsedShape:
        """The shape that `text` describes; `at` is the offset of `text` in the source."""
        found = self.shapes.get(text)
        if found is None:
            cursor = self.cursor
            cursor.at = at
            found = self.parse_shape()
            if cursor.at != at + len(text):
                cursor.fail("an opcode")
        return found

    def parse_shape(self) -> ParsedShape:
        """Reads the shape at the cursor."""
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
        """The index of the computation called `name`. ParseError at the offset `at` if there is none."""
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
        """Keeps an error, so that reading can go on after it. Raises the kept errors once there are _ERRORS of them."""
        self.errors.append(error)
        if len(self.errors) >= _ERRORS:
            self.raise_errors()

    def raise_errors(self) -> None:
        """If errors have been kept, raises the first of them, with the others in its `others`."""
        if self.errors:
            first, *others = self.errors
            first.others = tuple(others)
            raise first


class Body:
    """The body of one computation while it is being read."""

    __slots__ = ("computation", "current", "cursor", "elements", "names", "open", "parse_body", "state", "text")

    def __init__(
        self, state: State, computation: ParsedComputation, parse_body: Callable[[State, ParsedComputation], None]
    ) -> None:
        self.state = state
        self.cursor = state.cursor
        self.text = state.text
        self.computation = computation
        self.parse_body = parse_body
        """The function that reads a computation which is written within the instruction that calls it."""
        self.names: dict[str, int] = {}
        """Name of an instruction → its index; -1 for an instruction that could not be read."""
        self.elements: dict[tuple[int, int], int] = {}
        """(Index of a tuple, number of an element) → index of the get-tuple-element that the reader made for operands
        such as `%x#0`."""
        self.current = ""
        """The name of the instruction that is being read."""
        self.open = False
        """Whether the reader makes a parameter for an operand that no instruction defines."""

    def check_parameters(self) -> None:
        """Raises ParseError unless the parameters are numbered from 0 without a gap."""
        parameters = self.computation.parameters
        for number in range(len(parameters)):
            if number not in parameters:
                raise self.cursor.error(
                    f"computation {self.computation.name!r} has {len(parameters)} parameters: parameter({number}) is "
                    "missing",
                    at=self.cursor.at - 1,
                )
