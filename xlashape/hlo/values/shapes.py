r"""Attributes whose values are shapes, or literals written with their shapes.

shape       := as `xlashape.shape.text` says, such as f32[2,3]{1,0}
constraints := '{' (shape (',' shape)*)? '}'                                operand_layout_constraints= of a custom call
literal     := shape value | '(' (literal (',' literal)*)? ')'              literal= of a custom call
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from xlashape.hlo.literal import parse_literal
from xlashape.hlo.literal.data import literal_text
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context, structured, whole
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.proto import xla
from xlashape.shape import Shape

_MAX_LITERAL_DEPTH = 60
"""The greatest depth of tuples in the text of a literal."""


def _read_outfeed_shape(cursor: HloCursor) -> bytes:
    return FIELDS.message("outfeed_shape", cursor.parse_shape().to_proto())


def _write_outfeed_shape(message: xla.HloInstructionProto, context: Context) -> str:
    is_set = message.HasField("outfeed_shape")
    return f", outfeed_shape={context.shape_text(message.outfeed_shape)}" if is_set else ""


def _read_constraints(cursor: HloCursor) -> bytes:
    shapes = cursor.parse_list(lambda: FIELDS.message("operand_shapes_with_layout", cursor.parse_shape().to_proto()))
    return b"".join(shapes) + FIELDS.integer("constrain_layout", 1)


def _write_constraints(message: xla.HloInstructionProto, context: Context) -> str:
    if not message.constrain_layout:
        return ""
    shapes = [context.shape_text(shape) for shape in message.operand_shapes_with_layout]
    return f", operand_layout_constraints={{{', '.join(shapes)}}}"


def _get_outfeed_shape(instruction: xla.HloInstructionProto) -> Shape | None:
    return Shape.from_proto(instruction.outfeed_shape) if instruction.HasField("outfeed_shape") else None


def _put_outfeed_shape(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is None:
        instruction.ClearField("outfeed_shape")
    else:
        instruction.outfeed_shape.CopyFrom(_shape_of(value).to_proto())


def _get_constraints(instruction: xla.HloInstructionProto) -> tuple[Shape, ...] | None:
    shapes = instruction.operand_shapes_with_layout
    return tuple([Shape.from_proto(each) for each in shapes]) if instruction.constrain_layout else None


def _put_constraints(instruction: xla.HloInstructionProto, value: Any) -> None:
    shapes = [_shape_of(each).to_proto() for each in value or ()]
    del instruction.operand_shapes_with_layout[:]
    instruction.operand_shapes_with_layout.extend(shapes)
    instruction.constrain_layout = value is not None


def _shape_of(value: Any) -> Shape:
    if isinstance(value, str):
        return Shape.parse(value)
    if not isinstance(value, Shape):
        raise TypeError("not a Shape")
    return value


class Literal(NamedTuple):
    """A literal with its shape, held as the bytes of an `xla.LiteralProto`.

    >>> literal = Literal.parse("f32[2]{0} {1, 2}")
    >>> str(literal.shape), str(literal)
    ('f32[2]{0}', 'f32[2]{0} {1, 2}')
    """

    serialized: bytes = b""

    @classmethod
    def parse(cls, text: str) -> Literal:
        """The literal that `text` describes: its shape, then its value. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> Literal:
        """Reads the literal at the cursor."""
        return cls(_parse_literal(cursor, 0).SerializeToString())

    def write(self) -> str:
        """The text of the literal, such as `f32[2]{0} {1, 2}`."""
        return _literal_text(self.to_proto(), lambda shape: str(Shape.from_proto(shape)), 0)

    @classmethod
    def of_proto(cls, message: xla.LiteralProto) -> Literal:
        """The literal of a message."""
        return cls(message.SerializeToString())

    def to_proto(self) -> xla.LiteralProto:
        """A new `xla.LiteralProto`."""
        return xla.LiteralProto.FromString(self.serialized)

    @property
    def shape(self) -> Shape:
        """The shape of the literal."""
        return Shape.from_proto(self.to_proto().shape)

    def __str__(self) -> str:
        return self.write()


def _parse_literal(cursor: HloCursor, depth: int) -> xla.LiteralProto:
    if depth > _MAX_LITERAL_DEPTH:
        raise cursor.error(f"literals nest deeper than {_MAX_LITERAL_DEPTH} levels")
    if not cursor.looking_at("("):
        shape = cursor.parse_shape().to_proto()
        literal, cursor.at = parse_literal(cursor.source, cursor.at, shape)
        return literal
    parts = cursor.parse_list(lambda: _parse_literal(cursor, depth + 1), "(", ")")
    shape = xla.ShapeProto(element_type=xla.TUPLE, tuple_shapes=[part.shape for part in parts])
    return xla.LiteralProto(shape=shape, tuple_literals=parts)


def _write_literal(message: xla.HloInstructionProto, context: Context) -> str:
    is_set = message.HasField("literal")
    return f", literal={_literal_text(message.literal, context.shape_text, 0)}" if is_set else ""


def _literal_text(literal: xla.LiteralProto, shape_text: Callable[[xla.ShapeProto], str], depth: int) -> str:
    """The text of a literal: its shape and its value. A tuple is written as its parts, each with its own shape."""
    if literal.shape.element_type != xla.TUPLE:
        return f"{shape_text(literal.shape)} {literal_text(literal)}"
    check("levels of tuples in a literal", depth, MAX_SHAPE_DEPTH)
    return f"( {', '.join([_literal_text(part, shape_text, depth + 1) for part in literal.tuple_literals])} )"


LITERAL: Final = structured("literal", Literal)._replace(write=_write_literal)
OPERAND_LAYOUT_CONSTRAINTS: Final = Attribute(
    "operand_layout_constraints",
    _read_constraints,
    _write_constraints,
    Codec(_get_constraints, _put_constraints, "a list of shapes"),
)
OUTFEED_SHAPE: Final = Attribute(
    "outfeed_shape", _read_outfeed_shape, _write_outfeed_shape, Codec(_get_outfeed_shape, _put_outfeed_shape, "a shape")
)
