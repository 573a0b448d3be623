"""Which results of a module's instructions are buffers in memory of their own, and which share the buffers of other
results. XLA decides this in its buffer assignment. This file derives it from opcodes and declared aliases alone.

>>> from xlashape.hlo import HloModule
>>> text = '''HloModule m
... fused { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
... ENTRY e { x = f32[8] parameter(0) f = f32[8] fusion(x), kind=kLoop, calls=fused
... ROOT t = (f32[8], f32[8]) tuple(f, x) }'''
>>> found = module_buffers(HloModule.parse(text))
>>> [str(buffer) for buffer in found.buffers], dict(found.shared), found.without_memory
(['x', 'f'], {'tuple': 1}, 2)

- An instruction of the entry computation, or of a computation that is executed instruction by instruction (the bodies
  and conditions of loops, branches, calls), has a buffer for each array of its result.
- Instructions that are fused or applied to elements (the computations of fusions, reductions, sorts, …) have no buffer.
- Tuples and their elements, bitcasts, barriers, loops, branches, calls, and the ends of asynchronous operations share
  the buffers of their operands, or of the roots of the computations that they call. Parameters of called computations
  share the buffers of the caller. A result that is declared to alias an operand shares the operand's buffer.
- Outputs that take over parameters, as `input_output_alias` says (JAX writes it for donated arguments), share the
  buffers of these parameters. An output is followed back by `Flow.memory` to the instruction that computes it.

The compiler shares more: buffers that are not live at the same time, results that are computed in place, and branches
of which only one runs. So the sum of all buffers is an upper bound of the memory in use, and not its peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from xlashape.hlo.flow.walk import Flow, executed_computations
from xlashape.hlo.ir import HloInstruction, ModuleData
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.values.aliasing import ALIAS_KINDS
from xlashape.shape import Shape, ShapeIndex
from xlashape.shape.xla_util.shape_util import get_leaf_shapes

_WHOLE: Final = ShapeIndex()


def joins_parts(instruction: HloInstruction) -> bool:
    """Whether an instruction moves no data, but joins its operands, which lie side by side in memory, to one array. TPU
    compilers end a copy that is made in parts with such a custom call."""
    kind = instruction.kind
    return kind.opcode is Opcode.CUSTOM_CALL and kind.message.custom_call_target == "ConcatBitcast"


class DonatedBuffer(NamedTuple):
    """An output that takes over the buffer of a parameter."""

    output_index: ShapeIndex
    """Which array of the module's result."""
    parameter: HloInstruction
    parameter_index: ShapeIndex
    kind: str
    """`must-alias`, or `may-alias`: the output takes over the buffer only if the caller gives the argument away."""
    instruction: HloInstruction
    """The instruction that computes the output."""
    shape_index: ShapeIndex
    """Which array of that instruction's result."""

    @property
    def parameter_text(self) -> str:
        """The parameter's name, followed by the index of the array in it."""
        return self.parameter.name + (str(self.parameter_index) if self.parameter_index else "")


def donated_buffers(module: ModuleData) -> tuple[DonatedBuffer, ...]:
    """The outputs that take over parameters, in the order of the module. An alias that names no parameter is left out;
    XLA refuses it.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
    ... ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) a = f32[8] abs(p)
    ... ROOT t = (f32[8], f32[8]) tuple(n, a) }'''
    >>> [
    ...     (str(each.output_index), each.instruction.name, each.parameter_text)
    ...     for each in donated_buffers(HloModule.parse(text))
    ... ]
    [('{0}', 'n', 'p')]
    """
    return tuple(_donated(module))


def _donated(module: ModuleData) -> Iterator[DonatedBuffer]:
    if not module.head.input_output_alias.entries:
        return
    parameters, flow = module.entry.parameters, Flow(module)
    for alias in module.head.input_output_alias.entries:
        number = alias.parameter_number
        if 0 <= number < len(parameters):
            output = tuple(alias.output_shape_index)
            instruction, index = flow.memory(module.entry.root, output)
            yield DonatedBuffer(
                ShapeIndex(output),
                parameters[number],
                ShapeIndex(alias.parameter_shape_index),
                ALIAS_KINDS.text(alias.kind),
                instruction,
                ShapeIndex(index),
            )


class InstructionBuffer(NamedTuple):
    """One array of an instruction's result that has memory of its own."""

    instruction: HloInstruction
    shape_index: ShapeIndex
    """Where the array is in the result; empty where the result is an array."""
    shape: Shape

    def __str__(self) -> str:
        return self.instruction.name + (str(self.shape_index) if self.shape_index else "")


class ModuleBuffers(NamedTuple):
    """The buffers of a module, and the instructions that have none of their own."""

    buffers: tuple[InstructionBuffer, ...]
    """In the order of the module."""
    shared: dict[str, int]
    """Opcode → how many executed instructions have a result that shares the buffers of others, wholly or in part. The
    parameters of called computations count as "parameter".
    """
    without_memory: int
    """How many instructions have no buffer because they are fused or applied to elements."""
    donated: tuple[tuple[DonatedBuffer, Shape | None], ...] = ()
    """The outputs in the memory of parameters, each with the shape of the array that has no buffer for that reason. The
    shape is None where no array lacks a buffer: the output is the parameter, or the result of a loop that begins with
    the parameter.
    """


class Buffers:
    """Which results of a module, which must not change meanwhile, have memory of their own."""

    def __init__(self, module: ModuleData) -> None:
        self.donated = donated_buffers(module)
        self.taken = {
            (each.instruction, each.shape_index): each
            for each in self.donated
            if not operation_of(each.instruction.opcode).is_given
        }
        """(instruction, index in its result) → the donation by which that array is computed into the memory of a
        parameter. An output that is itself a parameter or a constant is not computed, and is left out.
        """

    def of(self, instruction: HloInstruction) -> tuple[InstructionBuffer, ...]:
        """The arrays of an instruction's result that have memory of their own, if the instruction's computation is
        executed.

        Tokens and opaques are left out, and so are results in the memory of parameters of the module. Of the parameters
        only those of the entry computation have buffers.
        """
        own, taken = own_buffers(instruction), self.taken
        return tuple([buffer for buffer in own if (instruction, buffer.shape_index) not in taken]) if taken else own


def own_buffers(instruction: HloInstruction) -> tuple[InstructionBuffer, ...]:
    """As `Buffers.of`, including results that share the memory of parameters of the module."""
    row = operation_of(instruction.opcode)
    if row.source is ResultSource.ARGUMENT:
        if instruction.computation is not instruction.computation.module.entry:
            return ()
    elif row.source is not ResultSource.COMPUTED or row.runs_called_instructions or joins_parts(instruction):
        return ()
    shape = instruction.shape
    if shape.is_array or shape.is_buffer:
        return () if instruction.output_operand_aliasing else (InstructionBuffer(instruction, _WHOLE, shape),)
    if not shape.is_tuple:
        return ()
    aliased = {tuple(alias.output_shape_index) for alias in instruction.output_operand_aliasing}
    return tuple(
        [
            InstructionBuffer(instruction, leaf.index, leaf.shape)
            for leaf in get_leaf_shapes(shape)
            if (leaf.shape.is_array or leaf.shape.is_buffer)
            and leaf.index[0] != row.repeated_operand
            and not any(leaf.index[: len(index)] == index for index in aliased)
        ]
    )


def module_buffers(module: ModuleData) -> ModuleBuffers:
    """The buffers of a module: those of `executed_computations`."""
    known = Buffers(module)
    taken = known.taken
    written: dict[DonatedBuffer, Shape] = {}
    buffers: list[InstructionBuffer] = []
    shared: Counter[str] = Counter()
    count = 0
    for computation in executed_computations(module):
        for instruction in computation.instructions:
            count += 1
            own = own_buffers(instruction)
            if taken:
                for buffer in own:
                    given = taken.get((instruction, buffer.shape_index))
                    if given is not None:
                        written[given] = buffer.shape
                own = tuple([buffer for buffer in own if (instruction, buffer.shape_index) not in taken])
            buffers += own
            arrays = instruction.shape.leaves() if instruction.shape.is_tuple else (instruction.shape,)
            if len(own) < sum([array.is_array or array.is_buffer for array in arrays]):
                shared[str(instruction.opcode)] += 1
    donated = tuple([(each, written.get(each)) for each in known.donated])
    total = sum([len(computation.instructions) for computation in module.computations])
    return ModuleBuffers(tuple(buffers), dict(shared), total - count, donated)
