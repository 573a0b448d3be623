"""Attributes about numerical accuracy. `operand_precision={high,highest}` and `algorithm=dot_bf16_bf16_f32` say how
exactly a dot or a convolution computes; `result_accuracy={mode=highest}` says how exact the result of an elementary
function must be.

precisions  := '{' (precision (',' precision)*)? '}'
precision   := 'default' | 'high' | 'highest' | 'packed_nibble', in any case
algorithm   := 'dot_…' | 'unset', in any case
accuracy    := '{' ('mode=' mode | 'tolerance=' tolerance) '}'        mode := 'default' | 'highest', in any case
tolerance   := '{' (('atol' | 'rtol') '=' DOUBLE | 'ulps=' INT),* '}'       each at most once

Precisions and algorithm are fields of PrecisionConfig. If a precision is not the default, those of all operands are
written, but no more than there are operands. The default mode of an accuracy is not written.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from xlashape.hlo.module_proto.schema_compat import OLDER_PRECISIONS
from xlashape.hlo.tokens import HloCursor, number
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context, message_value, record_of, structured, whole
from xlashape.hlo.values.enums import EnumWords, enum_value, lower_case, parse_unknown
from xlashape.proto import xla

_PRECISIONS: Final = EnumWords(
    [*lower_case(xla.PrecisionConfig.Precision), *OLDER_PRECISIONS], "a precision", any_case=True
)
_ALGORITHMS: Final = EnumWords(lower_case(xla.PrecisionConfig.Algorithm, "ALG_"), "an algorithm", any_case=True)


def _read_precision(cursor: HloCursor) -> bytes:
    message = xla.PrecisionConfig()
    # The enum is open: the message also takes numbers that the schema has no name for.
    message.operand_precision.extend(cursor.parse_list(lambda: _PRECISIONS.parse(cursor)))
    return FIELDS.message("precision_config", message)


def _read_algorithm(cursor: HloCursor) -> bytes:
    message = xla.PrecisionConfig()
    message.algorithm = _ALGORITHMS.parse(cursor)
    return FIELDS.message("precision_config", message)


def _write_precision(message: xla.HloInstructionProto, context: Context) -> str:
    precisions = message.precision_config.operand_precision
    if not any(precisions):
        return ""
    words = [_PRECISIONS.text(number) for number in precisions[: context.operand_count]]
    return f", operand_precision={{{','.join(words)}}}"


def _write_algorithm(message: xla.HloInstructionProto, _context: Context) -> str:
    number = message.precision_config.algorithm
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
    Codec(_get_precision, _put_precision, "a list of precisions, such as highest", _is_said),
)


# -- accuracy of results -----------------------------------------------------------------------


_MODES: Final = EnumWords(lower_case(xla.ResultAccuracy.Mode), "default or highest", any_case=True)


class Tolerance(NamedTuple):
    """How far a result may be from the exact value: absolutely, relatively, and in units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


class ResultAccuracy(NamedTuple):
    """How exact a result must be: a mode, or a tolerance.

    >>> ResultAccuracy.parse("{tolerance={atol=0.5,ulps=2}}").tolerance
    Tolerance(atol=0.5, rtol=0.0, ulps=2)
    >>> str(ResultAccuracy("highest"))
    '{mode=highest}'
    """

    mode: str = "default"
    """`default`, `highest`, or, for a number without a name, a word like `unknown_7`."""
    tolerance: Tolerance | None = None

    @classmethod
    def parse(cls, text: str) -> ResultAccuracy:
        """The accuracy that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> ResultAccuracy:
        """Reads the accuracy at the cursor."""
        cursor.expect("{")
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name == "mode":
            accuracy = cls(_read_mode(cursor))
        elif name == "tolerance":
            accuracy = cls(tolerance=_read_tolerance(cursor))
        else:
            raise cursor.error(
                f"expected mode or tolerance, found {name!r}", at=at, expected="mode or tolerance", found=name
            )
        cursor.expect("}")
        return accuracy

    def write(self) -> str:
        """The text of the accuracy: `{mode=highest}` or `{tolerance={atol=0.5,rtol=0,ulps=2}}`."""
        if self.tolerance is None:
            return f"{{mode={self.mode}}}"
        atol, rtol, ulps = self.tolerance
        return f"{{tolerance={{atol={number(atol)},rtol={number(rtol)},ulps={ulps}}}}}"

    @classmethod
    def of_proto(cls, message: xla.ResultAccuracy) -> ResultAccuracy:
        """The accuracy of a message."""
        if message.HasField("tolerance"):
            return cls(tolerance=record_of(Tolerance, message.tolerance))
        return cls(_MODES.text(message.mode))

    def to_proto(self) -> xla.ResultAccuracy:
        """A new `xla.ResultAccuracy`. InvalidArgumentError for a mode that does not exist."""
        message = xla.ResultAccuracy()
        if self.tolerance is not None:
            message.tolerance.SetInParent()
            for field, value in self.tolerance._asdict().items():
                setattr(message.tolerance, field, value)
        else:
            mode: Any = _MODES.number_of(self.mode)
            # The default mode stays unset.
            if mode:
                message.mode = mode
        return message

    def __str__(self) -> str:
        return self.write()


def _read(cursor: HloCursor) -> bytes:
    message = ResultAccuracy.read(cursor).to_proto()
    return FIELDS.message("result_accuracy", message) if message.WhichOneof("specs") else b""


def _read_mode(cursor: HloCursor) -> str:
    mode = parse_unknown(cursor)
    if mode is not None:
        return _MODES.text(mode)
    word = cursor.parse_word("default or highest").lower()
    if word not in _MODES:
        raise cursor.error(f"expected default or highest, found {word!r}", expected="default or highest", found=word)
    return word


def _read_tolerance(cursor: HloCursor) -> Tolerance:
    numbers: dict[str, Any] = {}

    def part() -> None:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in numbers or name not in Tolerance._fields:
            raise cursor.error("expected atol, rtol and ulps, each at most once", at=at)
        numbers[name] = cursor.parse_int(name) if name == "ulps" else cursor.parse_double(name)

    cursor.parse_list(part)
    return Tolerance(**numbers)


def _is_not_default(accuracy: ResultAccuracy) -> bool:
    return accuracy != ResultAccuracy()


RESULT_ACCURACY: Final = structured(
    "result_accuracy", ResultAccuracy, value=message_value("result_accuracy", ResultAccuracy, is_said=_is_not_default)
)._replace(read=_read)
