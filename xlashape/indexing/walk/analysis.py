"""The rules applied to an instruction: attributes read, answers kept, runtime variables bound to the instructions that produce them.

Answers are filed under everything a rule can see (shapes, attributes, the output or operand asked about), so equal operations on equal shapes
are analysed once, in whichever module they stand.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from xlashape.errors import InvalidArgumentError, InvalidModuleError
from xlashape.hlo import HloInstruction
from xlashape.indexing import ops
from xlashape.indexing.answers.operand_indexing import OperandIndexing, OperandIndexingSet
from xlashape.indexing.answers.sources import ReplicaIndexing, RuntimeVariable
from xlashape.indexing.ops.build import Malformed, dims_of
from xlashape.indexing.ops.registry import (
    INPUT_TO_OUTPUT,
    OUTPUT_TO_INPUT,
    Access,
    Op,
    Registered,
    Row,
    Rows,
    Sparse,
    leaves,
)
from xlashape.indexing.walk.constants import fold_constants
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

MAX_HELD_SETS = 1 << 18
"""Sets of all answers that are kept. When there are more, all are forgotten: a custom call of n operands with n results has n² of them."""

MAX_KEPT_SETS = 1 << 5
"""Sets of an answer that is kept as it is. A tuple of n elements has n answers of n sets, and all but n of the n² are empty."""

EMPTY = OperandIndexingSet()
"""Of an array that is not accessed."""


class _Open(NamedTuple):
    """A set whose members are bound to the instruction that is asked about: some have runtime variables."""

    number: int
    row: Row


class _Kept(NamedTuple):
    """What is kept of an answer."""

    length: int
    """How many sets it has."""
    sets: dict[int, OperandIndexingSet]
    """Those that are not empty, by number."""
    open: tuple[_Open, ...]
    """Those that are bound to an instruction."""
    answer: Answer | None
    """The whole answer, where it holds for any instruction and is not too long to be kept."""


class Signature:
    """An operation in one direction, with all that its rule can see, and the answers so far by what was asked."""

    __slots__ = ("answers", "op", "registered", "unbounded")

    answers: dict[Any, _Kept]
    op: Op
    """What the rule sees."""
    registered: Registered
    unbounded: bool
    """Whether any array has a dimension without a bound."""

    def __init__(self, registered: Registered, shape: Shape, shapes: tuple[Shape, ...], attributes: Any) -> None:
        self.registered = registered
        self.op = Op.of(shape, shapes, attributes)
        self.unbounded = is_unbounded(shape) or any(map(is_unbounded, shapes))
        self.answers = {}


_signatures: dict[tuple[Any, ...], Signature] = {}
_sets: dict[int, tuple[Row, OperandIndexingSet]] = {}
"""Of rows that rules share, by the identity of the row, which is held here too."""
_held_sets = 0
_lock = Lock()


def forget() -> None:
    """Forgets every answer. Nothing but time depends on what is kept."""
    with _lock:
        _forget_signatures()
        _sets.clear()


def _forget_signatures() -> None:
    global _held_sets
    for one in _signatures.values():
        one.answers = {}  # whoever goes through a module holds the signature of the instruction it is at
    _signatures.clear()
    _held_sets = 0


def _keep(known: Signature, asked: Any, kept: _Kept) -> None:
    global _held_sets
    sets = 1 + len(kept.sets) + len(kept.open)
    spend(sets)
    with _lock:
        if _held_sets + sets > MAX_HELD_SETS:
            _forget_signatures()
            known.answers = {}
        _held_sets += sets
        known.answers[asked] = kept


def signature(instruction: HloInstruction, registered: Registered) -> Signature:
    """The signature that the instruction shares with all its equals."""
    key_of = registered.key
    key = (
        registered.number,
        instruction.shape,
        None if key_of is None else key_of(instruction.proto),
        *[operand.shape for operand in instruction.operands],
    )
    found = _signatures.get(key)
    return _new_signature(instruction, registered, key) if found is None else found


def _new_signature(instruction: HloInstruction, registered: Registered, key: tuple[Any, ...]) -> Signature:
    reader = registered.attributes
    if reader is None:
        attributes = None
    else:
        attributes = key[2] if reader is registered.key else reader(instruction.proto)
    made = Signature(registered, key[1], key[3:], attributes)
    with _lock:
        if len(_signatures) >= MAX_SIGNATURES:
            _forget_signatures()
        _signatures[key] = made
    return made


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
        kept = _kept(instruction, rows, op.operands, dims_of(op.outputs[output]))
        _keep(known, output, kept)
    return kept.answer or _bound(kept, instruction)


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
        targets = tuple([(shape,) for shape in op.outputs])
        kept = _kept(instruction, rows, targets, dims_of(op.operands[operand][leaf]))
        _keep(known, (operand, leaf), kept)
    return kept.answer or _bound(kept, instruction)


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


def is_unbounded(shape: Shape) -> bool:
    """Whether any array in it has a dimension without a bound."""
    return _has_unbounded(shape) if shape.tuple_shapes else UNBOUNDED_SIZE in shape.dimensions


@lru_cache(maxsize=1 << 12)
def _has_unbounded(shape: Shape) -> bool:
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


def _kept(
    instruction: HloInstruction, rows: Rows, targets: tuple[tuple[Shape, ...], ...], dims: tuple[int, ...]
) -> _Kept:
    """What is kept of a rule's answer. Its maps lead from arrays of the right rank to arrays of the right rank."""
    sets: dict[int, OperandIndexingSet] = {}
    open_: list[_Open] = []
    fits = len(rows) == len(targets)
    for number, row in rows.given.items() if isinstance(rows, Sparse) else enumerate(rows):
        if not row:
            continue
        free = True
        for access in row:
            found = access.map
            if fits and not found.is_undefined:
                target = dims_of(targets[number][access.leaf])
                fits = len(found.dims) == len(dims) and len(found.results) == len(target)
            free = free and not access.runtime
        if free:
            sets[number] = _set_of(row)
        else:
            open_.append(_Open(number, row))
    if not fits:
        raise InvalidModuleError(
            f"instruction {instruction.name!r} ({instruction.proto.opcode}) has operands that do not fit it"
        )
    if open_ or len(rows) > MAX_KEPT_SETS:
        return _Kept(len(rows), sets, tuple(open_), None)
    return _Kept(len(rows), sets, (), tuple([sets.get(number, EMPTY) for number in range(len(rows))]))


def _set_of(row: Row) -> OperandIndexingSet:
    """The set of a row without runtime variables; one for all that have the row."""
    known = _sets.get(id(row))
    if known is not None:
        return known[1]
    made = OperandIndexingSet([_plain(access) for access in row])
    with _lock:
        if len(_sets) >= MAX_SIGNATURES:
            _sets.clear()
        _sets[id(row)] = (row, made)
    return made


def _replica(access: Access) -> ReplicaIndexing | None:
    return None if access.replicas is None else ReplicaIndexing(*access.replicas)


def _plain(access: Access) -> OperandIndexing:
    return OperandIndexing(access.map, (), _replica(access), access.leaf, every=access.every)


def _bound(kept: _Kept, instruction: HloInstruction) -> Answer:
    answer = [EMPTY] * kept.length
    for number, known in kept.sets.items():
        answer[number] = known
    if not kept.open:
        return tuple(answer)
    operands = instruction.operands
    for number, row in kept.open:
        members: list[OperandIndexing] = []
        for access in row:
            if not access.runtime or access.map.is_known_empty:
                members.append(_plain(access))
                continue
            producers = tuple(
                [
                    RuntimeVariable(instruction, access.map, 0, is_position=True, bounds=var.bounds)
                    if source is None
                    else RuntimeVariable(
                        operands[source.operand], source.map, is_clamped=source.clamped, bounds=var.bounds
                    )
                    for source, var in zip(access.runtime, access.map.runtime, strict=True)
                ]
            )
            found = OperandIndexing(access.map, producers, _replica(access), access.leaf, every=access.every)
            members.append(fold_constants(found))
        answer[number] = OperandIndexingSet(members)
    return tuple(answer)
