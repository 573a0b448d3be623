"""Terms: the values of the instructions of several modules, by what computes them from which values.

An instruction that two modules share has one value. Tuples, calls, fusions, copies, also asynchronous ones and those in
slices, and the steps of asynchronous operations are followed: they have no values of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, cast

from xlashape.evaluation.custom_calls import whole_of_slices
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.kind import Kind
from xlashape.hlo.ops.operation import ResultSource
from xlashape.shape import Shape

Term: TypeAlias = Any
"""The number of a value, or a tuple of terms."""

_ANY_LAYOUT: Final = frozenset((Opcode.BITCAST, Opcode.CUSTOM_CALL))
_PARTS_OF_STARTS: Final[dict[Any, int]] = {Opcode.COPY_DONE: 0, Opcode.ASYNC_DONE: 1}
"""The end of an asynchronous operation → which part of the result of its start it gives."""
_SKIPPED_FIELDS: Final = (
    "sharding", "frontend_attributes", "statistics_viz", "channel_id", "original_value", "backend_config",
)  # fmt: skip


class Ran(NamedTuple):
    """An instruction of a module, and what its value is."""

    instruction: HloInstruction
    term: Term
    operands: Sequence[Term]


class Terms:
    """The terms of modules. A class that derives from it says what the value of a new instruction is."""

    def __init__(self) -> None:
        self._by_key: dict[Any, Term] = {}
        self._signatures: dict[Any, bytes] = {}
        self._computations: dict[HloComputation, bytes] = {}
        self.instead: dict[HloInstruction, Term] = {}
        """Instructions → the terms that they have in the place of their own."""

    def made(self, instruction: HloInstruction, operands: list[Term]) -> Term:
        """The term of an instruction that no module had yet."""
        raise NotImplementedError

    def run(self, computation: HloComputation, arguments: Sequence[Term], log: list[Ran]) -> Term:
        """The term of the root. Instructions are put into `log` in the order in which they run."""
        terms: dict[HloInstruction, Term] = {}
        for instruction in computation.instructions:
            operands = [terms[operand] for operand in instruction.operands]
            if instruction.opcode is Opcode.PARAMETER:
                term = arguments[instruction.number]
            else:
                term = self.instead.get(instruction) if self.instead else None
                if term is None:
                    term = self._term(instruction, operands, terms, log)
                log.append(Ran(instruction, term, operands))
            terms[instruction] = term
        return terms[computation.root]

    def _term(
        self, instruction: HloInstruction, operands: list[Term], terms: Mapping[HloInstruction, Term], log: list[Ran]
    ) -> Term:
        row = instruction.kind.row
        opcode = instruction.opcode
        if opcode in (Opcode.FUSION, Opcode.CALL):
            return self.run(instruction.called_computations[0], operands, log)
        if row.source is ResultSource.OPERANDS:
            return tuple(operands)
        if row.source is ResultSource.ELEMENT:
            return operands[0][instruction.details.tuple_index]
        if opcode in (Opcode.COPY, Opcode.OPT_BARRIER):
            return operands[0]
        part = _PARTS_OF_STARTS.get(opcode)
        if part is not None:
            return operands[0][part]
        if opcode is Opcode.CUSTOM_CALL and instruction.details.custom_call_target == "ConcatBitcast":
            whole = whole_of_slices(instruction)
            if whole is not None:
                return terms[whole[2]]
        if opcode is Opcode.ASYNC_UPDATE:
            return operands[0]
        if opcode is Opcode.ASYNC_START:
            result = self.run(instruction.called_computations[0], operands, log)
            return (tuple(operands), result, *_context(instruction, operands))
        if opcode is Opcode.COPY_START:
            return (operands[0], operands[0], *_context(instruction, operands))
        key = (self.signature(instruction), tuple(operands))
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = self.made(instruction, operands)
        return found

    def signature(self, instruction: HloInstruction) -> bytes:
        """What an instruction computes from its operands."""
        kind = instruction.kind
        layouts = instruction.opcode in _ANY_LAYOUT or bool(instruction.called_computations)
        key: Any = kind
        if layouts:
            key = (kind, tuple([operand.kind for operand in instruction.operands]), instruction.called_computations)
        found = self._signatures.get(key)
        if found is None:
            digest = blake2b(_local(kind, layouts=layouts), digest_size=16)
            if layouts and not kind.message.constrain_layout:  # else the call says in which layouts it takes them
                digest.update(repr([str(operand.shape) for operand in instruction.operands]).encode())
            else:
                kinds = [o.shape.element_type.text for o in instruction.operands if o.shape.is_array]
                digest.update(",".join(kinds).encode())
            for computation in instruction.called_computations:
                digest.update(self._computation(computation))
            found = self._signatures[key] = digest.digest()
        return found

    def _computation(self, computation: HloComputation) -> bytes:
        found = self._computations.get(computation)
        if found is None:
            digest = blake2b(digest_size=16)
            places = {each: i for i, each in enumerate(computation.instructions)}
            for each in computation.instructions:
                digest.update(self.signature(each))
                digest.update(repr((each.number, each.is_root, [places[o] for o in each.operands])).encode())
            found = self._computations[computation] = digest.digest()
        return found


def _context(start: HloInstruction, operands: Sequence[Term]) -> list[Term]:
    """What stands for the contexts in the result of a start, which nothing reads."""
    some = next((leaf for operand in operands for leaf in leaves_of(operand)), ())
    return [some for _ in start.shape.tuple_shapes[2:]]


def arguments_of(computation: HloComputation, flat: Iterable[Term]) -> list[Term]:
    """The terms of the parameters, of those of their arrays in order."""
    rest = iter(flat)

    def nested(shape: Shape) -> Term:
        return tuple([nested(part) for part in shape.tuple_shapes]) if shape.is_tuple else next(rest)

    return [nested(parameter.shape) for parameter in computation.parameters]


def by_name(log: Iterable[Ran]) -> dict[tuple[str, int], int]:
    """The values by the names of instructions and the numbers of their arrays."""
    return {(ran.instruction.name, i): value for ran in log for i, value in enumerate(leaves_of(ran.term))}


def leaves_of(term: Term) -> list[int]:
    """The numbers of the values in a term."""
    if not isinstance(term, tuple):
        return [term]
    return [leaf for part in cast("tuple[Term, ...]", term) for leaf in leaves_of(part)]


def _local(kind: Kind, *, layouts: bool) -> bytes:
    message = type(kind.message)()
    message.CopyFrom(kind.message)
    for name in _SKIPPED_FIELDS:
        if name != "backend_config" or message.opcode != "custom-call":
            message.ClearField(name)
    if not layouts:
        _clear_layouts(message.shape)
        if message.HasField("literal"):
            return message.SerializeToString(deterministic=True)
    return message.SerializeToString(deterministic=True)


def _clear_layouts(shape: Any) -> None:
    shape.ClearField("layout")
    for part in shape.tuple_shapes:
        _clear_layouts(part)
