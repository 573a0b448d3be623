"""Which instructions of a module are collectives, and which of them are one collective:

all-gather-start … all-gather-done          the start; its result is (operands, results, contexts)
async-start, calls=c … async-done           the instruction in c
fusions of a TPU with AsyncCollectiveStart … AsyncCollectiveDone, and those that compute meanwhile
                                            the instruction in the first fusion; each has a copy of it, with
                                            the same channel and the same frontend attribute `chain_id`
a fusion kCustom of an all-reduce and, as root, a dynamic-slice of it
                                            a reduce-scatter, whose result is the slice
send, recv                                  each by itself, unless the other side is the host
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from xlashape.base.math import ceil_div, product
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData
from xlashape.hlo.ops.exchange import REDUCE_SCATTER, ExchangeRule, GroupNumbers
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import AsyncStep, ResultSource
from xlashape.limits import spend
from xlashape.shape import Shape
from xlashape.shape.xla_util.shape_util import element_size_in_bits

_START: Final = "AsyncCollectiveStart"
_DONE: Final = "AsyncCollectiveDone"
_CHAIN: Final = "chain_id"


class Collective(NamedTuple):
    """One collective of a module."""

    instruction: HloInstruction
    """The instruction that says what is exchanged, in whichever computation."""
    exchange: ExchangeRule
    operand_bytes: int
    """The bytes of all operands of one device, without the padding of tiles."""
    result_bytes: int
    begin: HloInstruction
    """What begins it in a computation that is executed: the instruction itself, an async-start or a fusion."""
    end: HloInstruction | None
    """What waits for its end. None where `begin` does, and where it is in another computation."""
    parts: tuple[HloInstruction, ...]
    """All instructions that are this collective, but for those that only wait for its end."""
    is_in_branch: bool = False
    """Whether it is in a branch of a conditional."""

    @property
    def size(self) -> int:
        """The larger one of the bytes of all operands and of all results."""
        return max(self.operand_bytes, self.result_bytes)

    @property
    def is_asynchronous(self) -> bool:
        """Whether other instructions may run between its begin and its end."""
        return self.begin.kind.row.begins_asynchronously or self.end is not None


def find_collectives(module: ModuleData) -> list[Collective]:
    """The collectives that a module executes, in the order of its computations.

    >>> from xlashape.hlo import HloModule
    >>> text = '''HloModule m
    ... add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    ... ENTRY e { p = f32[8] parameter(0) start = f32[8] all-reduce-start(p), to_apply=add
    ...   ROOT d = f32[8] all-reduce-done(start) }'''
    >>> [(each.instruction.name, each.exchange.kind, each.size) for each in find_collectives(HloModule.parse(text))]
    [('start', 'all-reduce', 32)]
    """
    callers = _callers(module)
    found: list[Collective] = []
    chains: dict[tuple[object, ...], list[tuple[HloInstruction, HloInstruction]]] = defaultdict(list)
    for computation in [each for each in module.computations if each in callers]:
        spend(len(computation.instructions))
        caller = callers[computation]
        for instruction in computation.instructions:
            exchange = instruction.kind.row.exchange
            if exchange is None or instruction.kind.message.is_host_transfer:
                continue
            if caller is None or caller.kind.row.runs_called_instructions:
                found.append(_executed(instruction, exchange, caller))
                continue
            carrier = _outermost(caller, callers)
            chain = instruction.kind.message.frontend_attributes.map.get(_CHAIN)
            if chain is None:
                found.append(_fused(instruction, exchange, carrier))
            else:
                key = carrier.computation, instruction.opcode, instruction.channel, chain
                chains[key].append((instruction, carrier))
    for members in chains.values():
        found += _chain(members)
    in_branch = {each: _is_in_branch(each, callers) for each in {each.begin.computation for each in found}}
    found = [each._replace(is_in_branch=in_branch[each.begin.computation]) for each in found]
    positions = {each: number for number, each in enumerate(module.computations)}
    found.sort(key=lambda each: (positions[each.instruction.computation], each.instruction.index))
    return found


def _callers(module: ModuleData) -> dict[HloComputation, HloInstruction | None]:
    """Each computation that is executed or fused, and the first instruction that calls it; None for the entry."""
    callers: dict[HloComputation, HloInstruction | None] = {module.entry: None}
    pending = [module.entry]
    while pending:
        for instruction in [each for each in pending.pop().instructions if each.called_computations]:
            row = instruction.kind.row
            if row.fuses_called_computation or (
                row.runs_called_instructions and row.async_step in (None, AsyncStep.START)
            ):
                for called in instruction.called_computations:
                    if called not in callers:
                        callers[called] = instruction
                        pending.append(called)
    return callers


def _is_in_branch(computation: HloComputation, callers: dict[HloComputation, HloInstruction | None]) -> bool:
    caller = callers[computation]
    while caller is not None:
        if caller.kind.row.source is ResultSource.BRANCH:
            return True
        caller = callers[caller.computation]
    return False


def _outermost(fusion: HloInstruction, callers: dict[HloComputation, HloInstruction | None]) -> HloInstruction:
    """The fusion around all others that a fusion is in."""
    caller = callers[fusion.computation]
    while caller is not None and caller.kind.row.fuses_called_computation:
        fusion, caller = caller, callers[caller.computation]
    return fusion


def _executed(instruction: HloInstruction, exchange: ExchangeRule, caller: HloInstruction | None) -> Collective:
    """A collective that is an instruction of an executed computation, maybe that of an async-start."""
    is_wrapped = caller is not None and caller.kind.row.async_step is AsyncStep.START
    begin = caller if caller is not None and is_wrapped else instruction
    parts = (instruction, begin) if is_wrapped else (instruction,)
    end = _end_of(begin) if begin.kind.row.begins_asynchronously else None
    return Collective(instruction, exchange, *_sizes(instruction, exchange), begin, end, parts)


def _end_of(start: HloInstruction) -> HloInstruction | None:
    """The instruction of the same computation that ends what `start` begins."""
    step = start
    while not step.kind.row.ends_a_start:
        following = [each for each in step.users if each.kind.row.ends_a_start or each.kind.row.async_step]
        if not following:
            return None
        step = following[0]
    return step


def _fused(instruction: HloInstruction, exchange: ExchangeRule, carrier: HloInstruction) -> Collective:
    """A collective in a fusion: of an all-reduce that is then sliced, a reduce-scatter."""
    operands, results = _sizes(instruction, exchange)
    root = instruction.computation.root
    is_custom = carrier.kind.message.fusion_kind == "kCustom"
    if is_custom and root.opcode is Opcode.DYNAMIC_SLICE and root.operands[0] is instruction:
        exchange, results = REDUCE_SCATTER, _bytes(root.shape)
    return Collective(instruction, exchange, operands, results, carrier, None, (instruction, carrier))


def _chain(members: list[tuple[HloInstruction, HloInstruction]]) -> list[Collective]:
    """The collective of fusions that have the same channel and chain; each for itself if none of them begins one."""
    first = next((each for each in members if _root_target(each[0]) == _START), None)
    if first is None:
        return [_fused(instruction, _exchange(instruction), carrier) for instruction, carrier in members]
    instruction, begin = first
    end = next((carrier for each, carrier in members if _root_target(each) == _DONE), None)
    parts = [instruction, *[each for each, _ in members if each is not instruction], *[each for _, each in members]]
    exchange = _exchange(instruction)
    sizes = _sizes(instruction, exchange)
    return [Collective(instruction, exchange, *sizes, begin, end, tuple(dict.fromkeys(parts)))]


def _exchange(instruction: HloInstruction) -> ExchangeRule:
    exchange = instruction.kind.row.exchange
    assert exchange is not None
    return exchange


def _root_target(instruction: HloInstruction) -> str:
    return instruction.computation.root.kind.message.custom_call_target


def _sizes(instruction: HloInstruction, exchange: ExchangeRule) -> tuple[int, int]:
    """The bytes of all operands and of all results of a collective."""
    row, shape, operands = instruction.kind.row, instruction.shape, [each.shape for each in instruction.operands]
    slices = instruction.kind.message.dynamic_slice_sizes
    if exchange.numbers is GroupNumbers.PAIRS and slices and operands and operands[0].is_array:
        # It moves a part of the first operand into a part of the second one, which the other operands say.
        part = ceil_div(product(slices) * element_size_in_bits(operands[0]), 8)
        return part, part
    if exchange.is_one_sided or exchange.is_bound:
        # Tokens, offsets and sizes are operands, too.
        operands = operands[:1]
    if row.begins_asynchronously and shape.is_tuple:
        # (operands, results, contexts…) of a start; of a recv (result, context, token).
        if row.repeated_operand is not None:
            shape = shape.tuple_shapes[1 - row.repeated_operand] if len(shape.tuple_shapes) > 1 else shape
        elif exchange.is_one_sided:
            shape = shape.tuple_shapes[0]
    return sum([_bytes(each) for each in operands]), _bytes(shape)


def _bytes(shape: Shape) -> int:
    """The bytes of all arrays of a shape, without the padding of tiles. A dynamic dimension counts with its bound."""
    size = 0
    for leaf in shape.leaves() if shape.is_tuple else (shape,):
        if leaf.is_array and not leaf.is_unbounded_dynamic:
            size += ceil_div(product(leaf.dimensions) * element_size_in_bits(leaf), 8)
    return size
