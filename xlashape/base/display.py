"""How objects of lower layers show themselves in notebooks, and how their texts are printed.

A notebook calls `_repr_html_` of an object. The HTML may have a picture, and the package of pictures is in a higher
layer than shapes, modules and maps. So these objects call `shown`, or derive from `Displayed`, which does. `shown`
imports the module `HOME` by its name when a notebook asks for the first time.
"""

from __future__ import annotations

import json
import re
from importlib import import_module

from xlashape.errors import XlashapeError

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")

HOME = "xlashape.drawing.notebook"
"""The module whose `html(value)` is shown."""


def shown(value: object) -> str | None:
    """HTML for a notebook. None if there is no HTML, or if making it raises an error of this library: the notebook then
    shows `repr`.
    """
    try:
        return import_module(HOME).html(value)
    except XlashapeError:
        return None


class Displayed:
    """An object that shows itself in notebooks. A NamedTuple, which can have no other base, repeats the line below."""

    __slots__ = ()

    _repr_html_ = shown


def printable(text: str) -> str:
    r"""The text with U+FFFD in place of characters that are not printed, such as those that control a terminal, change
    the direction of writing, or may not be in XML. Lines stay.

    >>> printable("a\x1b[2J\u202e\nb")
    'a�[2J�\nb'
    """
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if not line.isprintable():
            lines[at] = "".join([each if each.isprintable() else "�" for each in line])
    return "\n".join(lines)


def printable_json(text: str) -> str:
    r"""A text in JSON with escapes in place of the characters that `printable` replaces, which means the same.

    >>> printable_json('{"name": "é\u202e"}')
    '{"name": "é\\u202e"}'
    """
    return _NOT_ASCII.sub(lambda each: each[0] if each[0].isprintable() else json.dumps(each[0])[1:-1], text)
