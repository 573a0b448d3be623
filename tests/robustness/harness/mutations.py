"""Changes serialized requests at random: the message is taken apart, changed and put together again, or bytes are
changed blindly."""

from __future__ import annotations

import gzip
import random

from xlashape.errors import DecodeError
from xlashape.proto import wire

__all__ = ["mutated"]

_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
_TOKENS = (
    "( ) { } [ ] , = : % -> <= ? T(8,128)(2,1) T(0) T(-1) L(1024) E(4) S(5) f32[ f32[2]{0} bf16[<=9] (f32[2], s32[]) "
    "token[] pred[] "
    "9223372036854775807 -9223372036854775808 99999999999999999999999 d0 d1 s0 rt0 floordiv mod domain: in max min * + "
    "- "
    "(d0)->(d0) modules/ modules/0 ../ %s \0 \n \u00e9 \U0001f600 HloModule ENTRY ROOT parameter(0) constant({...}) "
    "add( while( fusion("
).split(" ")
_MAX_BYTES = 300_000

# A field: number, wire type, content. The content of a varint is its bytes.
_Field = tuple[int, int, bytes]


def _fields(data: bytes) -> list[_Field]:
    """The fields of a message; empty if the bytes are not a message."""
    try:
        return [(number, kind, data[at:end]) for number, kind, _, at, end in wire.fields(data) if kind != wire.GROUP]
    except DecodeError:
        return []


def _written(fields: list[_Field]) -> bytes:
    return b"".join(
        wire.tag(number, kind) + (wire.sized(content) if kind == wire.BYTES else content)
        for number, kind, content in fields
    )


def mutated(data: bytes, other: bytes, r: random.Random) -> bytes:
    """`data`, changed in a few places; `other`, another message, gives fields to it."""
    for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
        data = _blind(data, r) if r.random() < 0.1 else _changed(data, other, r, 0)
    if r.random() < 0.03:
        packed = gzip.compress(data)
        data = packed[: r.choice((len(packed), len(packed), len(packed) // 2, 2))]
    return data[:_MAX_BYTES]


def _blind(data: bytes, r: random.Random) -> bytes:
    if not data:
        return r.randbytes(r.randint(0, 9))
    at = r.randrange(len(data))
    end = min(len(data), at + r.choice((1, 2, 8, 100)))
    piece = r.choice((b"", r.randbytes(end - at), data[at:end] * 3, b"\xff" * 11, b"\x0a" * 50))
    return data[:at] + piece + data[end:]


def _changed(data: bytes, other: bytes, r: random.Random, depth: int) -> bytes:
    fields = _fields(data)
    if not fields or depth > 30:
        return _text(data, r)
    at = r.randrange(len(fields))
    number, kind, value = fields[at]
    choice = r.random()
    if choice < 0.08:
        del fields[at]
    elif choice < 0.16:
        fields[at:at] = [fields[at]] * r.choice((1, 2, 40))
    elif choice < 0.22:
        r.shuffle(fields)
    elif choice < 0.30:
        given = _fields(other)
        if given:
            fields.insert(at, r.choice(given))
    elif choice < 0.36:
        fields[at] = (r.choice((number + 1, number - 1 or 1, 15, 2047, 99_999)), kind, value)
    elif choice < 0.40 and kind == wire.BYTES:
        for _ in range(r.choice((1, 3, 120))):  # the message is nested in a field of itself
            value = _written([(number, wire.BYTES, value)])[:_MAX_BYTES]
        fields[at] = (number, wire.BYTES, value)
    elif kind == wire.VARINT:
        fields[at] = (number, kind, wire.varint(r.choice(_NUMBERS)))
    elif kind == wire.BYTES:
        fields[at] = (number, kind, _changed(value, other, r, depth + 1))
    else:
        fields[at] = (number, kind, r.choice(_NUMBERS).to_bytes(8, "little")[: len(value)])
    return _written(fields)


def _text(data: bytes, r: random.Random) -> bytes:
    """Bytes that are not a message: text, packed numbers, or nothing."""
    at = r.randint(0, len(data))
    end = min(len(data), at + r.choice((0, 0, 1, 4, 30)))
    token = r.choice(_TOKENS).encode()
    if r.random() < 0.2 and len(data) % 8 == 0:
        return (
            data[: at - at % 8] + r.choice(_NUMBERS).to_bytes(8, "little") * r.choice((1, 1, 3)) + data[at - at % 8 :]
        )
    return data[:at] + token * r.choice((1, 1, 1, 2, 500)) + data[end:]
