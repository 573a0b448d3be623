"""Attributes that are words: values of enums, such as `fft_type=RFFT` and `schedule=SCHEDULE_EARLIEST`; the direction
and the order of a compare; the options of a triangular solve and of a Cholesky decomposition.

word        := name of a value | 'unknown_' INT
direction   := 'EQ' | 'NE' | 'GE' | 'GT' | 'LE' | 'LT'
order       := 'PARTIAL' | 'TOTAL'
type        := 'FLOAT' | 'TOTALORDER' | 'SIGNED' | 'UNSIGNED'   instead of an order, in text of jaxlib 0.10.2 and before

A number of an enum that the schema has no name for, such as one that a newer XLA added, is written as `unknown_77` and
read back as that number.

The fields of a compare are strings; a proto may have a string that is not in the grammar, which is written unchanged.
An order is written only if it is not the default of the operands' element type. A flag of a triangular solve or
Cholesky decomposition, such as `left_side=true`, is written only if it is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from google.protobuf.message import Message

from xlashape.base.similar import did_you_mean
from xlashape.errors import InvalidArgumentError
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import (
    FIELDS,
    Attribute,
    Codec,
    Context,
    always_written,
    not_written,
    scalar_value,
    word_attribute,
)
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import PrimitiveType

_UNKNOWN = re.compile(r"[uU][nN][kK][nN][oO][wW][nN]_(-?[0-9]{1,10})(?![A-Za-z0-9_.\-])")


class EnumWords:
    """The words that HLO text has for the numbers of an enum.

    `items` are pairs of a name and its number. `what` is what errors call a value of the enum, such as "a precision".
    With `any_case` the words are written in the case given and read in any case.

    >>> words = EnumWords([("DEFAULT", 0), ("HIGH", 1)], "a precision")
    >>> words.text(1), words.text(77), words.parse(HloCursor("HIGH")), words.parse(HloCursor("unknown_77"))
    ('HIGH', 'unknown_77', 1, 77)
    """

    __slots__ = ("_any_case", "_numbers", "_words", "what")

    def __init__(self, items: Iterable[tuple[str, int]], what: str, *, any_case: bool = False) -> None:
        named = list(items)
        self._words = {number: word for word, number in reversed(named)}
        self._numbers = {word.lower() if any_case else word: number for word, number in named}
        self.what = what
        self._any_case = any_case

    def __contains__(self, word: str) -> bool:
        return word in self._numbers

    def number(self, word: str) -> int:
        """The number of a word. The word must be in lower case if words are read in any case."""
        return self._numbers[word]

    def number_of(self, word: Any) -> int:
        """The number of a word that a caller passes, which may be like `unknown_77`. InvalidArgumentError for anything
        else."""
        if isinstance(word, str):
            found = self._numbers.get(word.lower() if self._any_case else word)
            unknown = _UNKNOWN.fullmatch(word)
            if found is not None:
                return found
            if unknown is not None:
                return int(unknown[1])
            hint = did_you_mean(word, self._words.values())
            raise InvalidArgumentError(f"expected {self.what}, found {word!r}{hint}")
        raise InvalidArgumentError(f"expected {self.what} as text, found {type(word).__name__}")

    def text(self, number: int) -> str:
        """The word for a number; `unknown_77` for a number without a name."""
        return self._words.get(number) or f"unknown_{number}"

    def parse(self, cursor: HloCursor) -> int:
        """Reads a word and returns its number. Raises ParseError for another word."""
        number = parse_unknown(cursor)
        if number is not None:
            return number
        return cursor.parse_word_of(self._numbers, self.what, any_case=self._any_case)


def lower_case(enum: Any, prefix: str = "") -> list[tuple[str, int]]:
    """The names of an enum's values in lower case and without `prefix`, each with its number."""
    return [(name.removeprefix(prefix).lower(), number) for name, number in enum.items()]


def parse_unknown(cursor: HloCursor) -> int | None:
    """Reads a word such as `unknown_77` and returns its number; None if no such word comes next."""
    cursor.skip_space()
    match = _UNKNOWN.match(cursor.text, cursor.at)
    if match is None:
        return None
    number = int(match.group(1))
    if not INT32_MIN <= number <= INT32_MAX:
        raise cursor.error(f"{number} does not fit int32, the type of an enum")
    cursor.at = match.end()
    return number


def enum_value(field: str, words: EnumWords, *, absent: tuple[int, ...] = (), owner: str = "") -> Codec:
    """The Codec of an enum field, whose value is a word; None for a number in `absent`. `owner` is the submessage that
    has the field, "" for a field of the instruction itself.
    """
    number = scalar_value(field, "", owner=owner)

    def get(instruction: xla.HloInstructionProto) -> str | None:
        value = number.get(instruction)
        return None if value in absent else words.text(value)

    def put(instruction: xla.HloInstructionProto, value: Any) -> None:
        if value is not None:
            number.put(instruction, words.number_of(value))
        elif get(instruction) is not None:
            number.put(instruction, None)

    return Codec(get, put, words.what)


def enum_attribute(name: str, field: str, words: EnumWords, *, unwritten: tuple[int, ...] = ()) -> Attribute:
    """The attribute `name` whose value is the enum field `field`. Numbers in `unwritten` are not written."""

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.integer(field, words.parse(cursor))

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        number = getattr(message, field)
        return "" if number in unwritten else f", {name}={words.text(number)}"

    return Attribute(name, read, write, enum_value(field, words, absent=unwritten))


FFT_TYPE: Final = enum_attribute("fft_type", "fft_type", EnumWords(xla.FftType.items(), "a kind of Fourier transform"))

DISTRIBUTION: Final = enum_attribute(
    "distribution", "distribution", EnumWords(lower_case(xla.RandomDistribution), "a distribution", any_case=True)
)

RNG_ALGORITHM: Final = enum_attribute(
    "algorithm",
    "rng_algorithm",
    EnumWords(lower_case(xla.RandomAlgorithm), "an algorithm of random bits", any_case=True),
)

PADDING_TYPE: Final = enum_attribute(
    "padding_type", "padding_type", EnumWords(xla.PaddingType.items(), "a padding type"), unwritten=(0,)
)

CONVOLUTION_KIND: Final = enum_attribute(
    "convolution_kind",
    "conv_kind",
    EnumWords(lower_case(xla.ConvolutionKind, "CONVOLUTION_KIND_"), "a kind of convolution"),
    unwritten=(0,),
)

CUSTOM_CALL_SCHEDULE: Final = enum_attribute(
    "schedule",
    "custom_call_schedule",
    EnumWords(xla.CustomCallSchedule.items(), "a schedule", any_case=True),
    unwritten=(0,),
)

API_VERSION: Final = enum_attribute(
    "api_version",
    "custom_call_api_version",
    EnumWords(
        [(name, number) for name, number in xla.CustomCallApiVersion.items() if number], "an API version", any_case=True
    ),
    unwritten=(xla.API_VERSION_UNSPECIFIED, xla.API_VERSION_ORIGINAL),
)

_GROUP_MODES: Final = EnumWords(
    lower_case(xla.CollectiveOpGroupMode, "COLLECTIVE_OP_GROUP_MODE_"), "a collective op group mode"
)


def _read_mode(cursor: HloCursor) -> bytes:
    _GROUP_MODES.parse(cursor)
    return b""


MODE: Final = Attribute("mode", _read_mode, not_written)
"""What the ids in the groups of a collective stand for: replicas, partitions or both. The schema has no field for this
attribute: XLA reads it and drops it."""

_TRI_STATES: Final = EnumWords([("true", xla.TRI_STATE_TRUE), ("false", xla.TRI_STATE_FALSE)], "'true' or 'false'")


def _read_is_associative(cursor: HloCursor) -> bytes:
    number = parse_unknown(cursor)
    if number is None:
        number = xla.TRI_STATE_TRUE if cursor.parse_bool() else xla.TRI_STATE_FALSE
    return FIELDS.integer("is_associative", number)


def _write_is_associative(message: xla.HloInstructionProto, _context: Context) -> str:
    number = message.is_associative
    return "" if number == xla.TRI_STATE_UNSPECIFIED else f", is_associative={_TRI_STATES.text(number)}"


def _get_is_associative(instruction: xla.HloInstructionProto) -> bool | str | None:
    number = instruction.is_associative
    flags = {xla.TRI_STATE_UNSPECIFIED: None, xla.TRI_STATE_TRUE: True, xla.TRI_STATE_FALSE: False}
    return flags[number] if number in flags else _TRI_STATES.text(number)


def _put_is_associative(instruction: xla.HloInstructionProto, value: Any) -> None:
    if isinstance(value, str):
        instruction.is_associative = cast("Any", _TRI_STATES.number_of(value))
    elif value is None:
        instruction.ClearField("is_associative")
    elif isinstance(value, bool):
        instruction.is_associative = xla.TRI_STATE_TRUE if value else xla.TRI_STATE_FALSE
    else:
        raise TypeError("neither True nor False")


IS_ASSOCIATIVE: Final = Attribute(
    "is_associative",
    _read_is_associative,
    _write_is_associative,
    Codec(_get_is_associative, _put_is_associative, "True or False"),
)


# -- comparisons -------------------------------------------------------------------------------


_DIRECTIONS: Final = ("EQ", "NE", "GE", "GT", "LE", "LT")
_ORDERS: Final = ("PARTIAL", "TOTAL")
_TYPES: Final = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")


def default_comparison_order(element_type: PrimitiveType) -> str:
    """The order in which a compare of this element type compares if no order is written.

    >>> [
    ...     default_comparison_order(element_type)
    ...     for element_type in (PrimitiveType.F32, PrimitiveType.S8, PrimitiveType.PRED)
    ... ]
    ['PARTIAL', 'TOTAL', 'TOTAL']
    """
    return "PARTIAL" if element_type.is_floating or element_type.is_complex else "TOTAL"


def comparison_order(order: str, comparison_type: str) -> str:
    """The order of a compare, from its fields comparison_order and comparison_type; "" if both are empty.

    XLA set the type until jaxlib 0.10.2, and has set the order since 0.11.

    >>> comparison_order("", "TOTALORDER"), comparison_order("", "FLOAT"), comparison_order("PARTIAL", "SIGNED")
    ('TOTAL', 'PARTIAL', 'PARTIAL')
    """
    if order or not comparison_type:
        return order
    return "PARTIAL" if comparison_type == "FLOAT" else "TOTAL" if comparison_type in _TYPES else comparison_type


def _write_order(message: xla.HloInstructionProto, context: Context) -> str:
    order = comparison_order(message.comparison_order, message.comparison_type)
    if not order:
        return ""
    shape = context.operand_shape(0)
    return "" if shape is not None and order == default_comparison_order(shape.element_type) else f", order={order}"


DIRECTION: Final = word_attribute(
    "direction",
    "comparison_direction",
    _DIRECTIONS,
    "a direction of comparison",
    always_written("direction", "comparison_direction"),
)
COMPARISON_TYPE: Final = word_attribute("type", "comparison_type", _TYPES, "a type of comparison", not_written)
COMPARISON_ORDER: Final = word_attribute("order", "comparison_order", _ORDERS, "an order of comparison", _write_order)


# -- linear algebra ----------------------------------------------------------------------------


_SOLVE: Final = Fields(xla.TriangularSolveOptions)
_TRANSPOSES: Final = EnumWords(xla.TriangularSolveOptions.Transpose.items(), "a transposition")


def _flag(message_class: type[Message], field: str, name: str) -> Attribute:
    """An attribute whose value is the flag `name` of the submessage in field `field` of an instruction."""
    fields = Fields(message_class)

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.message(field, fields.integer(name, cursor.parse_bool()))

    value = scalar_value(name, "True or False", owner=field)

    def write(message: xla.HloInstructionProto, _context: Context) -> str:
        return f", {name}=true" if value.get(message) else ""

    return Attribute(name, read, write, value)


def _read_transpose(cursor: HloCursor) -> bytes:
    return FIELDS.message("triangular_solve_options", _SOLVE.integer("transpose_a", _TRANSPOSES.parse(cursor)))


CHOLESKY_LOWER: Final = _flag(xla.CholeskyOptions, "cholesky_options", "lower")
LEFT_SIDE: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "left_side")
TRIANGULAR_LOWER: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "lower")
UNIT_DIAGONAL: Final = _flag(xla.TriangularSolveOptions, "triangular_solve_options", "unit_diagonal")
TRANSPOSE_A: Final = Attribute(
    "transpose_a",
    _read_transpose,
    always_written("transpose_a", "triangular_solve_options.transpose_a", _TRANSPOSES.text),
    enum_value("transpose_a", _TRANSPOSES, owner="triangular_solve_options"),
)
