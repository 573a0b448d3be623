r"""The base of the library's parsers. The grammars are in the packages that use it.

- `Source`: a text, with the line and column of each offset for error messages.
- `Cursor`: an offset in a source that moves forward token by token. Spaces and comments between tokens are skipped.

    space   := ' ' | '\t' | '\r' | '\n' | '/*' … '*/' | '//' … '\r' or '\n'
    integer := '-'? digit+          word := letter (letter | digit | '_')*

`expect` and `parse_…` consume a token or raise ParseError; `accept` consumes a token or returns False, and
`parse_optional_word` returns None. Errors say what was expected, what was found and where.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NoReturn

from xlashape import limits
from xlashape.errors import InvalidArgumentError, ParseError, is_a
from xlashape.limits import INT64_MAX, INT64_MIN, spend

__all__ = ["Cursor", "Source"]

# The characters of a line that an error shows.
_SHOWN = 100


class Source:
    """`text`, and an optional `name` for messages, such as its path. The offsets of lines are computed up to the
    position that is asked for, mostly for an error.
    """

    __slots__ = ("_line_starts", "name", "text")

    def __init__(self, text: str, name: str | None = None) -> None:
        if not is_a(text, str):
            raise InvalidArgumentError(f"expected text, found {type(text).__name__}")
        limits.check("text characters", len(text), limits.MAX_TEXT_CHARACTERS)
        self.text = text
        self.name = name
        self._line_starts = [0]

    def position(self, offset: int) -> tuple[int, int]:
        r"""(line, column) of an offset, both counted from 1.

        >>> Source("ab\ncd").position(4)
        (2, 2)
        """
        starts = self._line_starts
        at = self.text.find("\n", starts[-1], offset)
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1, offset)
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def error(self, offset: int, message: str, *, expected: str | None = None, found: str | None = None) -> ParseError:
        """A ParseError at an offset, with its line (or the part of a long line around the offset) and a caret. The
        caller raises it.
        """
        line, column = self.position(offset)
        start = offset - column + 1
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        first = max(start, offset - _SHOWN // 2) if end - start > _SHOWN else start
        last = min(end, first + _SHOWN)
        before, after = ("…" if first > start else ""), ("…" if last < end else "")
        shown = "".join(c if c.isprintable() else "�" if c != "\t" else " " for c in self.text[first:last])
        return ParseError(
            message,
            line=line,
            column=column,
            source_line=before + shown + after,
            caret=len(before) + offset - first,
            name=self.name,
            expected=expected,
            found=found,
        )


_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_END = re.compile(r"[\r\n]")
_MAY_SKIP = frozenset(" \t\r\n/")
_INTEGER = re.compile(r"-?[0-9]+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOUND = re.compile(r"-?[A-Za-z0-9_]{1,40}|->|.", re.DOTALL)
# The most digits of an int64, without leading zeros.
_MAX_DIGITS = 19


class Cursor:
    """A position in a source. `at` is the offset of the first character that is not consumed yet."""

    __slots__ = ("at", "source", "text")

    def __init__(self, source: Source | str, at: int = 0) -> None:
        self.source = source if isinstance(source, Source) else Source(source)
        self.text = self.source.text
        self.at = at

    def skip_space(self) -> None:
        """Consumes spaces and comments."""
        text, at = self.text, self.at
        if text[at : at + 1] not in _MAY_SKIP:
            return
        while True:
            match = _SPACE.match(text, at)
            at = at if match is None else match.end()
            if text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    raise self.error("this comment is never closed", at=at, expected="*/")
                at = end + 2
                spend()
            elif text.startswith("//", at):
                end = _LINE_END.search(text, at)
                at = len(text) if end is None else end.start()
            else:
                self.at = at
                return

    def at_end(self) -> bool:
        """Whether only spaces and comments are left."""
        self.skip_space()
        return self.at >= len(self.text)

    def looking_at(self, token: str) -> bool:
        """Whether `token` comes next, after spaces and comments."""
        self.skip_space()
        return self.text.startswith(token, self.at)

    def accept(self, token: str) -> bool:
        """Consumes `token` if it comes next."""
        self.skip_space()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        """Consumes `token`. Raises ParseError if it does not come next."""
        if not self.accept(token):
            self.fail(f"'{token}'")

    def items(self, closing: str, whole: str = "") -> Iterator[int]:
        """Yields the offset at which each item of a list begins; the caller then consumes the item. Commas separate the
        items, and `closing` ends the list. ParseError if an item is followed by neither; `whole` names the list in the
        error.

        >>> cursor = Cursor("1, 2)")
        >>> [(at, cursor.parse_int()) for at in cursor.items(")")]
        [(0, 1), (3, 2)]
        """
        if self.accept(closing):
            return
        while True:
            self.skip_space()
            yield self.at
            if self.accept(closing):
                return
            if not self.accept(","):
                self.fail(f"',' or '{closing}' of {whole}" if whole else f"',' or '{closing}'")

    def expect_end(self) -> None:
        """Raises ParseError if anything but spaces and comments is left."""
        if not self.at_end():
            self.fail("the end of the text")

    def parse_int(self, what: str = "an integer") -> int:
        """Consumes an integer that fits int64. Raises ParseError otherwise; `what` names the integer in the error."""
        self.skip_space()
        match = _INTEGER.match(self.text, self.at)
        if match is None:
            self.fail(what)
        digits = match.group()
        # Python refuses to convert very long digit strings, so length is checked before value.
        if len(digits.lstrip("-0")) > _MAX_DIGITS or not INT64_MIN <= (value := int(digits)) <= INT64_MAX:
            raise self.error(
                f"{what}: {digits[:24]}{'…' if len(digits) > 24 else ''} does not fit int64",
                expected=what,
                found=digits[:24],
            )
        self.at = match.end()
        return value

    def parse_optional_word(self) -> str | None:
        """Consumes a word and returns it; returns None if no word comes next."""
        self.skip_space()
        match = _WORD.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match.group()

    def parse_word(self, what: str = "a word") -> str:
        """Consumes a word and returns it. Raises ParseError otherwise; `what` names the word in the error."""
        word = self.parse_optional_word()
        if word is None:
            self.fail(what)
        return word

    def found(self) -> str:
        """The next token, as error messages show it."""
        self.skip_space()
        match = _FOUND.match(self.text, self.at)
        return "the end of the text" if match is None else repr(match.group())

    def fail(self, expected: str) -> NoReturn:
        """Raises a ParseError that says what was expected and what comes next."""
        found = self.found()
        hint = ", which begins no comment" if found == "'#'" else ""
        raise self.error(f"expected {expected}, found {found}{hint}", expected=expected, found=found)

    def error(
        self, message: str, *, at: int | None = None, expected: str | None = None, found: str | None = None
    ) -> ParseError:
        """A ParseError at offset `at`, by default the current one. The caller raises it."""
        return self.source.error(self.at if at is None else at, message, expected=expected, found=found)
