r"""How exactly a dot or convolution computes: `operand_precision={high,highest}` and `algorithm=dot_bf16_bf16_f32`.

precisions  := '{' (precision (',' precision)*)? '}'        precision := 'default' | 'high' | 'highest' | 'packed_nibble', in any case
algorithm   := 'dot_…' | 'unset', in any case

Both are fields of PrecisionConfig. Precisions are written for as many operands as there are, where one of them is not the default.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.module_proto.schema_compat import OLDER_PRECISIONS
from xlashape.hlo.tokens.hlo_cursor import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Codec, Context
from xlashape.hlo.values.enums import EnumWords, enum_value, lower_case
from xlashape.proto import xla

_PRECISIONS: Final = EnumWords(
    [*lower_case(xla.PrecisionConfig.Precision), *OLDER_PRECISIONS], "a precision", any_case=True
)
_ALGORITHMS: Final = EnumWords(lower_case(xla.PrecisionConfig.Algorithm, "ALG_"), "an algorithm", any_case=True)


def _read_precision(cursor: HloCursor) -> bytes:
    message = xla.PrecisionConfig()
    # Numbers that are not in the schema go in as they are: the enum is open.
    message.operand_precision.extend(cursor.parse_list(lambda: _PRECISIONS.parse(cursor)))
    return FIELDS.message("precision_config", message)


def _read_algorithm(cursor: HloCursor) -> bytes:
    message = xla.PrecisionConfig()
    message.algorithm = _ALGORITHMS.parse(cursor)
    return FIELDS.message("precision_config", message)


def _write_precision(message: Any, context: Context) -> str:
    if message.precision_config == ABSENT:
        return ""
    precisions = list(xla.PrecisionConfig.FromString(message.precision_config).operand_precision)
    if not any(precisions):
        return ""
    words = [_PRECISIONS.text(number) for number in precisions[: context.operand_count]]
    return f", operand_precision={{{','.join(words)}}}"


def _write_algorithm(message: Any, _context: Context) -> str:
    if message.precision_config == ABSENT:
        return ""
    number = xla.PrecisionConfig.FromString(message.precision_config).algorithm
    return f", algorithm={_ALGORITHMS.text(number)}" if number else ""


def _get_precision(instruction: xla.HloInstructionProto) -> tuple[str, ...]:
    return tuple([_PRECISIONS.text(number) for number in instruction.precision_config.operand_precision])


def _put_precision(instruction: xla.HloInstructionProto, value: Any) -> None:
    if isinstance(value, str):
        raise TypeError("text is no list")
    numbers: list[Any] = [_PRECISIONS.number_of(word) for word in value or ()]
    if numbers or instruction.HasField("precision_config"):
        instruction.precision_config.operand_precision[:] = numbers


def _is_said(words: tuple[str, ...]) -> bool:
    return any(word != "default" for word in words)


DOT_ALGORITHM: Final = Attribute(
    "algorithm",
    _read_algorithm,
    _write_algorithm,
    enum_value("algorithm", _ALGORITHMS, absent=(0,), owner="precision_config"),
)
OPERAND_PRECISION: Final = Attribute(
    "operand_precision",
    _read_precision,
    _write_precision,
    Codec(
        _get_precision,
        _put_precision,
        "a list of precisions, such as highest",
        _is_said,
    ),
)
