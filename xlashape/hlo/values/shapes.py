r"""Shapes, and literals with their shapes, as values of attributes.

shape       := as the library's parser of shapes reads it, such as f32[2,3]{1,0}
constraints := '{' (shape (',' shape)*)? '}'                                operand_layout_constraints= of a custom call
literal     := shape value | '(' (literal (',' literal)*)? ')'              literal= of a custom call
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.errors import XlashapeError
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.literal import parse_literal
from xlashape.hlo.literal.format import literal_text
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.proto import xla
from xlashape.shape.value.shape import parse_shape

__all__ = ["LITERAL", "OPERAND_LAYOUT_CONSTRAINTS", "OUTFEED_SHAPE", "parse_shape_proto"]

_MAX_LITERAL_DEPTH = 60


def parse_shape_proto(cursor: HloCursor) -> xla.ShapeProto:
    """The shape at the cursor as its message. Any error about it is a ParseError with its position in the text."""
    cursor.skip_space()
    at = cursor.at
    try:
        return parse_shape(cursor).to_proto()
    except XlashapeError as error:
        if hasattr(error, "line"):
            raise
        raise cursor.error(str(error), at=at) from error


def _read_outfeed_shape(cursor: HloCursor) -> bytes:
    return FIELDS.message("outfeed_shape", parse_shape_proto(cursor))


def _write_outfeed_shape(message: Any, context: Context) -> str:
    data = message.outfeed_shape
    return "" if data == ABSENT else f", outfeed_shape={context.shape_text(data)}"


def _read_constraints(cursor: HloCursor) -> bytes:
    shapes = cursor.parse_list(lambda: FIELDS.message("operand_shapes_with_layout", parse_shape_proto(cursor)))
    return b"".join(shapes) + FIELDS.integer("constrain_layout", 1)


def _write_constraints(message: Any, context: Context) -> str:
    if not message.constrain_layout:
        return ""
    shapes = [context.shape_text(data) for data in message.operand_shapes_with_layout]
    return f", operand_layout_constraints={{{', '.join(shapes)}}}"


def _read_literal(cursor: HloCursor) -> bytes:
    return FIELDS.message("literal", _parse_literal(cursor, 0))


def _parse_literal(cursor: HloCursor, depth: int) -> xla.LiteralProto:
    if depth > _MAX_LITERAL_DEPTH:
        raise cursor.error(f"literals nest deeper than {_MAX_LITERAL_DEPTH} levels")
    if not cursor.looking_at("("):
        shape = parse_shape_proto(cursor)
        literal, cursor.at = parse_literal(cursor.source, cursor.at, shape)
        return literal
    parts = cursor.parse_list(lambda: _parse_literal(cursor, depth + 1), "(", ")")
    shape = xla.ShapeProto(element_type=xla.TUPLE, tuple_shapes=[part.shape for part in parts])
    return xla.LiteralProto(shape=shape, tuple_literals=parts)


def _write_literal(message: Any, context: Context) -> str:
    if message.literal == ABSENT:
        return ""
    return f", literal={_literal_text(xla.LiteralProto.FromString(message.literal), context, 0)}"


def _literal_text(literal: xla.LiteralProto, context: Context, depth: int) -> str:
    """A literal with its shape; of a tuple each part has its shape instead."""
    if literal.shape.element_type != xla.TUPLE:
        return f"{context.shape_text(literal.shape.SerializeToString())} {literal_text(literal)}"
    check("levels of tuples in a literal", depth, MAX_SHAPE_DEPTH)
    return f"( {', '.join([_literal_text(part, context, depth + 1) for part in literal.tuple_literals])} )"


LITERAL: Final = Attribute("literal", _read_literal, _write_literal)
OPERAND_LAYOUT_CONSTRAINTS: Final = Attribute("operand_layout_constraints", _read_constraints, _write_constraints)
OUTFEED_SHAPE: Final = Attribute("outfeed_shape", _read_outfeed_shape, _write_outfeed_shape)
