"""The text of a literal → LiteralProto.

    literal := array | '(' literal (',' literal)* ')' | '(' ')'
    array   := number                                     rank 0
             | '{' (array | ',')* '}'                     one level of braces a dimension; commas are optional
             | '{' '...' '}'                              an elided constant: the values are made up
             | number                                     of any rank, not complex: its first element, the others are 0
    number  := 1 | -0.5 | 1e+10 | inf | nan | -nan(0x1) | true | '(' number ',' number ')'

Reads what XLA reads, and makes of it what XLA makes: `-0` is the integer 0 (although -0.0 prints so), an integer from 2^63 to
2^64-1 wraps to a negative one, a complex number with a nan real part takes it for both parts, and an elided constant is filled
with the 32-bit words 0, 1, 2, … in row-major order.

Plain arrays of numbers are checked by their braces and converted in bulk; whatever is not plain, mistakes included, goes token by
token.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import TYPE_CHECKING, Final

from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo.literal.data import element_count, element_type, from_raw, row_major_places
from xlashape.hlo.literal.number import INTEGER, NUMBER, TOKEN, element_bits, fail, skip_space
from xlashape.hlo.literal.values import ElementType, Floating, encode_float
from xlashape.limits import MAX_SHAPE_DEPTH
from xlashape.proto import xla

if TYPE_CHECKING:
    from xlashape.text import Source

__all__ = ["MAX_ELIDED_BYTES", "Elided", "parse_literal"]

MAX_ELIDED_BYTES: Final = 1 << 28
"""Bytes that a `{...}` may stand for: a few characters of text must not ask for all of memory."""

_PLAININTEGERS = re.compile(r"[-0-9 \t\r\n,]*")
_PLAIN_FLOATS = re.compile(r"[-+0-9.eE \t\r\n,]*")
_PIECE: Final = 1 << 16  # characters of a long row that are converted at once
_SCALAR = re.compile(r"(?:(-?[0-9]{1,18})|(" + NUMBER + r"))(?=\))")
_ROW = re.compile(r"\{([^{}]*)\}")
_LEADING = re.compile(r"(?<![0-9.eE])[+.]|-0(?![0-9.eE])|-00")


class Elided:
    """What stands in for elided elements, `constant({...})`: numbers that go on from one constant of a text to the next, as XLA's do.

    XLA fills the array, row-major, with successive 32-bit words; what is left of it, one to three bytes, gets numbers of a series of its own,
    at the places of its first words. In XLA both series also go on from one text to the next within a process; here they begin anew.
    """

    __slots__ = ("_bytes", "_total", "_words")

    def __init__(self) -> None:
        self._words = 0
        self._bytes = 0
        self._total = 0

    def count(self, size: int) -> None:
        """Counts bytes that a text stands for and does not write. Raises LimitExceededError when those of one text come to more
        than MAX_ELIDED_BYTES."""
        self._total += size
        if self._total > MAX_ELIDED_BYTES:
            raise LimitExceededError(
                f"elided constants of {self._total} bytes are more than {MAX_ELIDED_BYTES}",
                limit="elided_constant_bytes",
                maximum=MAX_ELIDED_BYTES,
                value=self._total,
            )

    def take(self, size: int) -> bytes:
        """The next `size` bytes, counted. Raises LimitExceededError."""
        self.count(size)
        count, rest = divmod(size, 4)
        words = array("I", range(self._words, self._words + count))
        if sys.byteorder == "big":
            words.byteswap()
        data = bytearray(words.tobytes()) + bytes(rest)
        self._words += count
        for place in range(count, count + rest):
            data[place] = self._bytes & 0xFF
            self._bytes += 1
        return bytes(data)


def parse_literal(
    source: Source, at: int, shape: xla.ShapeProto, elided: Elided | None = None
) -> tuple[xla.LiteralProto, int]:
    """The literal whose text begins at offset `at` (spaces and comments allowed before it), and the offset behind it.

    `shape` is what the constant is declared as. The literal's own shape is XLA's: without dynamic dimensions and
    element_size_in_bits; an instruction's shape becomes the same. `elided` is what the elided constants of one text share. Raises ParseError, or LimitExceededError for an elided constant
    of more than MAX_ELIDED_BYTES.

    >>> from xlashape.text import Source
    >>> parse_literal(Source("constant({1, -2})"), 9, xla.ShapeProto(element_type=xla.S32, dimensions=[2]))[0].s32s
    [1, -2]
    """
    literal = xla.LiteralProto()
    elided = Elided() if elided is None else elided
    own = literal.shape
    own.CopyFrom(shape)
    if own.element_type == xla.TUPLE:
        return _parse_tuple(source, at, own, 0, elided)
    _make_static(own)
    if not own.dimensions:
        # Scalars are most of all constants: a plain number goes straight into its field.
        scalar = _SCALAR.match(source.text, at)
        kind = own.element_type
        if scalar is not None:
            integer = scalar[1]
            if kind == xla.F32 or kind == xla.F64:
                value = float(int(integer)) if integer is not None else float(scalar[2])
                if -3.4e38 < value < 3.4e38 and (integer is not None or not INTEGER.fullmatch(scalar[2])):
                    (literal.f32s if kind == xla.F32 else literal.f64s).append(value)
                    return literal, scalar.end()
            elif integer is not None:
                value = int(integer)
                if kind == xla.S32:
                    if -0x80000000 <= value <= 0x7FFFFFFF:
                        literal.s32s.append(value)
                        return literal, scalar.end()
                elif kind == xla.S64:
                    literal.s64s.append(value)
                    return literal, scalar.end()
                elif kind == xla.U32 and 0 <= value <= 0xFFFFFFFF:
                    literal.u32s.append(value)
                    return literal, scalar.end()
    return _parse_array(source, at, own, elided)


def _make_static(shape: xla.ShapeProto) -> None:
    if True in shape.is_dynamic_dimension:
        shape.is_dynamic_dimension[:] = [False] * len(shape.is_dynamic_dimension)
    if shape.layout.element_size_in_bits:
        shape.layout.element_size_in_bits = 0


def _parse_tuple(
    source: Source, at: int, shape: xla.ShapeProto, depth: int, elided: Elided
) -> tuple[xla.LiteralProto, int]:
    if depth > MAX_SHAPE_DEPTH:
        raise source.error(at, f"tuples nest deeper than {MAX_SHAPE_DEPTH} levels")
    text, literal = source.text, xla.LiteralProto(shape=shape)
    at = skip_space(source, at)
    if not text.startswith("(", at):
        fail(source, at, "'(' before the elements of a tuple")
    at += 1
    for i, part_shape in enumerate(shape.tuple_shapes):
        at = skip_space(source, at)
        if i and text.startswith(",", at):
            at += 1
        if part_shape.element_type == xla.TUPLE:
            part, at = _parse_tuple(source, at, part_shape, depth + 1, elided)
        else:
            own = xla.ShapeProto()
            own.CopyFrom(part_shape)
            _make_static(own)
            part, at = _parse_array(source, at, own, elided)
        literal.tuple_literals.append(part)
        literal.shape.tuple_shapes[i].CopyFrom(part.shape)
    at = skip_space(source, at)
    if not text.startswith(")", at):
        fail(source, at, f"')' after the {len(shape.tuple_shapes)} elements of a tuple")
    return literal, at + 1


def _parse_array(source: Source, at: int, shape: xla.ShapeProto, elided: Elided) -> tuple[xla.LiteralProto, int]:
    at = skip_space(source, at)
    try:
        element = element_type(shape)
        count = element_count(shape)
        places = row_major_places(shape)
    except InvalidModuleError as error:
        raise source.error(at, error.message) from error
    parsed = _plain_array(source.text, at, element, list(shape.dimensions), count) if shape.dimensions else None
    data, end = parsed if parsed is not None else _by_token(source, at, element, list(shape.dimensions))
    if data is not None and len(data) < count * element.width:
        elided.count(count * element.width)
        data += bytes(count * element.width - len(data))
    elif data is None:
        data = elided.take(count * element.width)
        data = bytes([byte & 1 for byte in data]) if element.kind == "pred" else data
    if places is not None:
        elements = memoryview(data).cast("B")
        width = element.width
        if width == 1:
            data = bytes([elements[place] for place in places])
        else:
            data = b"".join([elements[place * width : (place + 1) * width] for place in places])
    return from_raw(shape, data), end


def _plain_array(text: str, at: int, element: ElementType, sizes: list[int], count: int) -> tuple[bytes, int] | None:
    """Raw elements in row-major order and the offset behind the array; None: not plain, or wrong."""
    if not _is_plain(element) or sizes[-1] > _PIECE:
        return None
    # A plain array ends where its last brace does, before the `)` of constant(…).
    close = text.find(")", at)
    end = text.rfind("}", at, close) + 1 if close >= 0 else 0
    if end <= 0 or not text.startswith("{", at) or end - at > 64 + 64 * (count + 1) * len(sizes):
        return None
    rows = [text[at:end]]
    if len(sizes) > 1:
        rows = _rows(rows[0], sizes)
        if rows is None:
            return None
    else:
        rows[0] = rows[0][1:-1]
        if "{" in rows[0] or "}" in rows[0]:
            return None
    tokens: list[str] = []
    row_size, allowed = sizes[-1], _PLAININTEGERS if element.kind in ("int", "pred") else _PLAIN_FLOATS
    for row in rows:
        if allowed.fullmatch(row) is None:
            return None
        words = row.replace(",", " ").split()
        if len(words) != row_size:
            return None
        tokens += words
    data = _convert(tokens, element) if element.floating is None else _convert_floats(tokens, rows, element.floating)
    return None if data is None else (data, end)


def _is_plain(element: ElementType) -> bool:
    return element.kind != "complex" and element.name not in ("s1", "u1")


def _piece(text: str, at: int, element: ElementType, most: int) -> tuple[bytes | None, int, int]:
    """The plain numbers that begin at `at`, about _PIECE characters of them: (raw elements, their count, the offset behind them).

    None where something is not plain, wrong, or more than `most`: what is between the offsets must then go token by token.
    """
    allowed = _PLAININTEGERS if element.kind in ("int", "pred") else _PLAIN_FLOATS
    match = allowed.match(text, at, at + _PIECE)
    assert match is not None
    end = match.end()
    if not text.startswith("}", end):
        # What ends here may go on behind: the last number is left to what comes next.
        while end > at and text[end - 1] not in ", \t\r\n":
            end -= 1
    piece = text[at:end]
    words = piece.replace(",", " ").split()
    if not words or len(words) > most:
        return None, 0, max(end, at + 1)
    floating = element.floating
    data = _convert(words, element) if floating is None else _convert_floats(words, [piece], floating)
    return data, len(words), end


def _rows(text: str, sizes: list[int]) -> list[str] | None:
    # The innermost rows of a nested array whose braces fit `sizes`; each level of braces becomes one letter a row.
    rows: list[str] = _ROW.findall(text)
    counts = 1
    for size in sizes[:-1]:
        counts *= size
    if len(rows) != counts:
        return None
    text = _ROW.sub("r", text)
    for size in sizes[-2:0:-1]:
        blocks: list[str] = _ROW.findall(text)
        counts //= max(size, 1)
        if len(blocks) != counts or any(not _only_rows(block, size) for block in blocks):
            return None
        text = _ROW.sub("r", text)
    blocks = _ROW.findall(text)
    return rows if len(blocks) == 1 and _ROW.fullmatch(text) and _only_rows(blocks[0], sizes[0]) else None


def _only_rows(block: str, size: int) -> bool:
    return block.count("r") == size and not block.replace("r", " ").replace(",", " ").strip()


def _convert(tokens: list[str], element: ElementType) -> bytes | None:
    try:
        values = [int(token) for token in tokens]
    except ValueError:
        return None
    if not values:
        return b""
    low, high = min(values), max(values)
    if element.kind == "pred":
        return bytes(map(bool, values)) if low >= 0 and high <= 1 else None
    if low < element.lower or high > element.upper or high >= 1 << 63:
        return None
    if element.code == "B" and low < 0:
        # s1, s2 and s4 keep their own bits only, without sign extension.
        return bytes([value & (element.upper - element.lower) for value in values])
    return array(element.code, values).tobytes()


def _convert_floats(tokens: list[str], rows: list[str], floating: Floating) -> bytes | None:
    if any(_LEADING.search(row) for row in rows):
        return None
    try:
        values = [float(token) for token in tokens]
    except ValueError:
        return None
    if not values:
        return b""
    low, high = min(values), max(values)
    if low <= -9.2e18 or high >= 9.2e18:
        # Integers wrap from 2^63 on, and the range must be looked at.
        if not -3.4e38 < low <= high < 3.4e38 or any(INTEGER.fullmatch(token) for token in tokens if len(token) > 18):
            return None
    if floating.bits == 64:
        return array("d", values).tobytes()
    if floating.bits == 32:
        return array("f", values).tobytes()
    memo: dict[float, int] = {}
    out = array("H" if floating.bits == 16 else "B")
    for value in values:
        bits = memo.get(value)
        if bits is None or value == 0:
            encoded = encode_float(floating, value)
            if encoded is None:
                return None
            memo[value] = bits = encoded
        out.append(bits)
    return out.tobytes()


def _by_token(source: Source, at: int, element: ElementType, sizes: list[int]) -> tuple[bytes | None, int]:
    """Raw elements in row-major order, the first alone where no braces are, None where they are elided, and the offset behind the array."""
    text, rank = source.text, len(sizes)
    if rank == 0:
        return element_bits(source, at, element)
    nest, seen, parts, elided = 0, [0] * rank, list[bytes](), False
    by_token = 0 if _is_plain(element) else len(text)
    while True:
        if nest == rank and at >= by_token and not elided and text[at : at + 1] not in ("}", ""):
            data, count, end = _piece(text, at, element, sizes[-1] - seen[-1])
            if data is not None:
                seen[-1] += count
                parts.append(data)
                at = end
                continue
            by_token = end
        match = TOKEN.match(text, at)
        token = "" if match is None else match.group()
        kind = None if match is None else match.lastgroup
        if kind == "space":
            pass
        elif token == "{":
            if nest == rank:
                raise source.error(
                    at, f"expected an array of rank {rank}, found more braces", expected="a number", found="'{'"
                )
            if nest:
                seen[nest - 1] += 1
                _room(source, at, seen, sizes, nest)
            seen[nest] = 0
            nest += 1
        elif nest == 0 and kind == "number" and element.kind != "complex" and 0 not in sizes:
            return element_bits(source, at, element)
        elif nest == 0:
            fail(source, at, f"'{{' before an array of rank {rank}")
        elif token == "}":
            nest -= 1
            if seen[nest] != sizes[nest]:
                raise source.error(at, f"expected {sizes[nest]} elements in this dimension, found {seen[nest]}")
            if nest == 0:
                break
        elif token == ",":
            pass
        elif token == "...":
            if nest != 1:
                raise source.error(at, f"'...' stands for a whole array; here it is {nest} levels deep")
            elided, seen[0] = True, sizes[0]
        else:
            if nest != rank and (kind == "number" or token == "("):
                raise source.error(at, f"expected an array of rank {rank}, found {nest} braces before this number")
            seen[nest - 1] += 1
            _room(source, at, seen, sizes, nest)
            data, at = element_bits(source, at, element)
            parts.append(data)
            continue
        at = match.end()  # pyright: ignore[reportOptionalMemberAccess]
    return (None if elided else b"".join(parts)), at + 1


def _room(source: Source, at: int, seen: list[int], sizes: list[int], nest: int) -> None:
    if seen[nest - 1] > sizes[nest - 1]:
        raise source.error(at, f"expected {sizes[nest - 1]} elements in this dimension, found more")
