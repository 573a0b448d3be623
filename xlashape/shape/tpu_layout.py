"""The layouts that TPUs give to arrays: the order of the dimensions, and the tiles.

>>> print(default_shape(Shape.array("bf16", (20, 300))), default_shape(Shape.array("f32", (1024, 8, 4))))
bf16[20,300]{1,0:T(8,128)(2,1)} f32[1024,8,4]{0,2,1:T(4,128)}

These are the layouts of the parameters and results of compiled programs, unless the program asks for others. Arrays
inside a program often have them too, but there the compiler is free. XLA has no public function for this. The rules
were found from the entry layouts of programs that libtpu 0.0.42 compiled ahead of time for v2 to 7x;
`tests/vectors/tpu_layouts.jsonl` holds the facts. The rules:

- A word of 32 bits holds 1, 2, 4, 8 or 16 elements, for elements of 32 bits or more, 16, 8, 4 and 2 bits; this is the
  *packing*. v2 and v3 store elements below 8 bits as bytes; later generations pack them, and their layouts say `E(4)`
  or `E(2)`.
- One dimension: one tile, the least power of two that is not below the size, from 128 × packing (v2, v3: twice that) to
  1,024 (2 bits: 2,048). If elements share words, `(128)(packing,1)` follows. A scalar has the smallest of these tiles,
  alone.
- More dimensions: a tile of rows × 128. The rows are the least power of two not below the second most minor size, at
  least the packing (v2, v3: twice that), at most 8; from v4 on 32, 64 or 128 rows for elements of 8, 4 and 2 bits,
  where that divides the second most minor size. If elements share words, `(packing,1)` follows.
- The order is the one with the smallest buffer. If several orders have it, the last dimension is most minor if
  possible, and the dimension before it second most minor if possible. All other dimensions keep their order.
- An array without elements has no tiles.

The compiler takes no arrays of s1 and u1, and JAX none of f6e2m3fn and f6e3m2fn. The layouts given here for these types
follow from the rules alone, without a compiled program to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xlashape.base.math import product, round_up
from xlashape.errors import InvalidArgumentError, InvalidShapeError
from xlashape.shape.arguments import array_of
from xlashape.shape.parts.checks import brief
from xlashape.shape.parts.primitive_type import PrimitiveType
from xlashape.shape.parts.target import TPU, Target
from xlashape.shape.parts.tile import UNBOUNDED_SIZE, Tile
from xlashape.shape.value.shape import Layout, Shape

__all__ = ["default_order", "default_shape", "default_tiles", "has_tpu_tiles", "stored_element_bits"]

_LANES = 128
_WORD_BITS = 32
_OLD = ("v2", "v3")
_TALL_ROWS = {8: 32, 4: 64, 2: 128}
"""The rows of a tile, if they divide the second most minor size, by the bits of an element."""


class _Rule(NamedTuple):
    """The numbers from which the tiles of arrays of one element type follow."""

    packing: int
    """How many elements share a word of 32 bits."""
    least: int
    """The fewest rows of a tile."""
    tall: int
    """The rows of a tile if they divide the second most minor size; 0 if the type has no such tile."""
    shortest: int
    """The smallest tile of one dimension."""
    longest: int
    """The largest tile of one dimension."""
    stored_bits: int
    """The element size that the layout states; 0 for none."""

    def rows(self, size: int) -> int:
        """The rows of a tile over a second most minor dimension of this size."""
        if self.tall and size % self.tall == 0:
            return self.tall
        return max(self.least, self._rows_compared(size))

    def _rows_compared(self, size: int) -> int:
        return min(8, max(self.least, _power_of_two(size)))

    def cost(self, elements: int, minor: int, second: int) -> tuple[int, bool]:
        """The key by which the order is chosen; the least wins. First the elements of the buffer, counted with tiles of
        8 rows at most, then whether there is padding.
        """
        others = elements // (minor * second) * round_up(minor, _LANES)
        counted = others * round_up(second, self._rows_compared(second))
        return counted, others * round_up(second, max(self.least, self._rows_compared(second))) != elements


def _rule(element_type: PrimitiveType, target: Target) -> _Rule:
    bits = element_type.bit_width
    is_old = target.generation in _OLD
    stored = max(8, bits) if is_old else bits
    packing = max(1, _WORD_BITS // stored)
    least = packing * (2 if is_old else 1)
    word = max(1, _WORD_BITS // bits)
    return _Rule(
        packing=packing,
        least=max(least, word),
        tall=0 if is_old else _TALL_ROWS.get(bits, 0),
        shortest=_LANES * least,
        longest=max(1024, _LANES * word),
        stored_bits=bits if bits < 8 and not is_old else 0,
    )


def _tpu(target: Target | str) -> Target:
    target = Target.of(target)
    if not target.is_tpu:
        raise InvalidArgumentError(f"expected a TPU, found {target.name}", field="target")
    return target


def _power_of_two(size: int) -> int:
    """The least power of two that is not below `size`."""
    return 1 << max(0, size - 1).bit_length()


def stored_element_bits(element_type: PrimitiveType | str, target: Target | str = TPU) -> int:
    """The element size in bits that a TPU's layouts state, `E(n)`: 4 and 2 for elements of 4 and 2 bits from v4 on,
    else 0.

    >>> stored_element_bits("s4"), stored_element_bits("s4", "tpu-v3"), stored_element_bits("f32")
    (4, 0, 0)
    """
    return _rule(PrimitiveType.of(element_type), _tpu(target)).stored_bits


def default_order(
    element_type: PrimitiveType | str, dimensions: Iterable[int], target: Target | str = TPU
) -> tuple[int, ...]:
    """The order, minor to major, that a TPU gives to an array.

    >>> default_order("f32", (8, 224, 224, 3)), default_order("f32", (8, 128))
    ((2, 1, 3, 0), (1, 0))
    """
    sizes = tuple(dimensions)
    rank = len(sizes)
    descending = tuple(range(rank - 1, -1, -1))
    if rank < 2 or 0 in sizes:
        return descending
    rule = _rule(PrimitiveType.of(element_type), _tpu(target))
    elements = product(sizes)
    pairs = [(minor, second) for minor in descending for second in descending if minor != second]
    minor, second = min(pairs, key=lambda pair: rule.cost(elements, sizes[pair[0]], sizes[pair[1]]))
    return (minor, second, *[d for d in descending if d not in (minor, second)])


def default_tiles(
    element_type: PrimitiveType | str,
    dimensions: Iterable[int],
    minor_to_major: Sequence[int],
    target: Target | str = TPU,
) -> tuple[Tile, ...]:
    """The tiles that a TPU gives to an array in this order.

    >>> (
    ...     "".join(map(str, default_tiles("s8", (20, 300), (1, 0)))),
    ...     "".join(map(str, default_tiles("s8", (32, 300), (1, 0)))),
    ... )
    ('(8,128)(4,1)', '(32,128)(4,1)')
    """
    sizes = tuple(dimensions)
    if 0 in sizes:
        return ()
    rule = _rule(PrimitiveType.of(element_type), _tpu(target))
    if len(sizes) >= 2:
        tiles = [(rule.rows(sizes[minor_to_major[1]]), _LANES)]
        tiles += [(rule.packing, 1)] if rule.packing > 1 else []
    elif sizes:
        tiles = [(max(rule.shortest, min(_power_of_two(sizes[0]), rule.longest)),)]
        tiles += [(_LANES,), (rule.packing, 1)] if rule.packing > 1 else []
    else:
        tiles = [(rule.shortest,)]
    return tuple(map(Tile, tiles))


def default_shape(shape: Shape, target: Target | str = TPU, *, keep_order: bool = False) -> Shape:
    """The array with the layout that a TPU gives to it: its order, its tiles and the size of its elements.

    A layout that has tiles stays as it is. A layout whose order is not the default one keeps its order. With
    `keep_order`, every layout keeps its order. The memory space and the prefix for dynamic sizes are kept.
    InvalidShapeError for a shape that is not an array or has an unbounded dimension, InvalidArgumentError for a target
    that is not a TPU.

    >>> print(default_shape(Shape.parse("f32[3,128]{0,1}")), default_shape(Shape.parse("s4[100]"), "tpu-v4"))
    f32[3,128]{0,1:T(8,128)} s4[100]{0:T(1024)(128)(8,1)E(4)}
    """
    target = _tpu(target)
    array = array_of(shape)
    layout = array.layout or Layout.default(array.rank)
    if layout.tiles:
        return shape
    if UNBOUNDED_SIZE in array.dimensions:
        raise InvalidShapeError(f"{brief(array)} has an unbounded dimension, and so no tiles", field="shape")
    order = layout.minor_to_major
    if not keep_order and order == Layout.default(array.rank).minor_to_major:
        order = default_order(array.element_type, array.dimensions, target)
    bits = layout.element_size_in_bits or stored_element_bits(array.element_type, target)
    tiles = default_tiles(array.element_type, array.dimensions, order, target)
    tiled = array.replace(
        layout=layout.replace(minor_to_major=order, tiles=tiles, element_size_in_bits=bits, split_configs=())
    )
    return Shape.buffer(tiled) if shape.is_buffer else tiled


def has_tpu_tiles(shape: Shape) -> bool:
    """Whether the tiles of an array have the form that TPUs give them: rows × 128, or a multiple of 128 for one
    dimension.

    >>> has_tpu_tiles(Shape.parse("f32[8,8]{1,0:T(8,128)}")), has_tpu_tiles(Shape.parse("f32[8,8]{1,0:T(2,2)}"))
    (True, False)
    """
    array = array_of(shape)
    if array.layout is None or not array.layout.tiles:
        return False
    first = array.layout.tiles[0].dimensions
    if array.rank < 2:
        return len(first) == 1 and first[0] > 0 and first[0] % _LANES == 0
    return len(first) == 2 and first[1] == _LANES
