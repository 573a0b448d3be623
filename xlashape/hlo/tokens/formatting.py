"""Pieces of HLO text that writers of several values share: escapes, names, numbers and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.\-]")
_SAFE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_.\-]*")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_BYTES = [_ESCAPES.get(chr(byte), chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}") for byte in range(256)]


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
    """The name that XLA gives to an instruction or computation of this name.

    Bytes other than letters, digits and `_.-` become `_`, and so does a first byte that is neither a letter nor `_`. Names that begin
    with `__` are reserved for XLA; the first `_` becomes `a`.

    >>> safe_name("a b%c"), safe_name("1x"), safe_name("__x")
    ('a_b_c', '_x', 'a_x')
    """
    if _SAFE.fullmatch(name):
        return name
    made = _UNSAFE.sub(b"_", name.encode("utf-8", "surrogatepass")).decode("ascii")
    if made and not (made[0].isalpha() or made[0] == "_"):
        made = "_" + made[1:]
    return "a" + made[1:] if made.startswith("__") and not made.startswith("__xla_") else made


def without_comments(text: str) -> str:
    """The text without comments of the kind that shapes have.

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
    """The name up to its first point; what follows makes names unique.

    >>> without_suffix("add.12.clone"), without_suffix("add")
    ('add', 'add')
    """
    return name.partition(".")[0]


def ints(values: Iterable[int]) -> str:
    """`{1,2}`."""
    return f"{{{','.join([str(value) for value in values])}}}"


def number(value: float) -> str:
    """A float with six digits, as XLA writes it outside literals: 0.1, 1e+10, nan, -inf."""
    return f"{value:.6g}"


def with_index_comments(parts: Sequence[str], interval: int = 5) -> str:
    """The parts with commas between them and a comment before each `interval`-th, as XLA numbers long lists.

    >>> with_index_comments(["a", "b", "c", "d", "e"], 2)
    'a, b, /*index=2*/c, d, /*index=4*/e'
    """
    if len(parts) <= interval or not interval:
        return ", ".join(parts)
    return ", ".join([f"/*index={i}*/{part}" if i and i % interval == 0 else part for i, part in enumerate(parts)])


def is_json_dict(text: str) -> bool:
    """Whether the text is enclosed in braces that balance, those in strings not counted. XLA writes such a text without quotes.

    >>> is_json_dict('{"a":"}"}'), is_json_dict('{a}}'), is_json_dict("[1]")
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
