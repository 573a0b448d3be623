"""Properties that a sentence explains, as a list below their class: a heading for each would hide the methods between
them."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Class, Docstring, Extension


def as_item(path: str, name: str, kind: str, about: str) -> str:
    """A line of the list, which links lead to as to a heading.

    >>> as_item("a.Shape.rank", "rank", "int", "The number of dimensions.")
    '- [](){#a.Shape.rank}`rank: int`: The number of dimensions.'
    """
    return f"- [](){{#{path}}}`{name}{f': {kind}' if kind else ''}`: {about}"


class ShortProperties(Extension):
    """Griffe calls this with each class that it has read."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        short = [
            each
            for each in cls.members.values()
            if isinstance(each, Attribute)
            and each.docstring is not None
            and not each.name.startswith("_")
            and "\n" not in each.docstring.value.strip()
        ]
        if len(short) < 2:
            return
        items = [
            as_item(each.path, each.name, str(each.annotation or ""), each.docstring.value.strip())
            for each in short
            if each.docstring is not None
        ]
        text = "" if cls.docstring is None else cls.docstring.value
        cls.docstring = Docstring("\n".join([text, "", *items]), parent=cls)
        for each in short:
            del cls.members[each.name]
