"""A text, with the line and column of each offset for error messages."""

from __future__ import annotations

from bisect import bisect_right

from xlashape import limits
from xlashape.errors import InvalidArgumentError, ParseError

__all__ = ["Source"]

_SHOWN = 100  # characters of a line that an error shows


class Source:
    """`text`, and an optional `name` (a path) for messages. The offsets of lines are computed on the first error."""

    __slots__ = ("_line_starts", "name", "text")

    def __init__(self, text: str, name: str | None = None) -> None:
        # The check is for callers without types: text from JSON, bytes read from a file.
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgumentError(f"expected text, found {type(text).__name__}")
        limits.check("text characters", len(text), limits.MAX_TEXT_CHARACTERS)
        self.text = text
        self.name = name
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        r"""(line, column) of an offset, both counted from 1.

        >>> Source("ab\ncd").position(4)
        (2, 2)
        """
        if self._line_starts is None:
            starts, at = [0], self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._line_starts = starts
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def error(
        self,
        offset: int,
        message: str,
        *,
        expected: str | None = None,
        found: str | None = None,
    ) -> ParseError:
        """A ParseError at an offset, with its line (or the part of a long line around the offset) and a caret. The caller raises it."""
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
