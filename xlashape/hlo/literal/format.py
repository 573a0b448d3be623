"""The text of a literal, as XLA prints a constant: one line, an index comment before each block from rank 4 on."""

from __future__ import annotations

from array import array

from xlashape.errors import InvalidModuleError
from xlashape.hlo.literal.data import element_type, raw, row_major_places
from xlashape.hlo.literal.values import ElementType
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.math import product
from xlashape.proto import coerce, xla

__all__ = ["literal_text"]


def literal_text(literal: xla.LiteralProto | bytes, *, depth: int = 0) -> str:
    """XLA's text of a literal on one line, without its shape.

    Raises InvalidModuleError for a literal whose elements do not fit its shape.

    >>> literal_text(xla.LiteralProto(shape={"element_type": xla.F32, "dimensions": [1, 2]}, f32s=[1, 0.1]))
    '{ { 1, 0.1 } }'
    """
    literal = coerce(xla.LiteralProto, literal)
    shape = literal.shape
    if shape.element_type == xla.TUPLE:
        check("levels of tuples in a literal", depth, MAX_SHAPE_DEPTH)
        return f"( {', '.join(literal_text(part, depth=depth + 1) for part in literal.tuple_literals)} )"
    if shape.element_type == xla.TOKEN:
        return ""
    element = element_type(shape)
    if not shape.dimensions and element.storage != "bytes" and element.kind in ("pred", "int", "float"):
        values = getattr(literal, element.field)
        if len(values) == 1:
            value = values[0]
            if element.kind != "float":
                return str(value) if element.kind == "int" else "true" if value else "false"
            if value == int_of(value):
                return str(int(value))
    return _array_text(literal, element)


def int_of(value: float) -> int | None:
    """The integer that a float of at most six digits prints as; None for others, and for -0."""
    return int(value) if 0 < abs(value) < 1e6 and value.is_integer() else 0 if str(value) == "0.0" else None


def _array_text(literal: xla.LiteralProto, element: ElementType) -> str:
    elements: array[int] = array(element.code)
    elements.frombytes(raw(literal))
    texts = element.texts(elements)
    places = row_major_places(literal.shape)
    if places is not None:
        ordered = [""] * len(texts)
        for place, text in zip(places, texts, strict=True):
            ordered[place] = text
        texts = ordered
    sizes = list(literal.shape.dimensions)
    if literal.dynamic_sizes:
        texts, sizes = _cut(texts, sizes, list(literal.dynamic_sizes))
    if not sizes:
        if element.kind == "pred":
            return "true" if texts[0] == "1" else "false"
        return texts[0]
    if len(sizes) == 1:
        return f"{{{', '.join(texts)}}}"
    return _nested(texts, sizes)


def _cut(texts: list[str], sizes: list[int], dynamic: list[int]) -> tuple[list[str], list[int]]:
    # The elements within the dynamic sizes, and those sizes.
    if len(dynamic) != len(sizes) or any(not 0 <= d <= s for d, s in zip(dynamic, sizes, strict=True)):
        raise InvalidModuleError(f"dynamic sizes {dynamic} of a literal do not fit its dimensions {sizes}")
    places = [0]
    for size, bound in zip(dynamic, sizes, strict=True):
        places = [place * bound + i for place in places for i in range(size)]
    return [texts[place] for place in places], dynamic


def _nested(texts: list[str], sizes: list[int]) -> str:
    # The innermost rows first, then each level out. From rank 4 on every level but the outermost and the rows says its index.
    rank, row = len(sizes), sizes[-1]
    counts = [product(sizes[:k]) for k in range(rank)]
    if row > 1:
        parts = [f"{{ {', '.join(texts[i : i + row])} }}" for i in range(0, len(texts), row)]
    else:
        parts = [f"{{{text}}}" for text in texts] if row else ["{}"] * counts[-1]
    for level in range(rank - 2, -1, -1):
        size = sizes[level]
        commented = rank > 3 and level > 0
        outer: list[str] = []
        for i in range(counts[level]):
            inside = ", ".join(parts[i * size : (i + 1) * size])
            if commented:
                head = f"{{ /*i{level - 1}={i % sizes[level - 1]}*/"
                outer.append(f"{head} {inside} }}" if size else f"{head} }}")
            else:
                outer.append(f"{{ {inside} }}")
        parts = outer
    return parts[0]
