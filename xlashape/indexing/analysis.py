"""The rules applied to an instruction: attributes read, answers kept, runtime variables bound to the instructions that produce them.

Answers are filed under everything a rule can see (shapes, attributes, the output or operand asked about), so equal operations on equal shapes
are analysed once, in whichever module they stand.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing import ops
from xlashape.indexing.build import Malformed, dims_of
from xlashape.indexing.constants import fold_constants
from xlashape.indexing.operand_indexing import OperandIndexing, OperandIndexingSet, ReplicaIndexing, RuntimeVariable
from xlashape.indexing.registry import INPUT_TO_OUTPUT, OUTPUT_TO_INPUT, Access, Op, Registered, Rows
from xlashape.limits import spend
from xlashape.shape import UNBOUNDED_SIZE, Shape
from xlashape.symbolic import IndexingMap

__all__ = ["Answer", "from_operand", "from_output", "leaf_count", "unknown_from_operand", "unknown_from_output"]

Answer = tuple[OperandIndexingSet, ...]

_ = ops  # importing it registers the rules

MAX_ANSWERS = 1 << 14
"""Answers that are kept. When there are more, all are forgotten."""


class _Kept(NamedTuple):
    rows: Rows
    bound: Answer | None
    """What the rows mean for any instruction; None where producers are to be bound."""


_kept: dict[tuple[Any, ...], _Kept] = {}
_lock = Lock()


def _keep(key: tuple[Any, ...], rows: Rows) -> _Kept:
    bound = None
    if not any(access.runtime for row in rows for access in row):
        bound = tuple([OperandIndexingSet([_plain(access) for access in row]) for row in rows])
    kept = _Kept(rows, bound)
    with _lock:
        if len(_kept) >= MAX_ANSWERS:
            _kept.clear()
        _kept[key] = kept
    return kept


def from_output(instruction: HloInstruction, output: int, registered: Registered | None) -> Answer:
    """One set an operand, by the opcode's rule; unknown without one."""
    proto = instruction.proto
    operands = instruction.operands
    shape = instruction.shape
    shapes = tuple([operand.shape for operand in operands])
    if registered is None:
        return unknown_from_output(instruction)
    rule, reader = registered
    key = (rule, output, shape, shapes, None if reader is None else reader(proto))
    kept = _kept.get(key)
    if kept is None:
        spend(1)
        op = Op.of(shape, shapes, key[4])
        if not 0 <= output < len(op.outputs):
            raise InvalidArgumentError(
                f"{instruction.name} has no output {output}: it has {len(op.outputs)}", field="output"
            )
        if _unbounded(op):
            return unknown_from_output(instruction)
        rows = _ruled(instruction, registered, op, output)
        _check_rows(
            instruction, rows, len(operands), dims_of(op.outputs[output]), lambda i, leaf: dims_of(op.operands[i][leaf])
        )
        kept = _keep(key, rows)
    return kept.bound if kept.bound is not None else _bound(kept.rows, operands, instruction)


def from_operand(instruction: HloInstruction, operand: int, leaf: int, registered: Registered | None) -> Answer:
    """One set for each leaf of the result, by the opcode's rule; unknown without one."""
    operands = instruction.operands
    shape = instruction.shape
    shapes = tuple([one.shape for one in operands])
    if registered is None:
        return unknown_from_operand(instruction)
    rule, reader = registered
    key = (rule, (operand, leaf), shape, shapes, None if reader is None else reader(instruction.proto))
    kept = _kept.get(key)
    if kept is None:
        spend(1)
        op = Op.of(shape, shapes, key[4])
        if not 0 <= operand < len(operands):
            raise InvalidArgumentError(
                f"{instruction.name} has no operand {operand}: it has {len(operands)}", field="operand"
            )
        if not 0 <= leaf < len(op.operands[operand]):
            raise InvalidArgumentError(
                f"operand {operand} of {instruction.name} has no leaf {leaf}: it has {len(op.operands[operand])}",
                field="leaf",
            )
        if _unbounded(op):
            return unknown_from_operand(instruction)
        rows = _ruled(instruction, registered, op, operand, leaf)
        _check_rows(
            instruction, rows, len(op.outputs), dims_of(op.operands[operand][leaf]), lambda i, _: dims_of(op.outputs[i])
        )
        kept = _keep(key, rows)
    return kept.bound if kept.bound is not None else _bound(kept.rows, operands, instruction)


def rule_from_output(instruction: HloInstruction) -> Registered | None:
    """The rule of the instruction's opcode."""
    return OUTPUT_TO_INPUT.get(instruction.proto.opcode)


def rule_from_operand(instruction: HloInstruction) -> Registered | None:
    """The rule of the instruction's opcode."""
    return INPUT_TO_OUTPUT.get(instruction.proto.opcode)


def leaf_count(shape: Shape) -> int:
    """How many leaves a shape has."""
    return 1 if not shape.is_tuple else sum(1 for _ in shape.leaves())


_UNKNOWN = OperandIndexing(IndexingMap.undefined())


def unknown_from_output(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of every operand."""
    return tuple([_unknown_leaves(operand.shape) for operand in instruction.operands])


def unknown_from_operand(instruction: HloInstruction) -> Answer:
    """UNDEFINED for every leaf of the result."""
    return (OperandIndexingSet([_UNKNOWN]),) * leaf_count(instruction.shape)


def _unknown_leaves(shape: Shape) -> OperandIndexingSet:
    return OperandIndexingSet(
        [OperandIndexing(IndexingMap.undefined(), leaf=leaf) for leaf in range(leaf_count(shape))]
    )


def _unbounded(op: Op) -> bool:
    return any(UNBOUNDED_SIZE in dims_of(shape) for leaves in (op.outputs, *op.operands) for shape in leaves)


def _ruled(instruction: HloInstruction, registered: Registered, op: Op, *asked: int) -> Rows:
    try:
        return registered.rule(op, *asked)
    except Malformed as error:
        message = str(error)
    except (IndexError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, (InvalidArgumentError,)):
            raise
        message = "has operands or attributes that do not fit it"
    raise InvalidModuleError(f"instruction {instruction.name!r} ({instruction.proto.opcode}) {message}")


def _check_rows(instruction: HloInstruction, rows: Rows, count: int, dims: tuple[int, ...], target: Any) -> None:
    """Maps lead from arrays of the right rank to arrays of the right rank."""
    fits = len(rows) == count
    for number, row in enumerate(rows):
        for access in row:
            found = access.map
            if fits and not found.is_undefined:
                fits = len(found.dims) == len(dims) and len(found.results) == len(target(number, access.leaf))
    if not fits:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) has operands that do not fit it"
        )


def _replica(access: Access) -> ReplicaIndexing | None:
    return None if access.replicas is None else ReplicaIndexing(*access.replicas)


def _plain(access: Access) -> OperandIndexing:
    return OperandIndexing(access.map, (), _replica(access), access.leaf, every=access.every)


def _bound(rows: Rows, operands: tuple[HloInstruction, ...], instruction: HloInstruction) -> Answer:
    sets: list[OperandIndexingSet] = []
    for row in rows:
        members: list[OperandIndexing] = []
        for access in row:
            if not access.runtime or access.map.is_known_empty:
                members.append(_plain(access))
                continue
            producers = tuple(
                [
                    RuntimeVariable(instruction, access.map, 0, is_position=True)
                    if source is None
                    else RuntimeVariable(operands[source.operand], source.map, is_clamped=source.clamped)
                    for source in access.runtime
                ]
            )
            found = OperandIndexing(access.map, producers, _replica(access), access.leaf, every=access.every)
            members.append(fold_constants(found))
        sets.append(OperandIndexingSet(members))
    return tuple(sets)
