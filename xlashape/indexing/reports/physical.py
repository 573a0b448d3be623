"""Physical maps: a layout as a map, and an operation's maps between positions of buffers.

A position counts elements from the start of an array's buffer, tiles and padding included (`xlashape.shape.tiling`).
The formula is that of `xlashape.shape`, computed with symbolic expressions in place of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlashape.base.caches import cached
from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction
from xlashape.indexing.answers.leaves import is_unbounded, leaves, map_bytes
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.ops.rows import make_map
from xlashape.indexing.queries import output_to_input
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.shape.tiling.formula import geometry, logical_index, physical_position
from xlashape.symbolic import IndexingMap, Interval, dim
from xlashape.symbolic.expr.expression import as_expr


@cached(max_bytes=8 << 20, weigh=lambda key, value: 400 + map_bytes(value))
def logical_to_physical(shape: Shape) -> IndexingMap:
    """From an index of an array (of a buffer: of the array that it holds) to the position of its element.

    A shape without a layout has the default layout; a dynamic dimension counts with its bound. InvalidShapeError for a
    shape without positions.

    >>> logical_to_physical(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    (d0, d1) -> ((d0 / 2) * 12 + (d1 / 2) * 4 + (d0 mod 2) * 2 + d1 mod 2), domain: d0 in [0, 2], d1 in [0, 4]
    """
    sizes = geometry(shape).dimensions
    position = physical_position(shape, [dim(i) for i in range(len(sizes))])
    return make_map(sizes, [as_expr(position)])


@cached(max_bytes=8 << 20, weigh=lambda key, value: 400 + map_bytes(value))
def physical_to_logical(shape: Shape) -> IndexingMap:
    """The inverse of `logical_to_physical`: from a position of the buffer to the index of the element there. Padding
    lies outside the domain.

    InvalidShapeError for a shape without positions.

    >>> inverse = physical_to_logical(Shape.parse("f32[3,5]{1,0:T(2,2)}"))
    >>> inverse.evaluate((17,)), inverse.evaluate((11,))
    ((2, 3), None)
    """
    array = geometry(shape)
    index, conditions = logical_index(shape, dim(0))
    constraints = [(as_expr(value), Interval(0, size - 1)) for value, size in conditions]
    return make_map([array.elements], [as_expr(expr) for expr in index], constraints=constraints)


def output_to_input_physical(instruction: HloInstruction, output: int = 0) -> tuple[OperandIndexingSet, ...]:
    """From a position in the buffer of an output to positions in the buffers of the operands; simplified.

    One set for each operand, as for `output_to_input`. Runtime variables keep their producers, whose own maps lead to
    indices, not to positions. Maps from or to an array with an unbounded dimension are undefined. InvalidArgumentError
    for an output that is not an array, SizeOverflowError for a buffer with more elements than int64 counts.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m ENTRY e { p = f32[4,8]{1,0} parameter(0)
    ... ROOT t = f32[8,4]{1,0} transpose(p), dimensions={1,0} }'''
    >>> (reads,) = output_to_input_physical(HloModule.parse(text).entry.root)
    >>> reads.map
    (d0) -> ((d0 mod 4) * 8 + d0 / 4), domain: d0 in [0, 31]
    """
    return physical_of(instruction, output, output_to_input(instruction, output))


def physical_of(
    instruction: HloInstruction, output: int, operands: Iterable[OperandIndexingSet]
) -> tuple[OperandIndexingSet, ...]:
    """`output_to_input_physical`, where the maps between indices are known."""
    shape = leaves(instruction.shape)[output]
    if not (shape.is_array or shape.is_buffer):
        raise InvalidArgumentError(
            f"output {output} of {instruction.name} is not an array: it has no positions", field="output"
        )
    return tuple(
        [
            physical_of_operand(shape, reads, leaves(operand.shape))
            for operand, reads in zip(instruction.operands, operands, strict=True)
        ]
    )


def physical_of_operand(output: Shape, reads: OperandIndexingSet, operand: Sequence[Shape]) -> OperandIndexingSet:
    """From positions of an output of shape `output` to positions of an operand, whose leaves are `operand`. Accesses to
    leaves that are not arrays are left out.
    """
    return OperandIndexingSet(
        [
            _between_positions(output, read, operand[read.leaf])
            for read in reads
            if operand[read.leaf].is_array or operand[read.leaf].is_buffer
        ]
    )


def _between_positions(output: Shape, read: OperandIndexing, operand: Shape) -> OperandIndexing:
    spend(1)
    if is_unbounded(output) or is_unbounded(operand):
        return OperandIndexing(IndexingMap.undefined(), leaf=read.leaf)
    from_position = OperandIndexing(physical_to_logical(output))
    return from_position.compose(read).compose(OperandIndexing(logical_to_physical(operand), leaf=read.leaf))
