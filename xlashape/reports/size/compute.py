"""Computes the report: the buffers that `why` explains, or all results of one computation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.analysis.buffers import executed_computations, instruction_buffers
from xlashape.hlo.module import HloModule
from xlashape.limits import spend
from xlashape.reports.size.answer import SizeAnswer
from xlashape.reports.why.explain import why
from xlashape.reports.why.programs import ModuleMemory, Sizes, buffer_of, module_memory
from xlashape.reports.why.shapes import Buffer, ranked
from xlashape.shape import Shape, ShapeIndex, Target
from xlashape.shape.xla_util.shape_util import get_leaf_shapes

_ORDERS = ("padding", "bytes", "module")


def size(x: Any, *, target: Target | str | None = None, computation: str = "", order: str = "padding") -> SizeAnswer:
    """How many bytes the buffers of `x` take: a shape, a module, or anything else that `why` takes.

    target: as for `why`; with one, the tables of tuples count too. computation: of a module, only the instructions of this computation; of one
    that is fused or applied to elements all results count, as if they had memory. order: "padding", "bytes" or "module".

    Errors are those of `why`; NotFoundError for a computation that the module does not have.

    >>> answer = size("HloModule m ENTRY e { p = f32[3,5]{1,0:T(2,2)} parameter(0) ROOT n = f32[3,5] negate(p) }")
    >>> answer.count, answer.bytes, answer.padding_bytes, [(row.name, row.bytes) for row in answer]
    (2, 156, 36, [('p', 96), ('n', 60)])
    """
    if order not in _ORDERS:
        raise InvalidArgumentError(f"order is one of {', '.join(_ORDERS)}, not {order!r}", field="order")
    device = None if target is None else Target.of(target)
    if computation:
        return _of_computation(HloModule.of(x), computation, device, order)
    memory = why(x, target=device)
    if isinstance(memory, ModuleMemory):
        shared = sum(memory.shared.values())
        return SizeAnswer(memory, _ordered(memory.buffers, order), None, shared, memory.without_memory)
    # Without a target nobody says what a pointer takes.
    buffers = [one for one in memory.buffers if device is not None or one.shape is None or not one.shape.is_tuple]
    return SizeAnswer(memory, tuple(buffers))


def _ordered(buffers: Iterable[Buffer], order: str) -> tuple[Buffer, ...]:
    if order == "bytes":
        return tuple(sorted(buffers, key=lambda one: -1 if one.bytes is None else one.bytes, reverse=True))
    if order == "module":
        return tuple(sorted(buffers, key=lambda one: one.position))
    return tuple(ranked(buffers))


def _of_computation(module: HloModule, name: str, target: Target | None, order: str) -> SizeAnswer:
    chosen = module.computation(name)
    is_executed = chosen in executed_computations(module)
    known: dict[Shape, Sizes] = {}
    rows: list[Buffer] = []
    shared = 0
    for instruction in chosen.instructions:
        spend(16)
        if is_executed:
            arrays = [(each.shape_index, each.shape) for each in instruction_buffers(instruction)]
            shared += not arrays
        elif instruction.shape.is_tuple:
            arrays = [(leaf.index, leaf.shape) for leaf in get_leaf_shapes(instruction.shape)]
        else:
            arrays = [(ShapeIndex(), instruction.shape)]
        for index, shape in arrays:
            if shape.is_array or shape.is_buffer:
                rows.append(buffer_of(instruction, index, shape, target, known, len(rows)))
    return SizeAnswer(module_memory(module, target), _ordered(rows, order), name, shared)
