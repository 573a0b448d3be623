"""How objects of lower floors show themselves in notebooks.

A notebook asks an object for `_repr_html_`. What it shows may be a picture, and pictures stand on a higher floor than
shapes, modules and maps. So the objects there call `shown`, or derive from `Displayed`, which loads the module `HOME`
by its name when a notebook asks first. Nothing is imported before.
"""

from __future__ import annotations

from importlib import import_module

from xlashape.errors import XlashapeError

HOME = "xlashape.drawing.notebook"
"""The module whose `html(value)` is shown."""


def shown(value: object) -> str | None:
    """HTML for a notebook; None if there is no HTML, and the notebook shows `repr`. Errors of this library are not
    raised.
    """
    try:
        return import_module(HOME).html(value)
    except XlashapeError:
        return None


class Displayed:
    """An object that shows itself in notebooks. A NamedTuple, which can have no other base, has the same line."""

    __slots__ = ()

    _repr_html_ = shown
