r"""How exact the result of an elementary function must be.

accuracy    := '{' ('mode=' mode | 'tolerance=' tolerance) '}'        mode := 'default' | 'highest', in any case
tolerance   := '{' (('atol' | 'rtol') '=' DOUBLE | 'ulps=' INT),* '}'       each at most once

The default mode is not written.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import number
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import ABSENT, FIELDS, Attribute, Context
from xlashape.hlo.values.enums import EnumWords, lower_case, parse_unknown
from xlashape.proto import xla

__all__ = ["RESULT_ACCURACY"]

_MODES: Final = EnumWords(lower_case(xla.ResultAccuracy.Mode), "default or highest", any_case=True)


def _read(cursor: HloCursor) -> bytes:
    cursor.expect("{")
    cursor.skip_space()
    at = cursor.at
    name = cursor.parse_attribute_name()
    message = xla.ResultAccuracy()
    if name == "mode":
        _read_mode(cursor, message)
    elif name == "tolerance":
        _read_tolerance(cursor, message)
    else:
        raise cursor.error(
            f"expected mode or tolerance, found {name!r}", at=at, expected="mode or tolerance", found=name
        )
    cursor.expect("}")
    return FIELDS.message("result_accuracy", message) if message.WhichOneof("specs") else b""


def _read_mode(cursor: HloCursor, message: xla.ResultAccuracy) -> None:
    mode = parse_unknown(cursor)
    if mode is None:
        word = cursor.parse_word("default or highest").lower()
        if word not in _MODES:
            raise cursor.error(
                f"expected default or highest, found {word!r}", expected="default or highest", found=word
            )
        mode = _MODES.number(word)
    # The default stays unset.
    if mode:
        message.mode = mode


def _read_tolerance(cursor: HloCursor, message: xla.ResultAccuracy) -> None:
    message.tolerance.SetInParent()
    seen: set[str] = set()

    def part() -> None:
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_attribute_name()
        if name in seen or name not in ("atol", "rtol", "ulps"):
            raise cursor.error("expected atol, rtol and ulps, each at most once", at=at)
        seen.add(name)
        if name == "ulps":
            message.tolerance.ulps = cursor.parse_int(name)
        else:
            setattr(message.tolerance, name, cursor.parse_double(name))

    cursor.parse_list(part)


def _write(message: Any, _context: Context) -> str:
    data = message.result_accuracy
    if data == ABSENT or not data:
        return ""
    accuracy = xla.ResultAccuracy.FromString(data)
    if accuracy.HasField("tolerance"):
        tolerance = accuracy.tolerance
        parts = f"atol={number(tolerance.atol)},rtol={number(tolerance.rtol)},ulps={tolerance.ulps}"
        return f", result_accuracy={{tolerance={{{parts}}}}}"
    return f", result_accuracy={{mode={_MODES.text(accuracy.mode)}}}" if accuracy.mode else ""


RESULT_ACCURACY: Final = Attribute("result_accuracy", _read, _write)
