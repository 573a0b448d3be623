r"""Which parts of a result share memory with which operands: `output_to_operand_aliasing={{0}: (1, {})}`.

aliasing    := '{' (pair (',' pair)*)? '}'
pair        := index ':' '(' operand ',' index ')'      of the result, then of the operand with this number
index       := '{' (INT (',' INT)*)? '}'                into a shape
kind        := 'may-alias' | 'must-alias' | 'unknown_' INT

The attribute `input_output_alias` of a module has such pairs of its result and its parameters, each with a kind. The
reader and the writer of modules read and write it; only the kinds are here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.hlo.tokens import HloCursor, ints
from xlashape.hlo.values.attribute import Context, structured_list, whole
from xlashape.hlo.values.enums import EnumWords, parse_unknown
from xlashape.proto import xla

ALIAS_KINDS: Final = EnumWords([("may-alias", xla.MAY_ALIAS), ("must-alias", xla.MUST_ALIAS)], "a kind of aliasing")
"""The words for the kinds of aliasing in `input_output_alias` of a module."""


def parse_alias_kind(cursor: HloCursor) -> int:
    """Reads a kind of aliasing and returns its number."""
    number = parse_unknown(cursor)
    if number is not None:
        return number
    at = cursor.at
    word = cursor.parse_name("may-alias or must-alias")
    if word not in ALIAS_KINDS:
        raise cursor.error(f"expected may-alias or must-alias, found {word!r}", at=at)
    return ALIAS_KINDS.number(word)


class OutputOperandAliasing(NamedTuple):
    """A part of a result that shares memory with a part of an operand.

    >>> OutputOperandAliasing.parse("{1}: (0, {2})")
    OutputOperandAliasing(output_shape_index=(1,), operand_index=0, operand_shape_index=(2,))
    """

    output_shape_index: tuple[int, ...] = ()
    operand_index: int = 0
    """Which operand, from 0."""
    operand_shape_index: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> OutputOperandAliasing:
        """The pair that `text` describes. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> OutputOperandAliasing:
        """Reads the pair at the cursor."""
        output = cursor.parse_ints()
        cursor.expect(":")
        cursor.expect("(")
        operand = cursor.parse_int("an operand's number")
        cursor.expect(",")
        index = cursor.parse_ints()
        cursor.expect(")")
        return cls(tuple(output), operand, tuple(index))

    def write(self) -> str:
        """The text of the pair, such as `{1}: (0, {2})`."""
        return f"{ints(self.output_shape_index)}: ({self.operand_index}, {ints(self.operand_shape_index)})"

    @classmethod
    def of_proto(cls, message: xla.OutputOperandAliasing) -> OutputOperandAliasing:
        """The pair of a message."""
        return cls(tuple(message.output_shape_index), message.operand_index, tuple(message.operand_shape_index))

    def to_proto(self) -> xla.OutputOperandAliasing:
        """A new `xla.OutputOperandAliasing`."""
        return xla.OutputOperandAliasing(
            output_shape_index=self.output_shape_index,
            operand_index=self.operand_index,
            operand_shape_index=self.operand_shape_index,
        )


def _write(message: xla.HloInstructionProto, _context: Context) -> str:
    pairs = [OutputOperandAliasing.of_proto(each).write() for each in message.output_operand_aliasing]
    return f", output_to_operand_aliasing={{{', '.join(pairs)}}}" if pairs else ""


OUTPUT_TO_OPERAND_ALIASING: Final = structured_list(
    "output_to_operand_aliasing", OutputOperandAliasing, _write, field="output_operand_aliasing"
)
