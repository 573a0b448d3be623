r"""Which parts of a result share memory with which operands: `output_to_operand_aliasing={{0}: (1, {})}`.

aliasing    := '{' (pair (',' pair)*)? '}'
pair        := index ':' '(' operand ',' index ')'      index := '{' (INT (',' INT)*)? '}', into a shape
kind        := 'may-alias' | 'must-alias' | 'unknown_' INT

A module says the same of its result and its parameters, with a kind of aliasing for each: `input_output_alias`.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import ints
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context
from xlashape.hlo.values.enums import EnumWords, parse_unknown
from xlashape.proto import xla

__all__ = ["ALIAS_KINDS", "OUTPUT_TO_OPERAND_ALIASING", "parse_alias_kind"]

ALIAS_KINDS: Final = EnumWords([("may-alias", xla.MAY_ALIAS), ("must-alias", xla.MUST_ALIAS)], "a kind of aliasing")
"""The words of a module's aliasing of its result and its parameters."""


def parse_alias_kind(cursor: HloCursor) -> int:
    """The kind of aliasing that comes next."""
    number = parse_unknown(cursor)
    if number is not None:
        return number
    at = cursor.at
    word = cursor.parse_name("may-alias or must-alias")
    if word not in ALIAS_KINDS:
        raise cursor.error(f"expected may-alias or must-alias, found {word!r}", at=at)
    return ALIAS_KINDS.number(word)


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
