"""One number of a literal's text → its raw bits. `xlashape.hlo.literal.parse` has the grammar and says what XLA makes of it."""

from __future__ import annotations

import re
from math import inf
from typing import Final, NoReturn

from xlashape.hlo.literal.element_types import ElementType
from xlashape.hlo.literal.floats import encode_float
from xlashape.shape.parts.float_format import FloatFormat
from xlashape.text import Source

NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]*)?|-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE][-+]?[0-9]+)?"
TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n]+|/\*.*?\*/|//[^\n]*)|(?P<number>"
    + NUMBER
    + r"(?![A-Za-z_])|-?inf(?!\w)|-?nan(?:\(0x[0-9a-fA-F]+\)|(?!\w))"
    r"|true(?!\w)|false(?!\w))|(?P<mark>[{}(),]|\.\.\.)",
    re.DOTALL,
)
INTEGER: Final = re.compile(r"-?[0-9]+")


def skip_space(source: Source, at: int) -> int:
    """The offset after the spaces and comments that begin at `at`."""
    while (match := TOKEN.match(source.text, at)) is not None and match.lastgroup == "space":
        at = match.end()
    return at


def fail(source: Source, at: int, expected: str) -> NoReturn:
    """Raises ParseError: `expected` was expected at `at`, and something else was found."""
    rest = source.text[at : at + 40]
    if rest.startswith("/*"):
        raise source.error(at, "this comment is never closed", expected="*/")
    match = re.match(r"[^\s{}(),]+|.", rest)
    found = "the end of the text" if match is None else repr(match.group())
    raise source.error(at, f"expected {expected}, found {found}", expected=expected, found=found)


def element_bits(source: Source, at: int, element: ElementType) -> tuple[bytes, int]:
    """The raw form of one number, and the offset after it. Raises ParseError."""
    at = skip_space(source, at)
    width, float_format, start = element.width, element.float_format, at
    if element.kind == "complex":
        assert float_format is not None
        if not source.text.startswith("(", at):
            fail(source, at, "'(' before a complex number")
        real, at = _number(source, at + 1, "a real part")
        at = skip_space(source, at)
        if not source.text.startswith(",", at):
            fail(source, at, "',' between the parts of a complex number")
        imaginary, at = _number(source, at + 1, "an imaginary part")
        at = skip_space(source, at)
        if not source.text.startswith(")", at):
            fail(source, at, "')' after a complex number")
        first = _float_bits(source, start, real, element.name, float_format)
        second = first if "nan" in real else _imaginary_bits(source, start, imaginary, element.name, float_format)
        return first.to_bytes(width // 2, "little") + second.to_bytes(width // 2, "little"), at + 1
    token, at = _number(source, at, f"a number of type {element.name}")
    if float_format is not None:
        return _float_bits(source, start, token, element.name, float_format).to_bytes(width, "little"), at
    if element.kind == "pred" and token in ("true", "false"):
        return (b"\x01" if token == "true" else b"\x00"), at
    if INTEGER.fullmatch(token) is None:
        raise source.error(start, f"expected an integer, found {token[:40]!r}", expected="an integer", found=token[:40])
    value = _int64(source, start, token)
    if element.kind == "pred":
        return (b"\x01" if value else b"\x00"), at
    if element.name == "u64":
        value %= 1 << 64
    if not element.lower <= value <= element.upper:
        limits = f"[{element.lower}, {element.upper}]"
        raise source.error(start, f"{token} is out of range for {element.name}, which is {limits}", found=token)
    if element.code == "B":
        # Of types below 8 bits the byte holds only the bits of the type.
        value &= element.upper - element.lower
    return value.to_bytes(width, "little", signed=value < 0), at


def _number(source: Source, at: int, what: str) -> tuple[str, int]:
    at = skip_space(source, at)
    match = TOKEN.match(source.text, at)
    if match is None or match.lastgroup != "number":
        fail(source, at, what)
    return match.group(), match.end()


def _int64(source: Source, at: int, token: str) -> int:
    value = int(token) if len(token) <= 4000 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise source.error(at, f"{token[:24]}{'…' if len(token) > 24 else ''} does not fit int64", found=token[:24])
    return value - (1 << 64) if value >= 1 << 63 else value


def _float_bits(source: Source, at: int, token: str, name: str, float_format: FloatFormat) -> int:
    if token in ("true", "false"):
        raise source.error(at, f"{token} is not a number of type {name}", found=token)
    if "nan" in token:
        sign = float_format.sign_bit if token.startswith("-") else 0
        if "(" not in token:
            # fnuz and exponent formats have a single nan, so its sign is ignored; a finite format has none and gets a zero.
            if float_format.kind == "finite":
                return float_format.sign_bit ^ sign
            return (
                float_format.quiet_nan if float_format.kind in ("fnuz", "exponent") else float_format.quiet_nan | sign
            )
        payload = _payload(source, at, token)
        if float_format.kind != "ieee":
            raise source.error(at, f"a nan of type {name} has no payload", found=token)
        if payload > float_format.mantissa_mask:
            raise source.error(
                at, f"{token} is out of range: the payload is at most 0x{float_format.mantissa_mask:x}", found=token
            )
        return sign | float_format.infinity | payload
    bits = encode_float(float_format, _finite(source, at, token))
    if bits is None:
        raise source.error(at, f"{token} is out of range for {name}", found=token)
    return bits


def _payload(source: Source, at: int, token: str) -> int:
    payload = int(token[token.index("(") + 1 : -1], 16)
    if not 0 < payload < 1 << 52:
        raise source.error(
            at, f"the payload of a nan is from 0x1 to 0xfffffffffffff, found {token[:40]}", found=token[:40]
        )
    return payload


def _finite(source: Source, at: int, token: str) -> float:
    if INTEGER.fullmatch(token):
        return float(_int64(source, at, token))
    value = float(token)
    if abs(value) == inf and "inf" not in token:
        raise source.error(at, f"{token[:40]} is out of range for a 64-bit float", found=token[:40])
    return value


def _imaginary_bits(source: Source, at: int, token: str, name: str, float_format: FloatFormat) -> int:
    # XLA converts an imaginary nan through f64, which keeps only the upper bits of its payload.
    if "nan" not in token or float_format.bits == 64:
        return _float_bits(source, at, token, name, float_format)
    payload = _payload(source, at, token) >> 29 if "(" in token else 0
    return (float_format.sign_bit if token.startswith("-") else 0) | float_format.quiet_nan | payload
