"""The text of a literal, as XLA prints a constant: one line, an index comment before each block from rank 4 on."""

from __future__ import annotations

from array import array

from xlashape.errors import InvalidModuleError
from xlashape.hlo.literal.data import element_type, raw, row_major_positions
from xlashape.hlo.literal.element_types import ElementType
from xlashape.limits import MAX_SHAPE_DEPTH, check
from xlashape.math import product
from xlashape.proto import coerce, xla


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
    return _array_text(literal, element_type(shape))


def _array_text(literal: xla.LiteralProto, element: ElementType) -> str:
    elements: array[int] = array(element.code)
    elements.frombytes(raw(literal))
    texts = element.texts(elements)
    positions = row_major_positions(literal.shape)
    if positions is not None:
        row_major = [""] * len(texts)
        for position, text in zip(positions, texts, strict=True):
            row_major[position] = text
        texts = row_major
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


def _cut(texts: list[str], sizes: list[int], dynamic_sizes: list[int]) -> tuple[list[str], list[int]]:
    """The elements within the dynamic sizes, and those sizes."""
    if len(dynamic_sizes) != len(sizes) or any(
        not 0 <= dynamic <= size for dynamic, size in zip(dynamic_sizes, sizes, strict=True)
    ):
        raise InvalidModuleError(f"dynamic sizes {dynamic_sizes} of a literal do not fit its dimensions {sizes}")
    positions = [0]
    for dynamic, size in zip(dynamic_sizes, sizes, strict=True):
        positions = [position * size + i for position in positions for i in range(dynamic)]
    return [texts[position] for position in positions], dynamic_sizes


def _nested(texts: list[str], sizes: list[int]) -> str:
    """The innermost rows are joined first, then each level around them.

    From rank 4 on every level has a comment with its index, except the outermost and the rows.
    """
    rank, row_size = len(sizes), sizes[-1]
    counts = [product(sizes[:level]) for level in range(rank)]
    if row_size > 1:
        parts = [f"{{ {', '.join(texts[i : i + row_size])} }}" for i in range(0, len(texts), row_size)]
    else:
        parts = [f"{{{text}}}" for text in texts] if row_size else ["{}"] * counts[-1]
    for level in range(rank - 2, -1, -1):
        size = sizes[level]
        has_comment = rank > 3 and level > 0
        outer: list[str] = []
        for i in range(counts[level]):
            inside = ", ".join(parts[i * size : (i + 1) * size])
            if has_comment:
                head = f"{{ /*i{level - 1}={i % sizes[level - 1]}*/"
                outer.append(f"{head} {inside} }}" if size else f"{head} }}")
            else:
                outer.append(f"{{ {inside} }}")
        parts = outer
    return parts[0]
