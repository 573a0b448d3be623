"""Docstrings as Markdown: examples become code blocks, and lists begin after an empty line, as Markdown wants both."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ITEM = re.compile(r"(- |\d+\. )")


def as_markdown(docstring: str) -> str:
    r"""The docstring with its `>>>` examples fenced, and an empty line before each list.

    >>> as_markdown("Adds.\n>>> 1 + 1\n2\n\nTakes:\n- numbers").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Takes:', '', '- numbers']
    """
    lines: list[str] = []
    in_example = False
    in_list = False
    for line in docstring.expandtabs().splitlines():
        if in_example and not line.strip():
            lines.append("```")
            in_example = False
        elif not in_example and line.startswith(">>> "):
            if lines and lines[-1]:
                lines.append("")
            lines.append("```pycon")
            in_example = True
        elif not in_example:
            is_item = bool(_ITEM.match(line))
            if is_item and not in_list and lines and lines[-1]:
                lines.append("")
            in_list = is_item or (in_list and line.startswith(" "))
        lines.append(line.replace("<BLANKLINE>", "") if in_example else line)
    if in_example:
        lines.append("```")
    return "\n".join(lines)


class DoctestBlocks(Extension):
    """Griffe calls this with each object that it has read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
