"""The bytes that an instruction reads and writes, by memory space. There are two counts: logical bytes, of the elements
alone, and padded bytes, of the buffers.

Most instructions read each operand once, even if it is their operand several times, and write their result. What an
operation does not touch does not count:

    slice, dynamic-slice, gather              as many elements of the operand as the result has, or as the operand has
                                              if these are fewer; the indices
    dynamic-update-slice                      the update, read and written; the indices. The rest stays where it is
    scatter                                   the indices, the updates; as many elements of the operand as the updates
                                              have, read and written
    send, outfeed                             the data, read
    recv                                      the data, written
    custom-call of a Pallas kernel for TPUs   each block of an operand or result as often as the kernel copies it, where
                                              that is known; else what the kernel states
    copy-start, all-reduce-start, …           as the operation itself; nothing at the `-done`
    async-start, while, call, conditional     nothing: the instructions of the computations that they call count
    parameter, constant, tuple, bitcast, …    nothing: no memory is read or written
    fusion                                    the docstring of `_fusion` has the rules

Padded bytes include the padding of tiles and, of an array with dynamic dimensions, the bytes that hold its sizes. For a
part of an array they are in proportion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from xlashape.base.caches import cached
from xlashape.base.math import ceil_div
from xlashape.hlo import HloInstruction, Opcode
from xlashape.hlo.flow import behind_bitcasts, joins_parts, replaces_a_part
from xlashape.hlo.ops.operation import MemoryTraffic, ReadPattern, ResultSource
from xlashape.hlo.ops.registry import operation_of
from xlashape.limits import spend
from xlashape.reports.cost.arithmetic import elements
from xlashape.reports.cost.custom_calls import stated_bytes
from xlashape.reports.cost.kernel_blocks import kernel_blocks
from xlashape.reports.cost.xla_traffic import WITHOUT_DATA, size_of
from xlashape.shape import Shape, shape_util


class SpaceTraffic(NamedTuple):
    """The bytes that one execution of an instruction reads and writes in one memory space."""

    space: int
    """As in the layout, `S(n)`: 0 is the device's main memory; on TPUs 1 is VMEM; 5 is the host's memory."""
    bytes_read: int
    bytes_written: int
    padded_bytes: int
    """Bytes read and written, with padding."""

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


class Traffic(NamedTuple):
    """The bytes that one execution of an instruction reads and writes. `padded_bytes` are both, with padding."""

    bytes_read: int = 0
    bytes_written: int = 0
    padded_bytes: int = 0
    spaces: tuple[SpaceTraffic, ...] = ()
    """By memory space, main memory first."""

    @property
    def main_bytes(self) -> int:
        """The bytes read and written in the device's main memory, with padding."""
        return sum([each.padded_bytes for each in self.spaces if each.space == 0])


class _Access(NamedTuple):
    """A number of elements of an array that are read or written."""

    shape: Shape
    elements: int
    is_write: bool


NO_TRAFFIC: Final = Traffic()


def traffic_of(instruction: HloInstruction) -> Traffic:
    """The bytes that one execution of an instruction reads and writes."""
    accesses = list(_accesses(instruction))
    if not accesses:
        return NO_TRAFFIC
    by_space: dict[int, list[int]] = {}
    for shape, count, is_write in accesses:
        logical, padded = bytes_of(shape, count)
        sums = by_space.setdefault(shape.layout.memory_space if shape.layout is not None else 0, [0, 0, 0])
        sums[is_write] += logical
        sums[2] += padded
    kernel = kernel_blocks(instruction)
    is_known = instruction.opcode != Opcode.CUSTOM_CALL or (kernel is not None and kernel.is_known)
    stated = None if is_known else stated_bytes(instruction)
    if stated is not None and by_space.keys() == {0}:
        written = min(by_space[0][1], stated)
        by_space[0] = [stated - written, written, stated]
    spaces = tuple([SpaceTraffic(space, *sums) for space, sums in sorted(by_space.items())])
    return Traffic(
        sum([each.bytes_read for each in spaces]),
        sum([each.bytes_written for each in spaces]),
        sum([each.padded_bytes for each in spaces]),
        spaces,
    )


# Without it, the cost of a model takes one and a half times as long: its layers repeat their shapes.
@cached(max_bytes=1 << 20, entry_bytes=512)
def bytes_of(array: Shape, count: int) -> tuple[int, int]:
    """The logical and the padded bytes of `count` elements of an array.

    >>> bytes_of(Shape.parse("f32[4,6]{1,0:T(8,128)}"), 12)
    (48, 2048)
    """
    whole = elements(array)
    if not whole or not count or array.is_unbounded_dynamic:
        return 0, 0
    bits = shape_util.element_size_in_bits(array)
    return ceil_div(bits * count, 8), ceil_div(size_of(array) * count, whole)


def _accesses(instruction: HloInstruction) -> Iterable[_Access]:
    """What one execution of an instruction reads and writes, by the rules in the module's docstring."""
    opcode = instruction.opcode
    row = operation_of(opcode)
    if row.traffic is MemoryTraffic.NOTHING or joins_parts(instruction):
        return []
    if opcode == Opcode.CUSTOM_CALL and instruction.details.custom_call_target in WITHOUT_DATA:
        return []
    if row.fuses_called_computation:
        return _fusion(instruction)
    kernel = kernel_blocks(instruction)
    if kernel is not None:
        results = [leaf for leaf in instruction.shape.leaves() if leaf.is_array]
        arrays = [*[operand.shape for operand in instruction.operands], *results]
        first = len(instruction.operands)
        moved = zip(arrays, kernel.moved, strict=True)
        return [_Access(shape, count, number >= first) for number, (shape, count) in enumerate(moved)]
    shapes = [operand.shape for operand in instruction.operands]
    others = [operand.shape for operand in dict.fromkeys(instruction.operands[1:])]
    result = instruction.shape
    if row.reads is ReadPattern.PART:
        read = min(elements(result), elements(shapes[0]))
        return [_Access(shapes[0], read, False), *_whole(others), *_written([result])]
    if opcode == Opcode.DYNAMIC_UPDATE_SLICE:
        return [*_whole(others), _Access(result, elements(shapes[1]), True)]
    if opcode == Opcode.SCATTER:
        return _scatter(shapes, [leaf for leaf in result.leaves() if leaf.is_array])
    if opcode in (Opcode.SEND, Opcode.OUTFEED):
        return _whole(shapes[:1])
    repeated = row.repeated_operand
    if repeated is not None and result.is_tuple:
        # (operand, result, …) or (result, operand, …), each an array or a tuple.
        results = [result.tuple_shapes[1 - repeated]] if len(result.tuple_shapes) > 1 else []
        return [*_whole([operand.shape for operand in dict.fromkeys(instruction.operands)]), *_written(results)]
    if opcode == Opcode.RECV:
        return _written(result.tuple_shapes[:1])
    return [*_whole([operand.shape for operand in dict.fromkeys(instruction.operands)]), *_written([result])]


def _arrays(shapes: Iterable[Shape], *, is_write: bool) -> list[_Access]:
    leaves = [leaf for shape in shapes for leaf in shape.leaves() if leaf.is_array]
    return [_Access(leaf, elements(leaf), is_write) for leaf in leaves]


def _whole(shapes: Iterable[Shape]) -> list[_Access]:
    return _arrays(shapes, is_write=False)


def _written(shapes: Iterable[Shape]) -> list[_Access]:
    return _arrays(shapes, is_write=True)


def _scatter(shapes: list[Shape], results: list[Shape]) -> list[_Access]:
    count = len(shapes) // 2
    found = _whole(shapes[count:])
    for operand, update, result in zip(shapes, shapes[count + 1 :], results, strict=False):
        touched = min(elements(update), elements(operand))
        found += [_Access(operand, touched, False), _Access(result, touched, True)]
    return found


# -- fusions --------------------------------------------------------------------------------


class _Fused(NamedTuple):
    """The instructions of a fusion, and of the fusions in it, which XLA's TPU compiler nests."""

    values: list[HloInstruction]
    """Each after its operands. The instructions of a fusion in the fusion come before it."""
    outer: dict[HloInstruction, HloInstruction]
    """A parameter of a fusion in the fusion → the operand that it is. A fusion in the fusion → what makes its
    result."""

    def behind(self, value: HloInstruction) -> HloInstruction:
        """The instruction that makes an array, behind bitcasts and the borders of fusions in the fusion."""
        found = behind_bitcasts(value)
        while found in self.outer:
            spend()
            found = behind_bitcasts(self.outer[found])
        return found


def _fusion(fusion: HloInstruction) -> list[_Access]:
    """What a fusion reads and writes: as many elements of each operand as it needs, and each output once.

    The readers of a value in the fusion decide how many of its elements are needed. Slices, gathers, elementwise
    operations, copies, transposes, reshapes and bitcasts need as many elements of their operand as are needed of their
    result. All other readers need the whole operand. The needs of several readers add up, but to no more than the whole
    operand. An output that updates an operand in place, also behind bitcasts, touches the updated elements alone.
    Constants are part of the code. The instructions of a fusion in the fusion count as if they were in the fusion.
    """
    if not fusion.called_computations:
        return [*_whole([operand.shape for operand in fusion.operands]), *_written([fusion.shape])]
    fused = _fused(fusion)
    outputs = _outputs(fusion)
    needed: Counter[HloInstruction] = Counter()
    found: list[_Access] = []
    updates = [_update_in_place(output, fused) for output in outputs]
    for output, update in zip(outputs, updates, strict=True):
        if update is None:
            needed[output] += elements(output.shape)
            found += _written([output.shape])
        else:
            needed[update] += 0
            found.append(_Access(output.shape, _updated(update), True))
    _need(fused, needed, {id(update) for update in updates})
    read = [needed[parameter] for parameter in fusion.called_computations[0].parameters]
    by_operand: dict[HloInstruction, int] = {}
    for operand, count in zip(fusion.operands, read, strict=False):
        by_operand[operand] = min(elements(operand.shape), by_operand.get(operand, 0) + count)
    for operand, count in by_operand.items():
        if operand.shape.is_array:
            found.append(_Access(operand.shape, count, False))
        elif count:
            found += _whole([operand.shape])
    return found


def updated_operands(instruction: HloInstruction) -> dict[int, int]:
    """Of outputs that a dynamic-update-slice makes in place, by number: the number of the operand that it updates. Of
    that operand nothing is read: what the update does not replace stays where it is."""
    if instruction.opcode == Opcode.DYNAMIC_UPDATE_SLICE:
        return {0: 0}
    if not operation_of(instruction.opcode).fuses_called_computation or not instruction.called_computations:
        return {}
    fused = _fused(instruction)
    found: dict[int, int] = {}
    for number, output in enumerate(_outputs(instruction)):
        update = _update_in_place(output, fused)
        if update is not None and update.opcode == Opcode.DYNAMIC_UPDATE_SLICE:
            found[number] = fused.behind(update.operands[0]).parameter_number
    return found


def _outputs(fusion: HloInstruction) -> list[HloInstruction]:
    """What makes the outputs of a fusion: its root, or the operands of a root that makes a tuple of them."""
    root = fusion.called_computations[0].root
    return list(root.operands) if operation_of(root.opcode).source is ResultSource.OPERANDS else [root]


def _fused(fusion: HloInstruction) -> _Fused:
    """The instructions of a fusion with a computation. A fusion in it that makes a tuple, or whose computation is
    called several times, stays one instruction, which reads its operands wholly."""
    first = fusion.called_computations[0]
    found = _Fused([], {})
    entered = {first}
    pending: list[tuple[Iterator[HloInstruction], HloInstruction | None]] = [
        (iter(_operands_first(first.instructions)), None)
    ]
    while pending:
        instructions, within = pending[-1]
        for value in instructions:
            called = value.called_computations[0] if value.called_computations else None
            if called is None or called in entered or not value.shape.is_array:
                found.values.append(value)
            elif operation_of(value.opcode).fuses_called_computation:
                entered.add(called)
                found.outer.update(zip(called.parameters, value.operands, strict=False))
                found.outer[value] = called.root
                pending.append((iter(_operands_first(called.instructions)), value))
                break
            else:
                found.values.append(value)
        else:
            pending.pop()
            if within is not None:
                found.values.append(within)
    return found


def _update_in_place(output: HloInstruction, fused: _Fused) -> HloInstruction | None:
    """The dynamic-update-slice or scatter that makes an output of a fusion in the memory of a parameter, maybe with
    bitcasts before and behind it; None where another instruction makes the output.
    """
    update = fused.behind(output)
    if not replaces_a_part(update) or not update.shape.is_array:
        return None
    written = operation_of(fused.behind(update.operands[0]).opcode)
    return update if written.source is ResultSource.ARGUMENT else None


def _updated(update: HloInstruction) -> int:
    """How many elements an update in place changes at most."""
    updates = update.operands[-1 if update.opcode == Opcode.SCATTER else 1]
    return min(elements(updates.shape), elements(update.shape))


def _need(fused: _Fused, needed: Counter[HloInstruction], in_place: set[int]) -> None:
    """How many elements of each value of a fusion are needed.

    `needed` has the numbers for the outputs, and gets those for all values. `in_place` has the ids (`id()`) of the
    updates in place.
    """
    # In this order users come before their operands, so that all needs of a value are known when it is looked at.
    for value in reversed(fused.values):
        spend()
        if value not in needed:
            continue
        count = min(needed[value], elements(value.shape))
        opcode, operands = value.opcode, value.operands
        row = operation_of(opcode)
        if value in fused.outer:
            needed[fused.outer[value]] += count
        elif id(value) in in_place:
            # A scatter combines its updates with the elements that are there, so it reads these.
            needed[operands[0]] += _updated(value) if opcode == Opcode.SCATTER else 0
            for operand in operands[1:]:
                needed[operand] += elements(operand.shape)
        elif row.reads is ReadPattern.PART:
            needed[operands[0]] += count
            for operand in operands[1:]:
                needed[operand] += elements(operand.shape)
        elif row.source is ResultSource.ELEMENT:
            needed[operands[0]] += elements(value.shape)
        elif row.reads is ReadPattern.EACH_ONCE or (
            operands and all(operand.shape.dimensions == value.shape.dimensions for operand in operands)
        ):
            is_same = row.reads is not ReadPattern.ANY
            for operand in dict.fromkeys(operands):
                needed[operand] += count if is_same else elements(operand.shape)
        else:
            for operand in dict.fromkeys(operands):
                needed[operand] += elements(operand.shape)


def _operands_first(instructions: tuple[HloInstruction, ...]) -> list[HloInstruction]:
    """The instructions, each after its operands: in the given order, if that has this property already."""
    position = {instruction: index for index, instruction in enumerate(instructions)}
    if all(position[operand] < index for index, each in enumerate(instructions) for operand in each.operands):
        return list(instructions)
    ordered: list[HloInstruction] = []
    open_operands = {each: len(set(each.operands)) for each in instructions}
    ready = [each for each in instructions if not open_operands[each]]
    while ready:
        each = ready.pop()
        ordered.append(each)
        for user in each.users:
            open_operands[user] -= 1
            if not open_operands[user]:
                ready.append(user)
    return ordered
