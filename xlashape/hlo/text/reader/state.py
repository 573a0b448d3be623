"""The state of the reader of HLO text: `State` for a module, `Body` for the computation that is being read, and records
for parts of text that occur many times: ParsedAttribute, ParsedShape.

Instructions and computations are those of the module. Final names, ids and the numbers of stack frames are known only
at the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xlashape.base.text import Source
from xlashape.errors import ParseError
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.kind import Kind, Kinds, TextMetadata
from xlashape.hlo.literal import Elided
from xlashape.hlo.literal.parse import make_static
from xlashape.hlo.tokens import SHAPE, HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.proto import xla
from xlashape.shape import Shape

_SHAPE = re.compile(SHAPE)
_AFTER_SHAPE = re.compile(r"[,)}]")
MAX_DEPTH = 100
"""The greatest depth of operations within operands, and of computations written within instructions."""

MAIN_THREAD = "main"
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

    def __init__(self, shape: Shape, kinds: Kinds | None = None) -> None:
        """With the kinds of a module, `shape` becomes the object that stands for it there."""
        self.data = shape.to_proto().SerializeToString()
        self.shape = shape if kinds is None else kinds.same_shape(self.data, shape)
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


class UnnumberedMetadata(TextMetadata):
    """Metadata that was read, whose stack frame and payload get their numbers at the end of the module. It becomes
    bytes then."""

    __slots__ = ("payload",)

    def __init__(self, data: bytes, frame: int, payload: bytes | None) -> None:
        """`data` is the serialized OpMetadata without the two."""
        super().__init__("", frame, lambda _: data)
        self.payload = payload
        """The payload, which is kept in the module's table of payloads."""


class ParsedAttribute(NamedTuple):
    """An attribute that has been read: the serialized fields of the instruction (`data`), and values that are no part
    of an instruction's kind."""

    attribute: Attribute
    data: bytes = b""
    calls: tuple[HloComputation | None, ...] = ()
    """The computations that the attribute names; None for one that could not be read."""
    control: tuple[HloInstruction, ...] = ()
    """The instructions that control-predecessors names."""
    metadata: TextMetadata | None = None
    thread: str = ""
    """The execution thread of an asynchronous operation."""


class State:
    """The state of reading one module."""

    def __init__(self, source: Source, module: ModuleData, *, elided_values: bool = True) -> None:
        self.source = source
        self.text = source.text
        self.cursor = HloCursor(source)
        self.module = module
        """The module that gets what is read."""
        self.computations: list[HloComputation] = []
        """The computations that have been read, in the order of the text."""
        self.computation_by_name: dict[str, HloComputation | None] = {}
        """Name of a computation → the computation; None for one that could not be read."""
        self.channels_0: list[str] = []
        """The instructions whose text says `channel_id=0`."""
        self.async_steps: dict[HloInstruction, tuple[HloComputation | None, HloInstruction | None]] = {}
        """Step of an asynchronous operation → the computation that it runs, None if there is none; and, for an
        async-update or async-done, the instruction that names that computation, if it is known."""
        self.async_threads: dict[HloInstruction, str] = {}
        """async-start → the thread on which it runs its computation, if the text names one."""
        self.async_origins: dict[HloInstruction, HloInstruction | None] = {}
        """The answers so far of `async_start`, which reads and extends them."""
        self.threads: dict[HloComputation, str] = {}
        """Computation → the thread that it and all computations that it calls have been put on."""
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
        self.metadata: dict[str, TextMetadata | None] = {}
        """Text of metadata that is written as XLA writes it → the metadata; None for text that is not."""
        self.literals: dict[str, bytes] = {}
        """Shape and text of a scalar constant → its serialized field `literal`."""
        self.by_tokens_until = 0
        """The end of a line that has several instructions, or one that XLA would not write so. It is looked at once."""
        self.fast: dict[object, Kind] = {}
        """Shape, opcode and attributes of a line as they stand → the kind that they describe."""
        self._kinds: dict[bytes, Kind] = {}
        self.fused: list[HloComputation] = []
        """The computations that fusions call."""
        self.known: frozenset[HloComputation] = frozenset()
        """Computations that the text may name and that it must not change: those of a module that is edited."""
        self.has_origins = "origin=" in self.text
        """Whether instructions have origins, which elements of tuples may take over."""

    def kind_of(self, shape: ParsedShape, pieces: Sequence[bytes]) -> Kind:
        """The kind with these serialized fields and this shape. Pieces of one submessage are merged."""
        data = b"".join((*pieces, shape.field))
        kind = self._kinds.get(data)
        if kind is None:
            message = xla.HloInstructionProto.FromString(data)
            kind = self._kinds[data] = self.module.kinds.of_message(message, shape.shape)
        return kind

    def parsed_shape(self, shape: Shape) -> ParsedShape:
        """The ParsedShape of a shape."""
        text = str(shape)
        known = self.shapes.get(text)
        if known is None or known.shape != shape:
            known = ParsedShape(shape, self.module.kinds)
        return known

    def shape_of(self, instruction: HloInstruction) -> ParsedShape:
        """The ParsedShape of an instruction."""
        return instruction.kind.fact(ParsedShape, lambda kind: self.parsed_shape(kind.shape))

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
        match = _SHAPE.match(self.text, at)
        known = None if match is None else self.shapes.get(match[0])
        if match is not None and known is not None and _AFTER_SHAPE.match(self.text, match.end()) is not None:
            cursor.at = match.end()
            return known
        found = ParsedShape(cursor.parse_shape(), self.module.kinds)
        self._shapes_kept += cursor.at - at
        if self._shapes_kept > _SHAPES_KEPT:
            self._shapes_kept = 0
            self.shapes.clear()
        self.shapes[self.text[at : cursor.at]] = found
        return found

    def new_computation(self, name: str) -> HloComputation:
        """A computation without instructions, which is not among `computations` yet."""
        return HloComputation(self.module, name, 0, MAIN_THREAD)

    def add_computation(self, computation: HloComputation) -> None:
        """Adds a computation to those that have been read."""
        computation.index = len(self.computations)
        self.computations.append(computation)

    def computation(self, name: str, at: int) -> HloComputation | None:
        """The computation called `name`; None if it could not be read. ParseError at the offset `at` if there is
        none."""
        try:
            return self.computation_by_name[name]
        except KeyError:
            raise self.cursor.error(
                f"no computation {name!r} is defined before this",
                at=at,
                expected="a computation defined before",
                found=name,
            ) from None

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

    def __init__(
        self, state: State, computation: HloComputation, parse_body: Callable[[State, HloComputation], None]
    ) -> None:
        self.state = state
        self.cursor = state.cursor
        self.text = state.text
        self.computation = computation
        self.parse_body = parse_body
        """The function that reads a computation which is written within the instruction that calls it."""
        self.instructions: list[HloInstruction] = []
        """The instructions in the order of the text; `index` is their index here."""
        self.parameters: dict[int, HloInstruction] = {}
        """The parameters by their numbers."""
        self.root: HloInstruction | None = None
        self.names: dict[str, HloInstruction | None] = {}
        """Name of an instruction → the instruction; None for one that could not be read."""
        self.elements: dict[tuple[HloInstruction, int], HloInstruction] = {}
        """(A tuple, number of an element) → the get-tuple-element that the reader made for operands such as `%x#0`."""
        self.current = ""
        """The name of the instruction that is being read."""
        self.start = 0
        """The offset at which that instruction begins."""
        self.open = False
        """Whether the reader makes a parameter for an operand that no instruction defines."""

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds an instruction to the computation."""
        instruction.index = len(self.instructions)
        self.instructions.append(instruction)
        return instruction

    def finish(self) -> None:
        """Gives the computation its instructions. Raises ParseError unless the parameters are numbered from 0 without a
        gap."""
        parameters = self.parameters
        if self.state.errors:
            # The rest of the text is read for further mistakes, and may call this computation. Its parameters may have
            # gaps because of the errors, so they are numbered anew.
            parameters = {number: parameters[each] for number, each in enumerate(sorted(parameters))}
        for number in range(len(parameters)):
            if number not in parameters:
                raise self.cursor.error(
                    f"computation {self.computation.name!r} has {len(parameters)} parameters: parameter({number}) is "
                    "missing",
                    at=self.cursor.at - 1,
                )
        if self.instructions:
            # The root could not be read where there are errors.
            self.computation.fill(self.instructions, self.root or self.instructions[-1])
            self.computation.set_parameters([parameters[number] for number in range(len(parameters))])
