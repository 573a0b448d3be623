"""The bytes that XLA's HloCostAnalysis, of jaxlib 0.12.0.1, counts as accessed by an instruction. The rules were found
by running the analysis on single instructions.

The size of an array is that of its buffer: tiles and padding count, and 4 bytes for each dimension of an array of which
a dimension is dynamic. The size of a tuple is that of its table of pointers, 4 bytes for each element; a tuple that is
the result of an instruction counts as its arrays, without tables.

    most instructions                       each operand, as often as it occurs, and the result
    parameter, constant, bitcast, get-tuple-element, after-all, domain, add-dependency      nothing
    tuple                                   its table
    slice                                   twice the result
    dynamic-slice, gather                   twice the result, and the indices; of several scalar indices the first
    dynamic-update-slice                    twice the update, and the first index
    transpose that moves nothing in memory  nothing
    scatter                                 three times the updates, and the indices
    triangular-solve                        half of the matrix, the second operand, the result
    cholesky                                half of the matrix, read and written
    outfeed, infeed                         the data
    custom-call                             -1; an AllocateBuffer nothing
    while, call, conditional, async-start   nothing here: `program.py` adds the bytes of the computations that they call
    fusion                                  the docstring of `_fusion` has the rules
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.ops.operation import AsyncStep, MemoryTraffic
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.shape import Shape, shape_util, tiling

WITHOUT_DATA: Final = ("AllocateBuffer", "NopReturnToken")
"""The targets of custom calls that move nothing: the first one gives a loop of a TPU a buffer to fill, the other one
makes the instructions after it wait."""
_POINTER: Final = 4
_COUNTED: Final = frozenset((Opcode.OPT_BARRIER, Opcode.TUPLE))
"""Operations that move no data, and of which XLA counts bytes."""


def xla_bytes(instruction: HloInstruction) -> int:
    """The bytes of one instruction, without those of the computations that a loop, a conditional or a call executes."""
    opcode = instruction.opcode
    row = operation_of(opcode)
    if row.moves_no_data and opcode not in _COUNTED:
        return 0
    if row.is_given and row.traffic is MemoryTraffic.NOTHING:
        return 0
    if row.runs_called_instructions and row.async_step in (None, AsyncStep.START):
        return 0
    if row.fuses_called_computation:
        return _fusion(instruction)
    if opcode == Opcode.CUSTOM_CALL:
        return 0 if instruction.details.custom_call_target == WITHOUT_DATA[0] else -1
    operands = [operand.shape for operand in instruction.operands]
    result = instruction.shape
    if opcode == Opcode.TUPLE:
        return size_of(result)
    if opcode == Opcode.TRANSPOSE and shape_util.transpose_is_bitcast(
        operands[0], result, instruction.details.dimensions
    ):
        return 0
    if opcode == Opcode.SLICE:
        return 2 * size_of(result)
    if opcode == Opcode.DYNAMIC_SLICE:
        return 2 * size_of(result) + sum(map(size_of, operands[1:2]))
    if opcode == Opcode.GATHER:
        return 2 * size_of(result) + size_of(operands[1])
    if opcode == Opcode.DYNAMIC_UPDATE_SLICE:
        return 2 * size_of(operands[1]) + sum(map(size_of, operands[2:3]))
    if opcode == Opcode.SCATTER:
        arrays = len(operands) // 2
        return 3 * sum(map(size_of, operands[arrays + 1 :])) + size_of(operands[arrays])
    if opcode == Opcode.TRIANGULAR_SOLVE:
        return size_of(operands[0]) // 2 + size_of(operands[1]) + size_of(result)
    if opcode == Opcode.CHOLESKY:
        return 2 * (size_of(result) // 2)
    if opcode == Opcode.INFEED:
        return arrays_of(result)
    if opcode == Opcode.OUTFEED:
        return size_of(operands[0])
    return sum(map(size_of, operands)) + arrays_of(result)


def size_of(shape: Shape) -> int:
    """The bytes of a buffer as XLA's cost analysis counts them on a CPU.

    >>> [size_of(Shape.parse(text)) for text in ("f32[4,6]{1,0:T(8,128)}", "f32[<=4]", "(f32[9], s32[])")]
    [4096, 20, 8]
    """
    if shape.is_array and shape.layout is not None and shape.layout.tiles and shape.is_static:
        return tiling.physical_bytes(shape)
    return 0 if shape.is_unbounded_dynamic else shape_util.byte_size_of(shape, _POINTER, target="cpu")


def arrays_of(shape: Shape) -> int:
    """The bytes of all arrays of a result, without tables."""
    return sum([size_of(leaf) for leaf in shape.leaves()])


def _fusion(fusion: HloInstruction) -> int:
    """The bytes of a fusion: each operand as its readers in the fusion need it, constants of more than one element, and
    the result.

    A reader that is a slice or a dynamic-slice counts its own result, and a reader that updates the operand in place
    counts nothing. Each broadcast or reshape counts the whole operand; all other readers together count it once. An
    output that is a dynamic-update-slice counts its update.
    """
    if not fusion.called_computations:
        return sum([size_of(operand.shape) for operand in fusion.operands]) + arrays_of(fusion.shape)
    stand_in = stands_for(fusion)
    if stand_in is not None:
        return xla_bytes(stand_in)
    inner = fusion.called_computations[0]
    total = 0
    for parameter in inner.parameters:
        total += _parameter(parameter)
    for instruction in inner.instructions:
        if instruction.opcode == Opcode.CONSTANT and instruction.shape.is_array and _elements(instruction.shape) > 1:
            total += size_of(instruction.shape)
    root = inner.root
    outputs = root.operands if root.opcode == Opcode.TUPLE else (root,)
    for output in outputs:
        updates = output.opcode == Opcode.DYNAMIC_UPDATE_SLICE
        total += size_of(output.operands[1].shape) if updates else arrays_of(output.shape)
    return total


def stands_for(fusion: HloInstruction) -> HloInstruction | None:
    """The first gather or scatter in a fusion of kind kCustom: XLA counts the fusion as that. Otherwise None."""
    if fusion.details.fusion_kind != "kCustom" or not fusion.called_computations:
        return None
    inner = fusion.called_computations[0].instructions
    return next((each for each in inner if each.opcode in (Opcode.GATHER, Opcode.SCATTER)), None)


def _elements(shape: Shape) -> int:
    return shape_util.extent_product(shape, bounded_dynamic_ok=True)


def _parameter(parameter: HloInstruction) -> int:
    """The bytes that the readers of a fusion's parameter need of it. The elements of a tuple are added up."""
    if not parameter.shape.is_tuple:
        return _read(parameter)
    by_element = {each.details.tuple_index: each for each in parameter.users if each.opcode == Opcode.GET_TUPLE_ELEMENT}
    elements = range(len(parameter.shape.tuple_shapes or ()))
    return sum([_read(by_element.get(element, parameter)) for element in elements])


def _read(value: HloInstruction) -> int:
    """The bytes that the readers of a value in a fusion need of it, those in inner fusions included."""
    total = 0
    # How often the value is passed to each parameter of an inner fusion; then to the fusions in that, level by level.
    level = Counter([value])
    while level:
        below: Counter[HloInstruction] = Counter()
        for parameter, count in level.items():
            spend()
            own, passed = _read_here(parameter)
            total += count * own
            for each in passed:
                below[each] += count
        level = below
    return total


def _read_here(parameter: HloInstruction) -> tuple[int, list[HloInstruction]]:
    """The bytes that readers of a parameter need of it, without inner fusions, and the parameters of inner fusions that
    it is passed to.
    """
    total = 0
    passed: list[HloInstruction] = []
    whole = size_of(parameter.shape)
    seen_others = False
    for user in parameter.users:
        opcode = user.opcode
        if opcode == Opcode.FUSION and user.called_computations:
            parameters = user.called_computations[0].parameters
            pairs = zip(user.operands, parameters, strict=False)
            passed += [each for operand, each in pairs if operand is parameter]
        elif opcode == Opcode.SLICE or (opcode == Opcode.DYNAMIC_SLICE and user.operands[0] is parameter):
            total += arrays_of(user.shape)
        elif opcode == Opcode.DYNAMIC_UPDATE_SLICE and user.operands[0] is parameter:
            continue
        elif opcode in (Opcode.BROADCAST, Opcode.RESHAPE):
            total += whole
        elif not seen_others:
            seen_others = True
            total += whole
    return total, passed
