"""What mends a way of reading that fetches in vain or again, as a person writes it in JAX. Another order of dimensions
in memory, of the operand or of the result, is tried, and named where JAX takes one: for the arguments and the results
of a program, since XLA itself chooses how all other arrays lie. A result in the memory of an argument lies as that
does, so such arguments and results have none. What is read of a few elements in each row is worth an array of its own.

XLA may answer with other fusions: of 47 layouts for fifty programs, compiled again for a CPU, 43 lowered what is
fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.hlo import HloInstruction, Opcode
from xlashape.reports.copies.edits import input_layout, output_layout
from xlashape.reports.copies.movers import takes_more
from xlashape.reports.reads.answer import Way
from xlashape.shape import Layout, Shape
from xlashape.symbolic.expr.expression import variables_of

_LARGE: Final = 8
"""An array with at least this part of the elements of the largest one is large too."""


class Mend(NamedTuple):
    """What mends a read, of all instructions that read so."""

    operand_order: tuple[int, ...] | None
    """The order of the operand in memory, minor to major, with which at most half as much is fetched in vain or again.
    """
    output_order: tuple[int, ...] | None
    """That of the result."""
    own: str = ""
    """The elements that are worth an array of their own."""

    def text(self, instruction: HloInstruction, operand: HloInstruction, output: int) -> str | None:
        """The changes of the program that each mend the read of an instruction; None where JAX has none.

        >>> from xlashape.hlo import HloModule
        >>> text = "HloModule m ENTRY e { p = f32[8,4] parameter(0) ROOT t = f32[4,8] transpose(p), dimensions={1,0} }"
        >>> root = HloModule.parse(text).entry.root
        >>> Mend((0, 1), None).text(root, root.operands[0], 0)
        'in_shardings of p: Format(Layout((1, 0)), sharding)'
        """
        module = instruction.computation.module
        if instruction.computation is not module.entry:
            return self.own or None
        shared = module.head.input_output_alias.entries
        found: list[str] = []
        is_argument = operand.opcode == Opcode.PARAMETER and all(
            each.parameter_number != operand.number for each in shared
        )
        if self.operand_order is not None and is_argument:
            found.append(input_layout(operand, self.operand_order).text)
        # Another order of the result may spoil the reads of other large arrays.
        sizes = [product(each.shape.dimensions) for each in instruction.operands if each.shape.is_array]
        is_alone = sum([_LARGE * size >= max(sizes) for size in sizes]) == 1
        if self.output_order is not None and is_alone:
            taken = [tuple(each.output_shape_index) for each in shared]
            results = [each for each in _results(instruction, output, module.entry.root) if each not in taken]
            found += [output_layout(each, self.output_order).text for each in results]
        return ", or ".join(found) or self.own or None


def mend_of(way: Way, operand: Shape, output: Shape, lost: int, lost_by: Callable[[Shape, Shape], int]) -> Mend | None:
    """What mends a streamed read of an array; None where nothing is known to.

    Of all orders of the operand, that of the outputs which read it lets neighbouring outputs read neighbours, and of
    all orders of the output that of the operand. `lost` bytes are fetched in vain or again, and `lost_by` says how many
    are with another operand and output: an order counts if it saves at least half of them.
    """
    if way.consumer.kind != "streamed" or not operand.is_array or not output.is_array:
        return None
    dims = way.access.map.variable_expressions()[0]
    used = [variables_of([each]) for each in way.access.map.results]
    inner, outer = _minor_to_major(operand), _minor_to_major(output)
    pairs = [
        (number, along)
        for number in inner
        for along in outer
        if along < len(dims) and output.dimensions[along] > 1 and dims[along] in used[number]
    ]
    by_output = sorted(pairs, key=lambda pair: outer.index(pair[1]))
    orders = (
        tuple(dict.fromkeys([*[number for number, _ in by_output], *inner])),
        tuple(dict.fromkeys([*[along for _, along in pairs], *outer])),
    )
    tried = ((_ordered(operand, orders[0]), output), (operand, _ordered(output, orders[1])))
    helps = [
        order != before and not takes_more(array, order) and 2 * lost_by(*shapes) <= lost
        for array, order, before, shapes in zip((operand, output), orders, (inner, outer), tried, strict=True)
    ]
    if any(helps):
        return Mend(orders[0] if helps[0] else None, orders[1] if helps[1] else None)
    stride = abs(way.sample.stride or 0)
    minor = next((each for each in inner if operand.dimensions[each] > 1), None)
    along = next((each for each in outer if output.dimensions[each] > 1), None)
    if stride > 1 and (minor, along) in pairs:
        return Mend(None, None, f"an array of its own for what is read: 1 of {stride} elements of dimension {minor}")
    return None


def _results(instruction: HloInstruction, output: int, root: HloInstruction) -> list[tuple[int, ...]]:
    """The results of a program, by their index, that an array of an instruction is."""
    if instruction is root:
        return [() if root.shape.is_array else (output,)]
    if root.opcode != Opcode.TUPLE or not instruction.shape.is_array:
        return []
    return [(number,) for number, each in enumerate(root.operands) if each is instruction]


def _ordered(array: Shape, order: tuple[int, ...]) -> Shape:
    layout = Layout(order) if array.layout is None else array.layout.replace(minor_to_major=order)
    return array.replace(layout=layout)


def _minor_to_major(array: Shape) -> tuple[int, ...]:
    return tuple(range(array.rank - 1, -1, -1)) if array.layout is None else array.layout.minor_to_major
