"""Which results of a module's instructions are buffers in memory of their own, and which share those of others. XLA
decides this in its buffer assignment; here it is what follows from the opcodes alone.

>>> text = '''HloModule m
... fused { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
... ENTRY e { x = f32[8] parameter(0) f = f32[8] fusion(x), kind=kLoop, calls=fused
... ROOT t = (f32[8], f32[8]) tuple(f, x) }'''
>>> found = module_buffers(HloModule.parse(text))
>>> [str(buffer) for buffer in found.buffers], dict(found.shared), found.without_memory
(['x', 'f'], {'tuple': 1}, 2)

- An instruction of the entry computation, or of a computation that is executed instruction by instruction (the bodies
  and conditions of loops, branches, calls), has a buffer for each array of its result.
- Instructions that are fused or applied to elements (the computations of fusions, reductions, sorts, …) have none.
- Tuples and their elements, bitcasts, barriers, loops, branches, calls, and the ends of asynchronous operations share
  buffers: with their operands, or with the roots of what they call. Parameters of called computations share those of
  the caller. Outputs that the module says alias an operand share it.
- Outputs that take over the buffers of parameters, as `input_output_alias` says (JAX writes it for donated arguments),
  share those of the parameters. The result that is the output is followed back through tuples, bitcasts and loops to
  where it is computed.

The compiler shares more: buffers that are not live at the same time, results that are computed in place, branches of
which one runs. So the sum of all buffers is an upper bound, and not the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import operation_of
from xlashape.hlo.values.aliasing import ALIAS_KINDS
from xlashape.shape import Shape, ShapeIndex
from xlashape.shape.xla_util.shape_util import get_leaf_shapes

_PASSES: Final = frozenset(
    [Opcode.BITCAST, Opcode.OPT_BARRIER, Opcode.DOMAIN, Opcode.ADD_DEPENDENCY, Opcode.WHILE, Opcode.ALL_REDUCE_DONE]
)
"""Their result is their first operand, element by element. Of a loop: it works in the memory of its initial state."""

_ELEMENT_OF_START: Final = {Opcode.COPY_DONE: 0, Opcode.ALL_GATHER_DONE: 1, Opcode.COLLECTIVE_PERMUTE_DONE: 1}
"""Their result is this element of what the start gave."""


def joins_parts(instruction: HloInstruction) -> bool:
    """Whether an instruction gives arrays that lie side by side, its operands, the name of one array: the custom call
    by which TPU compilers end a copy that was made in parts. It moves no data."""
    return instruction.opcode == Opcode.CUSTOM_CALL and instruction.details.custom_call_target == "ConcatBitcast"


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
    """The outputs that take over parameters, in the order of the module. What names no parameter, which XLA refuses, is
    left out.

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


def _donated(module: HloModule) -> Iterator[DonatedBuffer]:
    parameters = module.entry.parameters if module.head.input_output_alias.entries else ()
    for alias in module.head.input_output_alias.entries:
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
    """The instruction whose result is the memory of the array at `index` of an instruction's result, and the array's
    index there.

    Instructions that choose (conditionals), call, or end other asynchronous operations are not looked through.

    >>> text = "HloModule m ENTRY e { p = f32[8] parameter(0) b = f32[2,4] bitcast(p) ROOT t = (f32[2,4]) tuple(b) }"
    >>> source_of(HloModule.parse(text).entry.root, (0,))
    (<HloInstruction 'p': parameter>, ())
    """
    while True:
        opcode, operands = instruction.opcode, instruction.operands
        aliases = [
            alias
            for alias in instruction.output_operand_aliasing
            if index[: len(alias.output_shape_index)] == tuple(alias.output_shape_index)
        ]
        if opcode == Opcode.TUPLE and index and index[0] < len(operands):
            instruction, index = operands[index[0]], index[1:]
        elif opcode == Opcode.GET_TUPLE_ELEMENT and operands:
            instruction, index = operands[0], (instruction.fields.tuple_index, *index)
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


class InstructionBuffer(NamedTuple):
    """One array of an instruction's result that has memory of its own."""

    instruction: HloInstruction
    shape_index: ShapeIndex
    """Where in the result it is; empty where the result is an array."""
    shape: Shape

    def __str__(self) -> str:
        return self.instruction.name + (str(self.shape_index) if self.shape_index else "")


class ModuleBuffers(NamedTuple):
    """The buffers of a module, and what has none."""

    buffers: tuple[InstructionBuffer, ...]
    """In the order of the module."""
    shared: dict[str, int]
    """By opcode, the executed instructions whose result shares the buffers of others, wholly or in part. The parameters
    of called computations are under "parameter".
    """
    without_memory: int
    """Instructions that are fused or applied to elements."""
    donated: tuple[tuple[DonatedBuffer, Shape | None], ...] = ()
    """The outputs in the memory of parameters, each with the array that has no buffer for that reason. None where no
    array would have one: the output is the parameter, or the result of a loop that begins with it.
    """


def executed_computations(module: HloModule) -> tuple[HloComputation, ...]:
    """The entry computation and those that it executes instruction by instruction, in the order of the module."""
    executed = {module.entry}
    pending = [module.entry]
    while pending:
        for instruction in pending.pop().instructions:
            if operation_of(instruction.fields.opcode).runs_called_instructions:
                for called in instruction.called_computations:
                    if called not in executed:
                        executed.add(called)
                        pending.append(called)
    return tuple([computation for computation in module.computations if computation in executed])


def instruction_buffers(instruction: HloInstruction) -> tuple[InstructionBuffer, ...]:
    """The arrays of an instruction's result that have memory of their own, if the instruction's computation is
    executed.

    Tokens and opaques are left out, and so are results in the memory of parameters of the module. Of the parameters
    only those of the entry computation have buffers.
    """
    own = _own_buffers(instruction)
    taken = taken_over(instruction.computation.module)
    return tuple([buffer for buffer in own if (instruction, buffer.shape_index) not in taken]) if taken else own


def _own_buffers(instruction: HloInstruction) -> tuple[InstructionBuffer, ...]:
    operation = operation_of(instruction.fields.opcode)
    if operation.moves_no_data or operation.runs_called_instructions or operation.ends_a_start:
        return ()
    if joins_parts(instruction):
        return ()
    if operation.opcode == Opcode.PARAMETER and instruction.computation is not instruction.computation.module.entry:
        return ()
    shape = instruction.shape
    if shape.is_array or shape.is_buffer:
        return () if instruction.output_operand_aliasing else (InstructionBuffer(instruction, ShapeIndex(), shape),)
    if not shape.is_tuple:
        return ()
    aliased = {tuple(alias.output_shape_index) for alias in instruction.output_operand_aliasing}
    return tuple(
        [
            InstructionBuffer(instruction, leaf.index, leaf.shape)
            for leaf in get_leaf_shapes(shape)
            if (leaf.shape.is_array or leaf.shape.is_buffer)
            and leaf.index[0] != operation.repeated_operand
            and not any(leaf.index[: len(index)] == index for index in aliased)
        ]
    )


def module_buffers(module: HloModule) -> ModuleBuffers:
    """The buffers of a module: those of `executed_computations`."""
    executed = executed_computations(module)
    taken = taken_over(module)
    written: dict[DonatedBuffer, Shape] = {}
    buffers: list[InstructionBuffer] = []
    shared: Counter[str] = Counter()
    count = 0
    for computation in executed:
        for instruction in computation.instructions:
            count += 1
            own = _own_buffers(instruction)
            for buffer in own if taken else ():
                given = taken.get((instruction, buffer.shape_index))
                if given is not None:
                    written[given] = buffer.shape
            own = tuple([buffer for buffer in own if (instruction, buffer.shape_index) not in taken]) if taken else own
            buffers += own
            arrays = instruction.shape.leaves() if instruction.shape.is_tuple else (instruction.shape,)
            if len(own) < sum([array.is_array or array.is_buffer for array in arrays]):
                shared[str(instruction.opcode)] += 1
    donated = tuple([(each, written.get(each)) for each in donated_buffers(module)])
    total = sum([len(computation.fields.instructions) for computation in module.computations])
    return ModuleBuffers(tuple(buffers), dict(shared), total - count, donated)


def taken_over(module: HloModule) -> dict[tuple[HloInstruction, ShapeIndex], DonatedBuffer]:
    """The arrays of results that are computed into the memory of a parameter, by instruction and index in its result.

    Parameters and constants that are outputs themselves are not among them: they are copied, or are the parameter.
    """
    if module.taken_over is None:
        module.taken_over = _taken_over(module)
    return module.taken_over


def _taken_over(module: HloModule) -> dict[tuple[HloInstruction, ShapeIndex], DonatedBuffer]:
    return {
        (each.instruction, each.shape_index): each
        for each in donated_buffers(module)
        if each.instruction.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT)
    }
