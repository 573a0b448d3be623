r"""The tokens of HLO text. `HloCursor` reads them; the functions after it write names, escapes, numbers and lists.

name       := letter (letter | digit | '_' | '-' | '.')*        letters of ASCII, and '_'
reference  := '%' name | name ':'?
attribute  := name '='                                          no space before the '='
string     := '"' (any but '"', '\' and line end | escape)* '"'   or the same in single quotes
escape     := C's:  \n \r \t \\ \" \' \? \a \b \f \v  \ooo  \xhh
bool       := 'true' | 'false'
double     := INT | DECIMAL | 'inf' | '-inf' | 'nan'
integers   := '{' (INT (',' INT)*)? '}'
shape      := as `xlashape.shape.text` says
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xlashape.base.text import Cursor
from xlashape.errors import ParseError, XlashapeError
from xlashape.limits import INT64_MAX, INT64_MIN, spend
from xlashape.shape import PrimitiveType, Shape
from xlashape.shape.value.shape import parse_shape

_T = TypeVar("_T")

NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
"""The regular expression of a name."""


def _parentheses(depth: int, most: int) -> str:
    """The regular expression of parentheses with others nested in them up to `depth` levels. The outermost may contain
    `most` others, each inner pair 100."""
    return rf"\([^()]*(?:{_parentheses(depth - 1, 100)}[^()]*){{0,{most}}}\)" if depth else r"\([^()]*\)"


SHAPE = rf"(?:[a-z][a-z0-9]*|unknown_-?[0-9]+)\[[^\[\](){{}}=]*\](?:\{{[^{{}}=]*\}})?|{_parentheses(3, 5000)}"
"""The regular expression of what looks like a shape. It also matches text that parsing then refuses.

Repetitions in the regular expressions for HLO text are bounded, since `re` keeps a position to return to for each one.
Text beyond the bounds is read token by token.
"""

KEYWORDS = frozenset(
    "true false inf nan ROOT ENTRY HloModule replicated maximal manual unknown unreduced "
    "FileNames FunctionNames FileLocations StackFrames".split()
)
"""Words that are not names without a '%' before them or a ':' after them."""

RESERVED = frozenset(kind.text for kind in PrimitiveType if kind.is_array_type) | {"token", "opaque"}
"""Words that begin a shape and therefore cannot be names, even with a '%' before them."""

_NAME = re.compile(NAME)
_ATTRIBUTE = re.compile(rf"({NAME})=")
_INTEGERS = re.compile(r"\{[ ]*(?:(-?[0-9]{1,18}(?:,[ ]*-?[0-9]{1,18})*)[ ]*)?\}")
_STRING = re.compile(r'"([^"\\]*)"' + r"|'([^'\\]*)'")
_STRING_STEPS = {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*){{0,1000}}", re.DOTALL) for quote in ('"', "'")}
_DOUBLE = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|nan(?![A-Za-z0-9_])")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]+)|(.))|(\\)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"} | {
    bytes([char]): bytes([char]) for char in rb"\?'" + b'"'
}


def _is_sparse(shape: Shape) -> bool:
    layout = shape.buffer_shape.layout if shape.is_buffer else shape.layout
    return layout is not None and bool(layout.index_primitive_type or layout.pointer_primitive_type)


class HloCursor(Cursor):
    """A cursor that reads the tokens of HLO text, besides the integers and words that every Cursor reads."""

    __slots__ = ()

    def parse_name(self, what: str = "a name") -> str:
        """Reads a name and returns it without its '%' or ':'. Raises ParseError, in which `what` names what was
        expected."""
        self.skip_space()
        text, at = self.text, self.at
        percent = text.startswith("%", at)
        match = _NAME.match(text, at + percent)
        if match is None or (not percent and match.group() in KEYWORDS and not text.startswith(":", match.end())):
            self.fail(what)
        self.at = match.end()
        if not percent and text.startswith(":", self.at):
            self.at += 1
        return match.group()

    def accept_word(self, word: str) -> bool:
        """Consumes `word` if it is the whole next word. Returns whether it is."""
        at = self.at
        if self.parse_optional_word() == word:
            return True
        self.at = at
        return False

    def parse_shape(self) -> Shape:
        """Reads a shape. Any error about the shape is a ParseError with its position in the text.

        The layout of an array within a tuple must not have a type of indices or pointers, which only sparse arrays
        have. XLA requires the same.
        """
        self.skip_space()
        at = self.at
        try:
            shape = parse_shape(self)
        except ParseError:
            raise
        except XlashapeError as error:
            raise self.error(str(error), at=at, expected="a shape") from error
        if shape.is_tuple and any(map(_is_sparse, shape.leaves())):
            what = "the layout of an array in a tuple has no type of indices or pointers"
            raise self.error(what, at=at, expected="a tuple of dense arrays")
        return shape

    def parse_optional_attribute_name(self) -> str | None:
        """Reads `name=` and returns the name; None if no such text comes next."""
        self.skip_space()
        match = _ATTRIBUTE.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match.group(1)

    def parse_attribute_name(self) -> str:
        """Reads `name=` and returns the name. Raises ParseError if no such text comes next."""
        name = self.parse_optional_attribute_name()
        if name is None:
            self.fail("an attribute, name=value")
        return name

    def parse_string(self, what: str = "a string") -> bytes:
        r"""Reads a string and returns its content with escapes replaced: bytes, since `\377` need not be UTF-8."""
        self.skip_space()
        at = self.at
        match = _STRING.match(self.text, at)
        if match is not None:
            raw = match.group(match.lastindex or 1)
            self.at = match.end()
        else:
            if not self.text.startswith(('"', "'"), at):
                self.fail(what)
            parts: list[str] = []
            self.at = self.string_end(at, parts)
            # Escapes are replaced part by part: for 14 million escapes in one string `sub` takes 1.3 GB.
            contents: list[bytes] = []
            for part in parts:
                spend(256)
                contents.append(self._content(part, what, at))
            return b"".join(contents)
        return self._content(raw, what, at)

    def _content(self, raw: str, what: str, at: int) -> bytes:
        """The content of `raw`, a part of the string that begins at `at`. No escape crosses the end of the part."""
        try:
            data = raw.encode()
        except UnicodeEncodeError:
            raise self.error(f"{what}: half of a surrogate pair is not text", at=at, expected="text") from None
        if "\\" not in raw:
            return data

        def replace(escape: re.Match[bytes]) -> bytes:
            octal, hexadecimal, char, _ = escape.groups()
            if octal is not None:
                value = int(octal, 8)
            elif hexadecimal is not None:
                value = int(hexadecimal[-8:], 16) if not hexadecimal[:-8].strip(b"0") else 256
            elif char is not None and char in _ESCAPES:
                return _ESCAPES[char]
            else:
                value = 256
            if value > 255:
                shown = escape.group()[:12].decode(errors="replace")
                raise self.error(f"{what}: {shown!r} is not an escape", at=at, expected="an escape of C", found=shown)
            return bytes([value])

        return _ESCAPE.sub(replace, data)

    def string_end(self, at: int, parts: list[str] | None = None) -> int:
        """The offset after the string that begins with the quote at `at`. Appends the string's content to `parts`, in
        pieces that end between escapes.
        """
        text = self.text
        quote = text[at]
        steps, position = _STRING_STEPS[quote], at + 1
        while True:
            match = steps.match(text, position)
            end = position if match is None else match.end()
            if text.startswith(quote, end):
                if parts is not None:
                    parts.append(text[position:end])
                return end + 1
            if end == position:
                raise self.error("this string is never closed", at=at, expected="a closing quote")
            if parts is not None:
                parts.append(text[position:end])
            position = end

    def parse_text(self, what: str = "a string") -> bytes:
        """Reads a string whose content must be UTF-8, and returns the content as bytes."""
        self.skip_space()
        at = self.at
        data = self.parse_string(what)
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                raise self.error(f"{what}: its escapes are not UTF-8", at=at, expected="UTF-8") from None
        return data

    def parse_bool(self, what: str = "'true' or 'false'") -> bool:
        """Reads `true` or `false`."""
        self.skip_space()
        match = _NAME.match(self.text, self.at)
        word = match.group() if match is not None else ""
        if match is None or word not in ("true", "false"):
            self.fail(what)
        self.at = match.end()
        return word == "true"

    def parse_int_between(self, low: int, high: int, what: str) -> int:
        """Reads an integer from `low` to `high`, both included."""
        self.skip_space()
        at = self.at
        value = self.parse_int(what)
        if not low <= value <= high:
            raise self.error(f"{what}: {value} is not between {low} and {high}", at=at, expected=what, found=str(value))
        return value

    def int64(self, digits: str) -> int:
        """The number that `digits` spell. ParseError at the cursor if it does not fit int64."""
        value = int(digits)
        if not INT64_MIN <= value <= INT64_MAX:
            raise self.error(f"{digits} does not fit int64")
        return value

    def parse_double(self, what: str = "a number") -> float:
        """Reads a double, which may be written as an integer."""
        self.skip_space()
        match = _DOUBLE.match(self.text, self.at)
        if match is None:
            self.fail(what)
        value = float(match.group())
        if abs(value) == float("inf"):
            shown = match.group()[:24]
            raise self.error(f"{what}: {shown} does not fit a double", expected=what, found=shown)
        self.at = match.end()
        return value

    def parse_ints(self, opening: str = "{", closing: str = "}", what: str = "an integer") -> list[int]:
        """Reads integers between `opening` and `closing`, separated by commas."""
        self.skip_space()
        if opening == "{":
            match = _INTEGERS.match(self.text, self.at)
            if match is not None:
                self.at = match.end()
                inside = match.group(1)
                return list(map(int, inside.split(","))) if inside else []
        return self.parse_list(lambda: self.parse_int(what), opening, closing)

    def parse_list(self, parse: Callable[[], _T], opening: str = "{", closing: str = "}") -> list[_T]:
        """Reads a list between `opening` and `closing`. `parse` reads each element; commas separate the elements."""
        self.expect(opening)
        elements: list[_T] = []
        for _ in self.items(closing):
            elements.append(parse())
            spend()
        return elements

    def parse_word_of(self, words: dict[str, _T], what: str, *, any_case: bool = False) -> _T:
        """Reads a word, which must be in `words`, and returns its value there. With `any_case`, `words` are in lower
        case and the case of the text does not matter.
        """
        self.skip_space()
        at = self.at
        match = _NAME.match(self.text, at)
        word = "" if match is None else match.group().lower() if any_case else match.group()
        if match is None or word not in words:
            found = repr(match.group()[:40]) if match is not None else self.found()
            known = ", ".join(sorted(words)) if len(words) <= 12 else f"one of {len(words)}"
            raise self.error(f"expected {what} ({known}), found {found}", at=at, expected=what, found=found)
        self.at = match.end()
        return words[word]


# -- writing -----------------------------------------------------------------------------------


_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.\-]")
_SAFE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_.\-]*")
_SAFE_LINES = re.compile(rf"{_SAFE.pattern}(?:\n{_SAFE.pattern})*")
_WRITTEN_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_BYTES = [_WRITTEN_ESCAPES.get(chr(byte), chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in range(256)]


def escape(text: str | bytes) -> str:
    r"""The text with C escapes, octal for bytes that are not printable ASCII. The caller adds the quotes.

    >>> print(escape('é "q"'))
    \303\251 \"q\"
    """
    if isinstance(text, str):
        if _PLAIN.fullmatch(text):
            return text
        text = text.encode("utf-8", "surrogatepass")
    return "".join([_BYTES[byte] for byte in text])


def safe_name(name: str) -> str:
    """The name that XLA gives to an instruction or computation that is called `name`.

    Bytes other than letters, digits and `_.-` become `_`, and so does a first byte that is neither a letter nor `_`.
    Names that begin with `__` are reserved for XLA: the first `_` becomes `a`, unless the name begins with `__xla_`.

    >>> safe_name("a b%c"), safe_name("1x"), safe_name("__x")
    ('a_b_c', '_x', 'a_x')
    """
    if _SAFE.fullmatch(name):
        return name
    made = _UNSAFE.sub(b"_", name.encode("utf-8", "surrogatepass")).decode("ascii")
    if made and not (made[0].isalpha() or made[0] == "_"):
        made = "_" + made[1:]
    return "a" + made[1:] if made.startswith("__") and not made.startswith("__xla_") else made


def safe_names(names: Sequence[str]) -> Sequence[str]:
    """`safe_name` of each name, found out for all at once where all are safe already."""
    lines = "\n".join(names)
    is_safe = lines.count("\n") == len(names) - 1 and _SAFE_LINES.fullmatch(lines)
    return names if is_safe else [safe_name(name) for name in names]


def without_comments(text: str) -> str:
    """The text without comments `/*…*/`, such as the index comments of tuple shapes.

    >>> without_comments("(f32[2], /*index=1*/s32[]) /* open")
    '(f32[2], s32[]) /* open'
    """
    first, *rest = text.split("/*")
    made = [first]
    for part in rest:
        _, end, after = part.partition("*/")
        made.append(after if end else f"/*{part}")
    return "".join(made)


def without_suffix(name: str) -> str:
    """The name up to its first dot, without the suffix that makes names unique.

    >>> without_suffix("add.12.clone"), without_suffix("add")
    ('add', 'add')
    """
    return name.partition(".")[0]


def ints(values: Iterable[int]) -> str:
    """A list of integers as HLO text has it: `{1,2}`."""
    return f"{{{','.join(map(str, values))}}}"


def number(value: float) -> str:
    """A float with six digits, as XLA writes it outside literals: 0.1, 1e+10, nan, -inf."""
    return f"{value:.6g}"


def with_index_comments(parts: Sequence[str], interval: int = 5) -> str:
    """The parts joined by commas, with a comment that gives the index before every `interval`-th part, as XLA writes
    long lists.

    >>> with_index_comments(["a", "b", "c", "d", "e"], 2)
    'a, b, /*index=2*/c, d, /*index=4*/e'
    """
    if len(parts) <= interval or not interval:
        return ", ".join(parts)
    return ", ".join([f"/*index={i}*/{part}" if i and i % interval == 0 else part for i, part in enumerate(parts)])


def is_json_dict(text: str) -> bool:
    """Whether the text is enclosed in balanced braces; braces within strings do not count. XLA writes such a text
    without quotes.

    >>> is_json_dict('{"a":"}"}'), is_json_dict("{a}}"), is_json_dict("[1]")
    (True, False, False)
    """
    text = text.lstrip(" \t\n\r")
    if not text.startswith("{"):
        return False
    depth = at = 0
    for match in _BRACE.finditer(text):
        token = match.group()
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                at = match.end()
                break
        elif len(token) == 1:
            return False  # a string without an end
    return depth == 0 and at > 0 and not text[at:].strip(" \t\n\r")


_BRACE = re.compile(r'[{}]|"(?:[^"\\]|\\.)*"|"', re.DOTALL)
