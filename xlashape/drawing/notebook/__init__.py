"""HTML of objects for notebooks: their text, their sizes, tables, and a small picture of a layout.

The HTML is small and escaped, and takes its colours from the page, light or dark.

card      the form of the HTML: a box with a title, lines, a table and a picture
shapes    shapes, layouts and maps
reading   pictures of the elements that maps and instructions read
modules   modules, computations and instructions
reports   answers of reports, such as why buffers are as large as they are; tables
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

__all__ = ["html"]

_HOMES: Final = (
    ("xlashape.shape", "shapes"),
    ("xlashape.symbolic", "shapes"),
    ("xlashape.hlo", "modules"),
    ("xlashape.reports", "reports"),
    ("xlashape.indexing", "reports"),
    ("xlashape.base.tables", "reports"),
)
"""The package of a class → the file of this directory that makes the HTML of its objects. A file is loaded when it is
needed: the HTML of a shape needs no HLO modules."""


def html(value: object) -> str | None:
    """The HTML of a shape, a layout, a map, a module, computation or instruction, a report, or a table; None for
    anything else.

    >>> from xlashape.shape import Shape
    >>> html(Shape.parse("f32[2,3]")).startswith("<div")
    True
    """
    for each in type(value).__mro__:
        for package, file in _HOMES:
            if f"{each.__module__}.".startswith(f"{package}."):
                return import_module(f"xlashape.drawing.notebook.{file}").html(value)
    return None
