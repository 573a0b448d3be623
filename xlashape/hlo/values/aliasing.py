r"""Which parts of a result share memory with which operands: `output_to_operand_aliasing={{0}: (1, {})}`.

aliasing    := '{' (pair (',' pair)*)? '}'
pair        := index ':' '(' operand ',' index ')'      index := '{' (INT (',' INT)*)? '}', into a shape
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context
from xlashape.proto import xla

__all__ = ["OUTPUT_TO_OPERAND_ALIASING"]


def _read(cursor: HloCursor) -> bytes:
    def pair() -> bytes:
        message = xla.OutputOperandAliasing(output_shape_index=cursor.parse_ints())
        cursor.expect(":")
        cursor.expect("(")
        message.operand_index = cursor.parse_int("an operand's number")
        cursor.expect(",")
        message.operand_shape_index.extend(cursor.parse_ints())
        cursor.expect(")")
        return FIELDS.message("output_operand_aliasing", message)

    return b"".join(cursor.parse_list(pair))


def _write(message: Any, _context: Context) -> str:
    pairs: list[str] = []
    for data in message.output_operand_aliasing:
        alias = xla.OutputOperandAliasing.FromString(data)
        pairs.append(f"{ints(alias.output_shape_index)}: ({alias.operand_index}, {ints(alias.operand_shape_index)})")
    return f", output_to_operand_aliasing={{{', '.join(pairs)}}}" if pairs else ""


OUTPUT_TO_OPERAND_ALIASING: Final = Attribute("output_to_operand_aliasing", _read, _write)
