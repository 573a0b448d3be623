"""Parses the text of a literal to a LiteralProto.

    literal := array | '(' literal (',' literal)* ')' | '(' ')'
    array   := number                                     rank 0
             | '{' (array | ',')* '}'                     one level of braces a dimension; commas are optional
             | '{' '...' '}'                              an elided constant: the parser makes up the values
             | number                                     any rank, not complex: the first element; the others are 0
    number  := 1 | -0.5 | 1e+10 | inf | nan | -nan(0x1) | true | '(' number ',' number ')'

The parser accepts the text that XLA accepts, and gives the same elements: `-0` is the integer 0 (although -0.0 prints
as -0), an integer from 2^63 to 2^64-1 wraps to a negative one, a complex number whose real part is nan has that nan as
both parts, and an elided constant is filled with the 32-bit words 0, 1, 2, … in row-major order.

Braces are read token by token. The plain decimal numbers within the innermost braces are converted in bulk, which takes
0.25 µs an element instead of 7 µs. Every other number, mistakes included, is read on its own.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import Final

from xlashape.base.text import Source
from xlashape.errors import InvalidModuleError, LimitExceededError
from xlashape.hlo.literal import number
from xlashape.hlo.literal.data import element_count, element_type, from_raw, row_major_positions
from xlashape.limits import MAX_SHAPE_DEPTH
from xlashape.proto import xla
from xlashape.shape.parts.primitive_type import FloatFormat

MAX_ELIDED_BYTES: Final = 1 << 28
"""The most bytes that the elided constants of one text may take, so that a few characters of text do not take all
memory.
"""

# The limit that takes the place of MAX_ELIDED_BYTES if elided constants get no elements. Then only a constant of which
# the text has just the first element takes bytes that are not in the text.
_MAX_PADDED_BYTES: Final = 1 << 22

_PLAIN_INTEGERS = re.compile(r"[-0-9 \t\r\n,]*")
_PLAIN_FLOATS = re.compile(r"[-+0-9.eE \t\r\n,]*")
_PIECE: Final = 1 << 16  # characters of a long row that are converted at once
_SCALAR = re.compile(r"(?:(-?[0-9]{1,18})|(" + number.NUMBER + r"))(?=\))")
_UNUSUAL_FLOAT = re.compile(r"(?<![0-9.eE])[+.]|-0(?![0-9.eE])|-00")


class Elided:
    """Makes up the elements of elided constants, `constant({...})`. They are consecutive numbers, which continue from
    one constant of a text to the next, as in XLA.

    An array is filled, in row-major order, with successive 32-bit words. If its size is not a multiple of 4, the
    remaining bytes count separately: there are `size % 4` of them, their numbers are a second series, and they are
    written from the offset `size // 4` on. In XLA both series also continue from one text to the next within a process.
    Here they start again with each text.
    """

    __slots__ = ("_next_byte", "_next_word", "_total", "is_filled", "left_out")

    def __init__(self, *, is_filled: bool = True) -> None:
        self.is_filled = is_filled
        """Whether elided constants get elements at all."""
        self.left_out = 0
        """How many elided constants got no elements."""
        self._next_word = 0
        self._next_byte = 0
        self._total = 0

    def count(self, size: int) -> None:
        """Counts `size` bytes that the text does not contain. Raises LimitExceededError if they come to more than
        MAX_ELIDED_BYTES in one text, or to more than _MAX_PADDED_BYTES if elided constants get no elements.
        """
        self._total += size
        maximum = MAX_ELIDED_BYTES if self.is_filled else _MAX_PADDED_BYTES
        if self._total > maximum:
            raise LimitExceededError(
                f"elided constants of {self._total} bytes are more than {maximum}",
                limit="elided_constant_bytes",
                maximum=maximum,
                value=self._total,
            )

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes, and counts them. Raises LimitExceededError as `count` does."""
        self.count(size)
        count, rest = divmod(size, 4)
        words = array("I", range(self._next_word, self._next_word + count))
        if sys.byteorder == "big":
            words.byteswap()
        data = bytearray(words.tobytes()) + bytes(rest)
        self._next_word += count
        for offset in range(count, count + rest):
            data[offset] = self._next_byte & 0xFF
            self._next_byte += 1
        return bytes(data)


def parse_literal(
    source: Source, at: int, shape: xla.ShapeProto, elided: Elided | None = None
) -> tuple[xla.LiteralProto, int]:
    """Parses the literal whose text begins at offset `at`, perhaps after spaces and comments. Returns it with the
    offset after its text.

    `shape` is the declared shape of the constant. The literal's own shape has no dynamic dimensions and no
    element_size_in_bits; in XLA the shape of the instruction loses them too. All literals of a module's text share one
    `elided`, which decides whether elided constants get elements. Raises ParseError, or LimitExceededError as
    `Elided.count` does.

    >>> from xlashape.base.text import Source
    >>> parse_literal(Source("constant({1, -2})"), 9, xla.ShapeProto(element_type=xla.S32, dimensions=[2]))[0].s32s
    [1, -2]
    """
    literal = xla.LiteralProto()
    elided = Elided() if elided is None else elided
    literal_shape = literal.shape
    literal_shape.CopyFrom(shape)
    if literal_shape.element_type == xla.BUFFER and literal_shape.tuple_shapes:
        literal_shape.CopyFrom(shape.tuple_shapes[0])  # XLA makes an array of a buffer
    if literal_shape.element_type == xla.TUPLE:
        return _parse_tuple(source, at, literal_shape, 0, elided)
    make_static(literal_shape)
    if not literal_shape.dimensions:
        # Most constants are scalars: a plain number goes straight into its field, in 4 µs instead of 20.
        scalar = _SCALAR.match(source.text, at)
        kind = literal_shape.element_type
        if scalar is not None:
            integer = scalar[1]
            if kind == xla.F32 or kind == xla.F64:
                value = float(int(integer)) if integer is not None else float(scalar[2])
                if -3.4e38 < value < 3.4e38 and (integer is not None or not number.INTEGER.fullmatch(scalar[2])):
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
    return _parse_array(source, at, literal_shape, elided)


def make_static(shape: xla.ShapeProto) -> None:
    """Makes all dimensions of a shape and its parts static, and removes the element sizes of their layouts."""
    if True in shape.is_dynamic_dimension:
        shape.is_dynamic_dimension[:] = [False] * len(shape.is_dynamic_dimension)
    if shape.layout.element_size_in_bits:
        shape.layout.element_size_in_bits = 0
    for part in shape.tuple_shapes:
        make_static(part)


def _parse_tuple(
    source: Source, at: int, shape: xla.ShapeProto, depth: int, elided: Elided
) -> tuple[xla.LiteralProto, int]:
    if depth > MAX_SHAPE_DEPTH:
        raise source.error(at, f"tuples nest deeper than {MAX_SHAPE_DEPTH} levels")
    text, literal = source.text, xla.LiteralProto(shape=shape)
    at = number.skip_space(source, at)
    if not text.startswith("(", at):
        number.fail(source, at, "'(' before the elements of a tuple")
    at += 1
    for i, part_shape in enumerate(shape.tuple_shapes):
        at = number.skip_space(source, at)
        if i and text.startswith(",", at):
            at += 1
        if part_shape.element_type == xla.TUPLE:
            part, at = _parse_tuple(source, at, part_shape, depth + 1, elided)
        else:
            static_shape = xla.ShapeProto()
            static_shape.CopyFrom(part_shape)
            make_static(static_shape)
            part, at = _parse_array(source, at, static_shape, elided)
        literal.tuple_literals.append(part)
        literal.shape.tuple_shapes[i].CopyFrom(part.shape)
    at = number.skip_space(source, at)
    if not text.startswith(")", at):
        number.fail(source, at, f"')' after the {len(shape.tuple_shapes)} elements of a tuple")
    return literal, at + 1


def _parse_array(source: Source, at: int, shape: xla.ShapeProto, elided: Elided) -> tuple[xla.LiteralProto, int]:
    at = number.skip_space(source, at)
    try:
        element = element_type(shape)
        count = element_count(shape)
        positions = row_major_positions(shape)
    except InvalidModuleError as error:
        raise source.error(at, error.message) from error
    data, end = _parse_elements(source, at, element, list(shape.dimensions))
    if data is not None and len(data) < count * element.width:
        elided.count(count * element.width)
        data += bytes(count * element.width - len(data))
    elif data is None and not elided.is_filled:
        elided.left_out += 1
        return xla.LiteralProto(shape=shape), end
    elif data is None:
        data = elided.take(count * element.width)
        data = bytes([byte & 1 for byte in data]) if element.kind == "pred" else data
    if positions is not None:
        elements = memoryview(data).cast("B")
        width = element.width
        if width == 1:
            data = bytes([elements[position] for position in positions])
        else:
            data = b"".join([elements[position * width : (position + 1) * width] for position in positions])
    return from_raw(shape, data), end


def _convert_piece(text: str, at: int, element: number.ElementType, most: int) -> tuple[bytes | None, int, int]:
    """Converts the plain numbers in about _PIECE characters from `at` on: (raw elements, their count, the offset after
    them).

    The raw elements are None if a number is not plain or is a mistake, or if there are more than `most` numbers. Then
    the text up to the offset must be read token by token.
    """
    allowed = _PLAIN_INTEGERS if element.kind in ("int", "pred") else _PLAIN_FLOATS
    match = allowed.match(text, at, at + _PIECE)
    assert match is not None
    end = match.end()
    if not text.startswith("}", end):
        # The last number may continue after `end`, so the next piece begins with it.
        while end > at and text[end - 1] not in ", \t\r\n":
            end -= 1
    piece = text[at:end]
    words = piece.replace(",", " ").split()
    if not words or len(words) > most:
        return None, 0, max(end, at + 1)
    float_format = element.float_format
    data = _convert_integers(words, element) if float_format is None else _convert_floats(words, piece, float_format)
    return data, len(words), end


def _convert_integers(tokens: list[str], element: number.ElementType) -> bytes | None:
    """The raw elements of the numbers `tokens`. None if one of them is not plain or is out of range."""
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
        # s1, s2 and s4 keep only their own bits, without sign extension.
        return bytes([value & (element.upper - element.lower) for value in values])
    return array(element.code, values).tobytes()


def _convert_floats(tokens: list[str], piece: str, float_format: FloatFormat) -> bytes | None:
    if _UNUSUAL_FLOAT.search(piece):
        return None
    try:
        values = [float(token) for token in tokens]
    except ValueError:
        return None
    if not values:
        return b""
    low, high = min(values), max(values)
    if low <= -9.2e18 or high >= 9.2e18:
        # Such values need care: integers wrap from 2^63 on, and f32 has an upper bound.
        if not -3.4e38 < low <= high < 3.4e38 or any(
            number.INTEGER.fullmatch(token) for token in tokens if len(token) > 18
        ):
            return None
    if float_format.bits == 64:
        return array("d", values).tobytes()
    if float_format.bits == 32:
        return array("f", values).tobytes()
    patterns: dict[float, int] = {}
    result = array("H" if float_format.bits == 16 else "B")
    for value in values:
        pattern = patterns.get(value)
        if pattern is None or value == 0:  # 0.0 and -0.0 are equal
            pattern = number.encode_float(float_format, value)
            if pattern is None:
                return None
            patterns[value] = pattern
        result.append(pattern)
    return result.tobytes()


def _parse_elements(source: Source, at: int, element: number.ElementType, sizes: list[int]) -> tuple[bytes | None, int]:
    """The raw elements of an array in row-major order, and the offset after the array. Raises ParseError.

    An array without braces gives only its first element. An elided array gives None in place of the elements.
    """
    text, rank = source.text, len(sizes)
    if rank == 0:
        return number.element_bits(source, at, element)
    depth = 0  # the number of open braces
    counts = [0] * rank  # for each level: the elements so far in its open brace
    parts: list[bytes] = []
    is_elided = False
    is_plain = element.kind != "complex" and element.name not in ("s1", "u1")
    tokens_until = 0 if is_plain else len(text)  # the text up to this offset is read token by token
    while True:
        if depth == rank and at >= tokens_until and not is_elided and text[at : at + 1] not in ("}", ""):
            data, count, end = _convert_piece(text, at, element, sizes[-1] - counts[-1])
            if data is not None:
                counts[-1] += count
                parts.append(data)
                at = end
                continue
            tokens_until = end
        match = number.TOKEN.match(text, at)
        token = "" if match is None else match.group()
        kind = None if match is None else match.lastgroup
        if kind == "space":
            pass
        elif token == "{":
            if depth == rank:
                raise source.error(
                    at, f"expected an array of rank {rank}, found more braces", expected="a number", found="'{'"
                )
            if depth:
                _count_element(source, at, counts, sizes, depth)
            counts[depth] = 0
            depth += 1
        elif depth == 0 and kind == "number" and element.kind != "complex" and 0 not in sizes:
            return number.element_bits(source, at, element)
        elif depth == 0:
            number.fail(source, at, f"'{{' before an array of rank {rank}")
        elif token == "}":
            depth -= 1
            if counts[depth] != sizes[depth]:
                raise source.error(at, f"expected {sizes[depth]} elements in this dimension, found {counts[depth]}")
            if depth == 0:
                break
        elif token == ",":
            pass
        elif token == "...":
            if depth != 1:
                raise source.error(at, f"'...' stands for a whole array; here it is {depth} levels deep")
            is_elided, counts[0] = True, sizes[0]
        else:
            if depth != rank and (kind == "number" or token == "("):
                raise source.error(at, f"expected an array of rank {rank}, found {depth} braces before this number")
            _count_element(source, at, counts, sizes, depth)
            data, at = number.element_bits(source, at, element)
            parts.append(data)
            continue
        at = match.end()  # pyright: ignore[reportOptionalMemberAccess] # a token was found: `fail` raises for none
    return (None if is_elided else b"".join(parts)), at + 1


def _count_element(source: Source, at: int, counts: list[int], sizes: list[int], depth: int) -> None:
    """Counts an element within the innermost of `depth` open braces. Raises ParseError if the dimension has fewer
    elements.
    """
    counts[depth - 1] += 1
    if counts[depth - 1] > sizes[depth - 1]:
        raise source.error(at, f"expected {sizes[depth - 1]} elements in this dimension, found more")
