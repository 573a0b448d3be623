"""The rules applied to an instruction: attributes read, answers kept, runtime variables bound to the instructions that produce them.

Answers are filed under everything a rule can see (shapes, attributes, the output or operand asked about), so equal operations on equal shapes
are analysed once, in whichever module they stand.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing import ops
from xlashape.indexing.build import Malformed, dims_of
from xlashape.indexing.constants import fold_constants
from xlashape.indexing.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.registry import INPUT_TO_OUTPUT, OUTPUT_TO_INPUT, Access, Op, Registered, Rows, leaves
from xlashape.indexing.sources import ReplicaIndexing, RuntimeVariable
from xlashape.limits import spend
from xlashape.shape import UNBOUNDED_SIZE, Shape
from xlashape.symbolic import IndexingMap

__all__ = [
    "EMPTY",
    "Answer",
    "Signature",
    "answer_from_output",
    "from_operand",
    "from_output",
    "leaf_count",
    "unknown_from_operand",
    "unknown_from_output",
]

Answer = tuple[OperandIndexingSet, ...]

_ = ops  # importing it registers the rules

MAX_SIGNATURES = 1 << 13
"""Different operations whose answers are kept. When there are more, all are forgotten."""

EMPTY = OperandIndexingSet()
"""Of an array that is not accessed."""


class _Kept(NamedTuple):
    rows: Rows
    bound: Answer | None
    """What the rows mean for any instruction; None where producers are to be bound."""


class Signature:
    """An operation in one direction, with all that its rule can see, and the answers so far by what was asked."""

    __slots__ = ("_op", "_unbounded", "answers", "attributes", "registered", "shape", "shapes")

    def __init__(
        self,
        registered: Registered,
        shape: Shape,
        shapes: tuple[Shape, ...],
        attributes: Hashable,
        answers: dict[Any, _Kept],
    ) -> None:
        self.registered = registered
        self.shape = shape
        self.shapes = shapes
        self.attributes = attributes
        self.answers = answers
        self._op: Op | None = None
        self._unbounded: bool | None = None

    @property
    def unbounded(self) -> bool:
        """Whether any array has a dimension without a bound."""
        if self._unbounded is None:
            self._unbounded = any(is_unbounded(shape) for shape in (self.shape, *self.shapes))
        return self._unbounded

    @property
    def op(self) -> Op:
        """What the rule sees."""
        if self._op is None:
            self._op = Op.of(self.shape, self.shapes, self.attributes)
        return self._op


_signatures: dict[tuple[Any, ...], Signature] = {}
_lock = Lock()


def signature(instruction: HloInstruction, registered: Registered) -> Signature:
    """The signature that the instruction shares with all its equals."""
    rule, reader = registered
    shape = instruction.shape
    shapes = tuple([operand.shape for operand in instruction.operands])
    attributes = None if reader is None else reader(instruction.proto)
    key = (rule, shape, shapes, attributes)
    found = _signatures.get(key)
    if found is None:
        found = Signature(registered, shape, shapes, attributes, {})
        with _lock:
            if len(_signatures) >= MAX_SIGNATURES:
                _signatures.clear()
            _signatures[key] = found
    return found


def from_output(instruction: HloInstruction, output: int, registered: Registered | None) -> Answer:
    """One set an operand, by the opcode's rule; unknown without one."""
    if registered is None:
        return unknown_from_output(instruction)
    return answer_from_output(instruction, output, signature(instruction, registered))


def answer_from_output(instruction: HloInstruction, output: int, known: Signature) -> Answer:
    """`from_output`, where the signature is known."""
    kept = known.answers.get(output)
    if kept is None:
        spend(1)
        op = known.op
        if not 0 <= output < len(op.outputs):
            raise InvalidArgumentError(
                f"{instruction.name} has no output {output}: it has {len(op.outputs)}", field="output"
            )
        if known.unbounded:
            return unknown_from_output(instruction)
        rows = _ruled(instruction, known.registered, op, output)
        dims = dims_of(op.outputs[output])
        _check_rows(instruction, rows, op.operands, dims)
        kept = known.answers[output] = _keep(rows)
    return kept.bound if kept.bound is not None else _bound(kept.rows, instruction)


def from_operand(instruction: HloInstruction, operand: int, leaf: int, registered: Registered | None) -> Answer:
    """One set for each leaf of the result, by the opcode's rule; unknown without one."""
    if registered is None:
        return unknown_from_operand(instruction)
    known = signature(instruction, registered)
    kept = known.answers.get((operand, leaf))
    if kept is None:
        spend(1)
        op = known.op
        if not 0 <= operand < len(op.operands):
            raise InvalidArgumentError(
                f"{instruction.name} has no operand {operand}: it has {len(op.operands)}", field="operand"
            )
        if not 0 <= leaf < len(op.operands[operand]):
            raise InvalidArgumentError(
                f"operand {operand} of {instruction.name} has no leaf {leaf}: it has {len(op.operands[operand])}",
                field="leaf",
            )
        if known.unbounded:
            return unknown_from_operand(instruction)
        rows = _ruled(instruction, known.registered, op, operand, leaf)
        dims = dims_of(op.operands[operand][leaf])
        _check_rows(instruction, rows, tuple([(shape,) for shape in op.outputs]), dims)
        kept = known.answers[operand, leaf] = _keep(rows)
    return kept.bound if kept.bound is not None else _bound(kept.rows, instruction)


def _keep(rows: Rows) -> _Kept:
    if any(access.runtime for row in rows for access in row):
        return _Kept(rows, None)
    return _Kept(
        rows, tuple([OperandIndexingSet([_plain(access) for access in row]) if row else EMPTY for row in rows])
    )


def rule_from_output(instruction: HloInstruction) -> Registered | None:
    """The rule of the instruction's opcode."""
    return OUTPUT_TO_INPUT.get(instruction.proto.opcode)


def rule_from_operand(instruction: HloInstruction) -> Registered | None:
    """The rule of the instruction's opcode."""
    return INPUT_TO_OUTPUT.get(instruction.proto.opcode)


def leaf_count(shape: Shape) -> int:
    """How many leaves a shape has."""
    return 1 if not shape.is_tuple else len(leaves(shape))


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


@lru_cache(maxsize=1 << 12)
def is_unbounded(shape: Shape) -> bool:
    """Whether any array in it has a dimension without a bound."""
    return any(UNBOUNDED_SIZE in dims_of(leaf) for leaf in leaves(shape))


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


def _check_rows(
    instruction: HloInstruction, rows: Rows, targets: tuple[tuple[Shape, ...], ...], dims: tuple[int, ...]
) -> None:
    """Maps lead from arrays of the right rank to arrays of the right rank."""
    fits = len(rows) == len(targets)
    for number, row in enumerate(rows):
        for access in row:
            found = access.map
            if fits and not found.is_undefined:
                target = dims_of(targets[number][access.leaf])
                fits = len(found.dims) == len(dims) and len(found.results) == len(target)
    if not fits:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) has operands that do not fit it"
        )


def _replica(access: Access) -> ReplicaIndexing | None:
    return None if access.replicas is None else ReplicaIndexing(*access.replicas)


def _plain(access: Access) -> OperandIndexing:
    return OperandIndexing(access.map, (), _replica(access), access.leaf, every=access.every)


def _bound(rows: Rows, instruction: HloInstruction) -> Answer:
    operands = instruction.operands
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
