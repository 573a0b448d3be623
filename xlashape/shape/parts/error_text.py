"""Values and shapes as error messages show them: shortened."""

from __future__ import annotations

from typing import Any

__all__ = ["brief", "shown", "with_article"]


def brief(value: object) -> str:
    """The text of a shape or layout, at most 200 characters."""
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def shown(value: Any) -> str:
    """The `repr` of a value, at most 60 characters. An int that is too long to print in decimal is described by its sign."""
    if isinstance(value, int) and value.bit_length() > 512:
        return "far below 0" if value < 0 else "far above int64"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def with_article(word: str) -> str:
    """The word after "a" or "an".

    >>> with_article("token"), with_article("opaque")
    ('a token', 'an opaque')
    """
    return f"{'an' if word[0] in 'aeio' else 'a'} {word}"
