"""The leaves of a shape: the arrays (tokens, opaques, buffers) within it, counted depth first. A shape that is not a tuple is its own leaf 0.

Answers name an array within a tuple by the number of its leaf: of `(f32[2], (s32[], pred[3]))`, leaf 1 is the s32[].
"""

from __future__ import annotations

from itertools import accumulate

from xlashape.caches import cached
from xlashape.shape import UNBOUNDED_SIZE, PrimitiveType, Shape
from xlashape.symbolic import IndexingMap

WITHOUT_BOUND = 1 << 63
"""How many indices a dimension without a bound has in maps."""


def leaves(shape: Shape) -> tuple[Shape, ...]:
    """The leaves of a shape.

    >>> leaves(Shape.parse("(f32[2], (s32[], pred[3]))"))
    (Shape('f32[2]{0}'), Shape('s32[]'), Shape('pred[3]{0}'))
    """
    return tuple(shape.leaves()) if shape.is_tuple else (shape,)


def leaf_count(shape: Shape) -> int:
    """How many leaves a shape has."""
    return 1 if not shape.is_tuple else len(leaves(shape))


def first_leaves(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """The number of each shape's first leaf when the leaves of all shapes are counted together; the last item is how many there are.

    >>> first_leaves((Shape.parse("(f32[2], s32[])"), Shape.parse("pred[]")))
    (0, 2, 3)
    """
    return tuple(accumulate([leaf_count(shape) for shape in shapes], initial=0))


# Keeping results saves half of the time of the maps of Gemma 2, whose tuples have a thousand elements.
@cached(max_bytes=2 << 20, weigh=lambda key, value: 200 + 100 * len(value))
def element_starts(shape: Shape) -> tuple[int, ...]:
    """`first_leaves` of the elements of a tuple."""
    return first_leaves(shape.tuple_shapes)


def dims_of(leaf: Shape) -> tuple[int, ...]:
    """The sizes of a leaf: of a buffer those of the array it holds; of a token or opaque none. A dynamic size counts with its bound.

    A dimension without a bound has indices up to the largest int64, as in XLA's maps: 2⁶³ of them.
    """
    is_buffer = leaf.element_type is PrimitiveType.BUFFER and leaf.tuple_shapes
    sizes = leaf.tuple_shapes[0].dimensions if is_buffer else leaf.dimensions
    if UNBOUNDED_SIZE in sizes:
        return tuple([WITHOUT_BOUND if size == UNBOUNDED_SIZE else size for size in sizes])
    return sizes


def leaf_sizes(shape: Shape) -> list[tuple[int, ...]]:
    """`dims_of` of every leaf.

    >>> leaf_sizes(Shape.parse("(f32[2,3], s32[])"))
    [(2, 3), ()]
    """
    return [dims_of(leaf) for leaf in leaves(shape)]


def is_unbounded(shape: Shape) -> bool:
    """Whether any array in the shape has a dimension without a bound."""
    if not shape.tuple_shapes:
        return UNBOUNDED_SIZE in shape.dimensions
    return any(WITHOUT_BOUND in dims_of(leaf) for leaf in leaves(shape))


def map_bytes(map: IndexingMap) -> int:  # noqa: A002  # the proto's name
    """About the bytes of a map, its expressions and its simplified form.

    >>> map_bytes(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 9]"))
    1060
    """
    variables = len(map.dims) + len(map.ranges) + len(map.runtime)
    nodes = sum([result.size for result in map.results]) + sum([expr.size for expr, _ in map.constraints])
    return 700 + 160 * variables + 200 * nodes
