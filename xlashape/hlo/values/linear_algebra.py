"""The options of a triangular solve and of a Cholesky decomposition, each an attribute of its own.

    left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE

Flags are written where they are true.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, scalar_value, submessage
from xlashape.hlo.values.enums import EnumWords, enum_value
from xlashape.proto import xla
from xlashape.proto.wire import Fields

_SOLVE: Final = Fields(xla.TriangularSolveOptions)
_TRANSPOSES: Final = EnumWords(xla.TriangularSolveOptions.Transpose.items(), "a transposition")


def _flag(message_class: type[Message], field: str, name: str) -> Attribute:
    """A flag that is field `name` of the message in field `field` of an instruction."""
    fields = Fields(message_class)

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integer(name, cursor.parse_bool()))

    def write(message: Any, _context: Context) -> str:
        options = message_class.FromString(submessage(getattr(message, field)))
        return f", {name}=true" if getattr(options, name) else ""

    return Attribute(name, read, write, scalar_value(name, "True or False", owner=field))


def _read_transpose(cursor: HloCursor) -> bytes:
    return FIELDS.message("triangular_solve_options", _SOLVE.integer("transpose_a", _TRANSPOSES.parse(cursor)))


def _write_transpose(message: Any, _context: Context) -> str:
    options = xla.TriangularSolveOptions.FromString(submessage(message.triangular_solve_options))
    return f", transpose_a={_TRANSPOSES.text(options.transpose_a)}"


CHOLESKY_LOWER: Final = _flag(xla.CholeskyOptions, "cholesky_options", "lower")
LEFT_SIDE: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "left_side")
TRIANGULAR_LOWER: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "lower")
UNIT_DIAGONAL: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "unit_diagonal")
TRANSPOSE_A: Final = Attribute(
    "transpose_a",
    _read_transpose,
    _write_transpose,
    enum_value("transpose_a", _TRANSPOSES, owner="triangular_solve_options"),
)
