"""One number of a literal's text → its raw bits. What XLA reads, and what it makes of it; see literal_parse for the grammar."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Final, NoReturn

from xlashape.hlo.literal.values import ElementType, Floating, encode_float

if TYPE_CHECKING:
    from xlashape.text import Source

__all__ = ["INTEGER", "NUMBER", "TOKEN", "element_bits", "fail", "skip_space"]

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
    """The offset behind the spaces and comments that begin at `at`."""
    while (match := TOKEN.match(source.text, at)) is not None and match.lastgroup == "space":
        at = match.end()
    return at


def fail(source: Source, at: int, expected: str) -> NoReturn:
    """Raises: `expected` was expected at `at`, and something else was found."""
    rest = source.text[at : at + 40]
    if rest.startswith("/*"):
        raise source.error(at, "this comment is never closed", expected="*/")
    word = re.match(r"[^\s{}(),]+|.", rest)
    found = "the end of the text" if word is None else repr(word.group())
    raise source.error(at, f"expected {expected}, found {found}", expected=expected, found=found)


def element_bits(source: Source, at: int, element: ElementType) -> tuple[bytes, int]:
    """The raw form of one number and the offset behind it."""
    at = skip_space(source, at)
    width, floating = element.width, element.floating
    if element.kind == "complex":
        assert floating is not None
        begin = at
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
        first = _float_bits(source, begin, real, element.name, floating)
        second = first if "nan" in real else _imaginary_bits(source, begin, imaginary, element.name, floating)
        return first.to_bytes(width // 2, "little") + second.to_bytes(width // 2, "little"), at + 1
    begin = at
    token, at = _number(source, at, f"a number of type {element.name}")
    if floating is not None:
        return _float_bits(source, begin, token, element.name, floating).to_bytes(width, "little"), at
    if element.kind == "pred" and token in ("true", "false"):
        return (b"\x01" if token == "true" else b"\x00"), at
    if INTEGER.fullmatch(token) is None:
        raise source.error(begin, f"expected an integer, found {token[:40]!r}", expected="an integer", found=token[:40])
    value = _int64(source, begin, token)
    if element.kind == "pred":
        return (b"\x01" if value else b"\x00"), at
    if element.name == "u64":
        value %= 1 << 64
    if not element.lower <= value <= element.upper:
        limits = f"[{element.lower}, {element.upper}]"
        raise source.error(begin, f"{token} is out of range for {element.name}, which is {limits}", found=token)
    if element.code == "B":
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


def _float_bits(source: Source, at: int, token: str, name: str, floating: Floating) -> int:
    if token in ("true", "false"):
        raise source.error(at, f"{token} is not a number of type {name}", found=token)
    if "nan" in token:
        sign = floating.sign_bit if token.startswith("-") else 0
        if "(" not in token:
            # The one pattern of an fnuz or sign-less nan has no other sign to take; without any nan it is a zero.
            if floating.kind == "finite":
                return floating.sign_bit ^ sign
            return floating.quiet_nan if floating.kind in ("fnuz", "exponent") else floating.quiet_nan | sign
        payload = _payload(source, at, token)
        if floating.kind != "ieee":
            raise source.error(at, f"a nan of type {name} has no payload", found=token)
        if payload > floating.mantissa_mask:
            raise source.error(
                at, f"{token} is out of range: the payload is at most 0x{floating.mantissa_mask:x}", found=token
            )
        return sign | floating.infinity | payload
    bits = encode_float(floating, _finite(source, at, token))
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


def _imaginary_bits(source: Source, at: int, token: str, name: str, floating: Floating) -> int:
    # An imaginary nan goes through f64, which keeps the upper bits of its payload only.
    if "nan" not in token or floating.bits == 64:
        return _float_bits(source, at, token, name, floating)
    payload = _payload(source, at, token) >> 29 if "(" in token else 0
    return (floating.sign_bit if token.startswith("-") else 0) | floating.quiet_nan | payload
