"""Outputs of a module that take over the buffers of its parameters, as `input_output_alias` says. JAX writes it for donated arguments.

The result that is the output, followed back through tuples, bitcasts and loops, is computed into the parameter's memory: it has none of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.values.aliasing import ALIAS_KINDS
from xlashape.shape import ShapeIndex

__all__ = ["DonatedBuffer", "donated_buffers", "source_of"]

_PASSES: Final = frozenset(
    [Opcode.BITCAST, Opcode.OPT_BARRIER, Opcode.DOMAIN, Opcode.ADD_DEPENDENCY, Opcode.WHILE, Opcode.ALL_REDUCE_DONE]
)
"""Their result is their first operand, element by element. Of a loop: it works in the memory of its initial state."""

_ELEMENT_OF_START: Final = {Opcode.COPY_DONE: 0, Opcode.ALL_GATHER_DONE: 1, Opcode.COLLECTIVE_PERMUTE_DONE: 1}
"""Their result is this element of what the start gave."""


class DonatedBuffer(NamedTuple):
    """An output that takes over the buffer of a parameter."""

    output_index: ShapeIndex
    """Which array of the module's result."""
    parameter: HloInstruction
    parameter_index: ShapeIndex
    kind: str
    """`must-alias`, or `may-alias`: if the caller gives the argument away."""
    instruction: HloInstruction
    """The instruction that computes the output."""
    shape_index: ShapeIndex
    """Which array of its result."""

    @property
    def parameter_text(self) -> str:
        """The parameter's name, and the index in it."""
        return self.parameter.name + (str(self.parameter_index) if self.parameter_index else "")


def donated_buffers(module: HloModule) -> tuple[DonatedBuffer, ...]:
    """The outputs that take over parameters, in the order of the module. What names no parameter, which XLA refuses, is left out.

    >>> text = '''HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
    ... ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) a = f32[8] abs(p) ROOT t = (f32[8], f32[8]) tuple(n, a) }'''
    >>> [(str(each.output_index), each.instruction.name, each.parameter_text) for each in donated_buffers(HloModule.parse(text))]
    [('{0}', 'n', 'p')]
    """
    return tuple(_donated(module))


def _donated(module: HloModule) -> Iterator[DonatedBuffer]:
    parameters = module.entry.parameters if module.proto.input_output_alias.entries else ()
    for alias in module.proto.input_output_alias.entries:
        if 0 <= alias.parameter_number < len(parameters):
            output = tuple(alias.output_shape_index)
            instruction, index = source_of(module.entry.root, output)
            yield DonatedBuffer(
                ShapeIndex(output),
                parameters[alias.parameter_number],
                ShapeIndex(alias.parameter_shape_index),
                ALIAS_KINDS.text(alias.kind),
                instruction,
                ShapeIndex(index),
            )


def source_of(instruction: HloInstruction, index: tuple[int, ...]) -> tuple[HloInstruction, tuple[int, ...]]:
    """The instruction whose result is the memory of the array at `index` of an instruction's result, and the array's index there.

    Instructions that choose (conditionals), call, or end other asynchronous operations are not looked through.

    >>> text = "HloModule m ENTRY e { p = f32[8] parameter(0) b = f32[2,4] bitcast(p) ROOT t = (f32[2,4]) tuple(b) }"
    >>> source_of(HloModule.parse(text).entry.root, (0,))
    (<HloInstruction 'p': parameter>, ())
    """
    while True:
        opcode, operands = instruction.opcode, instruction.operands
        aliases = [
            alias
            for alias in instruction.proto.output_operand_aliasing
            if index[: len(alias.output_shape_index)] == tuple(alias.output_shape_index)
        ]
        if opcode == Opcode.TUPLE and index and index[0] < len(operands):
            instruction, index = operands[index[0]], index[1:]
        elif opcode == Opcode.GET_TUPLE_ELEMENT and operands:
            instruction, index = operands[0], (instruction.proto.tuple_index, *index)
        elif opcode in _PASSES and operands:
            instruction = operands[0]
        elif isinstance(opcode, Opcode) and opcode in _ELEMENT_OF_START and operands:
            instruction, index = operands[0], (_ELEMENT_OF_START[opcode], *index)
        elif aliases and 0 <= aliases[0].operand_index < len(operands):
            alias = aliases[0]
            rest = index[len(alias.output_shape_index) :]
            instruction, index = operands[alias.operand_index], (*alias.operand_shape_index, *rest)
        else:
            return instruction, index
