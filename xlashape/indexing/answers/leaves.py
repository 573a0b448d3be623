"""The leaves of a shape, and the integers that a constant instruction holds.

The leaves are the arrays (tokens, opaques, buffers) within a shape, counted depth first. A shape that is not a tuple is
its own leaf 0. Answers name an array within a tuple by the number of its leaf: of `(f32[2], (s32[], pred[3]))`, leaf 1
is the s32[].
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate

from xlashape.base.caches import cached
from xlashape.base.math import product
from xlashape.errors import InvalidModuleError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.literal.data import element_type, raw, row_major_positions
from xlashape.shape import UNBOUNDED_SIZE, PrimitiveType, Shape
from xlashape.symbolic import IndexingMap

WITHOUT_BOUND = 1 << 63
"""The size that maps give to a dimension without a bound: its indices end with the largest int64."""


def leaves(shape: Shape) -> tuple[Shape, ...]:
    """The leaves of a shape.

    >>> leaves(Shape.parse("(f32[2], (s32[], pred[3]))"))
    (Shape('f32[2]{0}'), Shape('s32[]'), Shape('pred[3]{0}'))
    """
    return _leaves(shape) if shape.is_tuple else (shape,)


# A tuple of a thousand elements is the operand of a thousand instructions.
@cached(max_bytes=2 << 20, weigh=lambda key, value: 200 + 8 * len(value))
def _leaves(shape: Shape) -> tuple[Shape, ...]:
    return tuple(shape.leaves())


def leaf_count(shape: Shape) -> int:
    """How many leaves a shape has."""
    return 1 if not shape.is_tuple else len(leaves(shape))


def first_leaves(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """The number of each shape's first leaf when the leaves of all shapes are counted together; the last item is the
    number of all leaves.

    >>> first_leaves((Shape.parse("(f32[2], s32[])"), Shape.parse("pred[]")))
    (0, 2, 3)
    """
    return tuple(accumulate([leaf_count(shape) for shape in shapes], initial=0))


# Keeping results saves a fifth of the time of the maps of Gemma 2, whose tuples have a thousand elements.
@cached(max_bytes=2 << 20, weigh=lambda key, value: 200 + 100 * len(value))
def element_starts(shape: Shape) -> tuple[int, ...]:
    """`first_leaves` of the elements of a tuple."""
    return first_leaves(shape.tuple_shapes)


def dims_of(leaf: Shape) -> tuple[int, ...]:
    """The sizes of a leaf's dimensions. A buffer has the sizes of its array, a token or opaque none. A dynamic
    dimension counts with its bound.

    A dimension without a bound has indices up to the largest int64, as in XLA's maps: `WITHOUT_BOUND` of them.
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
    return _holds_unbounded(shape) if shape.tuple_shapes else UNBOUNDED_SIZE in shape.dimensions


# Keeping results saves a third of the time of the maps of Gemma 2: a loop is asked about each leaf of its tuple, which
# may have a thousand.
@cached(max_bytes=1 << 20, entry_bytes=200)
def _holds_unbounded(shape: Shape) -> bool:
    return any(WITHOUT_BOUND in dims_of(leaf) for leaf in leaves(shape))


def map_bytes(map: IndexingMap) -> int:  # noqa: A002  # the proto's name
    """An estimate of the bytes that a map takes in memory, with its expressions and its simplified form.

    >>> map_bytes(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 9]"))
    1060
    """
    variables = len(map.dims) + len(map.ranges) + len(map.runtime)
    nodes = sum([result.size for result in map.results]) + sum([expr.size for expr, _ in map.constraints])
    return 700 + 160 * variables + 200 * nodes


# -- constants ---------------------------------------------------------------------------------


MAX_ELEMENTS = 1 << 16
"""Constants of more elements are not read."""


def scalar_value(instruction: HloInstruction) -> int | None:
    """The value of a scalar constant of an integral type or pred (0 or 1); else None."""
    if instruction.opcode != Opcode.CONSTANT or instruction.shape.dimensions:
        return None
    values = integers(instruction)
    return None if values is None else values[0]


def integers(instruction: HloInstruction) -> Sequence[int] | None:
    """The elements of an integral (or pred) constant in row-major order.

    None for another element type, for an array without elements or of more than `MAX_ELEMENTS`, and where the literal
    is missing or was left out of the text that the module was read from.
    """
    shape = instruction.shape
    if not shape.is_array or not (shape.element_type.is_integral or shape.element_type is PrimitiveType.PRED):
        return None
    count = product(shape.dimensions)
    if count == 0 or count > MAX_ELEMENTS or not instruction.details.HasField("literal"):
        return None
    literal = instruction.details.literal
    if tuple(literal.shape.dimensions) != shape.dimensions or literal.shape.element_type != int(shape.element_type):
        return None
    try:
        element = element_type(literal.shape)
        data = raw(literal)
        positions = row_major_positions(literal.shape)
    except InvalidModuleError:
        return None
    if count > _PRINTED_IN_FULL and data == _placeholder(len(data)):
        return None
    stored: array[int] = array(element.code)
    stored.frombytes(data)
    if sys.byteorder == "big":
        stored.byteswap()
    values: list[int] = list(stored)
    width = shape.element_type.bit_width
    if width < 8:
        values = [value & ((1 << width) - 1) for value in values]
        if shape.element_type.is_signed:
            values = [value - (1 << width) if value >> (width - 1) else value for value in values]
    if positions is None:
        return values
    ordered = [0] * count
    for position, value in zip(positions, values, strict=True):
        ordered[position] = value
    return ordered


_PRINTED_IN_FULL = 10
"""XLA prints constants of more elements as `{...}`. A literal that is read from such text holds the 32-bit numbers
0, 1, 2, … in place of its bytes.
"""


def _placeholder(size: int) -> bytes:
    """The bytes that stand in for elements that the text left out."""
    words = array("I", range(size // 4)).tobytes()
    return words + bytes(size - len(words))
