"""The rules that several instructions keep together: uses of asynchronous operations, fusions, channels, aliases of the entry. A part of
`xlashape.hlo.verifier`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xlashape.errors import UnsupportedError, XlashapeError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.math import product
from xlashape.shape import Shape
from xlashape.shape.value.equality import compatible_shapes

__all__ = ["Problem", "module_problems"]


class Problem(NamedTuple):
    """One broken rule, and where. A name is "" where the rule is one of the whole module or the whole computation."""

    computation: str
    instruction: str
    message: str

    def __str__(self) -> str:
        text = f"computation {self.computation!r}: " if self.computation else ""
        text += f"instruction {self.instruction!r}: " if self.instruction else ""
        return text + self.message


def module_problems(module: HloModule) -> Iterator[Problem]:
    """The problems of instructions with other instructions, and of the module's aliases and donors."""
    for computation in module.computations:
        yield from _uses(computation, is_entry=computation is module.entry)
        yield from _ends(computation, is_entry=computation is module.entry)
    yield from _fusions(module)
    yield from _host_channels(module)
    yield from _aliases(module)


# -- asynchronous operations ----------------------------------------------------------------

_ONE_USER: Final = frozenset((Opcode.COPY_START, Opcode.ASYNC_START, Opcode.ASYNC_UPDATE))
"""Operations that another ends. It must be one, though a tuple may carry what it takes."""
_ENDS: Final = frozenset((Opcode.COPY_DONE, Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE))
_HANDED_ON: Final = frozenset((Opcode.ASYNC_START, Opcode.ASYNC_UPDATE))
"""Operations whose state a loop may hand on: as the root of its body, they need no user."""


def _uses(computation: HloComputation, *, is_entry: bool) -> Iterator[Problem]:
    """Asynchronous operations of the computation that nothing ends, or that several instructions end."""
    for instruction in computation.instructions:
        opcode = instruction.proto.opcode
        if opcode not in _ONE_USER and opcode not in (Opcode.SEND, Opcode.RECV):
            continue
        try:
            users = [user.proto.opcode for user in instruction.users]
        except XlashapeError:
            continue  # a problem of the user
        needs_user = is_entry or opcode not in _HANDED_ON or not instruction.is_root
        if not users and needs_user:
            yield Problem(computation.name, instruction.name, f"the {opcode} must be ended, found no user")
        if opcode in _ONE_USER and sum(user in _ENDS for user in users) > 1:
            yield Problem(
                computation.name, instruction.name, f"the {opcode} must be ended once, found {len(users)} users"
            )
        if opcode in _HANDED_ON and Opcode.GET_TUPLE_ELEMENT in users:
            message = f"an element is taken of the {opcode}, which an async-done must end"
            yield Problem(computation.name, instruction.name, message)


_STARTS: Final[dict[str, Opcode]] = {
    Opcode.ALL_GATHER_DONE: Opcode.ALL_GATHER_START,
    Opcode.ALL_REDUCE_DONE: Opcode.ALL_REDUCE_START,
    Opcode.ASYNC_DONE: Opcode.ASYNC_START,
    Opcode.ASYNC_UPDATE: Opcode.ASYNC_START,
    Opcode.COLLECTIVE_PERMUTE_DONE: Opcode.COLLECTIVE_PERMUTE_START,
    Opcode.COPY_DONE: Opcode.COPY_START,
    Opcode.RECV_DONE: Opcode.RECV,
    Opcode.SEND_DONE: Opcode.SEND,
}
_TRANSFERS: Final = (Opcode.SEND, Opcode.RECV)


def _ends(computation: HloComputation, *, is_entry: bool) -> Iterator[Problem]:
    """Ends of operations that no operation has started, or another than they say."""
    for instruction in computation.instructions:
        opcode = instruction.proto.opcode
        start = _STARTS.get(opcode)
        if start is None or not instruction.operands:
            continue
        started = instruction.operands[0]
        if is_entry and started.proto.opcode == Opcode.PARAMETER:
            message = f"the {opcode} must end a {start}, found a parameter of the entry"
            yield Problem(computation.name, instruction.name, message)
        elif started.proto.opcode == start:
            problem = _transfer_problem(instruction, started) or _collective_problem(instruction, started)
            if problem:
                yield Problem(computation.name, instruction.name, problem)
        if opcode == Opcode.ASYNC_DONE:
            problem = _operand_count_problem(instruction)
            if problem:
                yield Problem(computation.name, instruction.name, problem)


def _operand_count_problem(done: HloInstruction) -> str | None:
    """What is wrong with the number of operands that a start and its updates bring together, where one takes the other's result."""
    given = 0
    started = done.operands[0]
    seen: set[int] = set()
    while started.proto.opcode == Opcode.ASYNC_UPDATE and started.operands and started.index not in seen:
        seen.add(started.index)
        given += len(started.operands) - 1
        started = started.operands[0]
    called = started.called_computations
    if started.proto.opcode != Opcode.ASYNC_START or len(called) != 1:
        return None
    given += len(started.operands)
    taken = len(called[0].parameters)
    return None if given >= taken else f"{called[0].name!r} takes {taken} operands, its start and updates bring {given}"


_COLLECTIVES: Final[dict[str, Opcode]] = {
    Opcode.ALL_GATHER_DONE: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_DONE: Opcode.ALL_REDUCE,
    Opcode.COLLECTIVE_PERMUTE_DONE: Opcode.COLLECTIVE_PERMUTE,
}
"""The operation that an end and its start are together."""


def _collective_problem(done: HloInstruction, started: HloInstruction) -> str | None:
    whole = _COLLECTIVES.get(done.proto.opcode)
    verify = None if whole is None else OPERATIONS[whole].verify
    try:
        if verify is not None:
            return verify(started.proto, done.shape, [operand.shape for operand in started.operands])
    except XlashapeError:
        pass  # a shape that cannot be decoded is a problem of its own
    return None


def _transfer_problem(done: HloInstruction, started: HloInstruction) -> str | None:
    if started.proto.opcode not in _TRANSFERS:
        return None
    of_done, of_start = done.proto.channel_id, started.proto.channel_id
    if of_done and of_start and of_done != of_start:
        return f"ends channel {of_done}, {started.name!r} has started channel {of_start}"
    if done.proto.is_host_transfer != started.proto.is_host_transfer:
        return f"it and {started.name!r} must both transfer to the host or neither"
    return None


def _host_channels(module: HloModule) -> Iterator[Problem]:
    """Transfers to the host and from it that use the channel of another."""
    users: dict[int, str] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            proto = instruction.proto
            if proto.opcode in _TRANSFERS and proto.is_host_transfer and proto.channel_id:
                other = users.setdefault(proto.channel_id, instruction.name)
                if other != instruction.name:
                    message = f"uses channel {proto.channel_id} of {other!r}"
                    yield Problem(computation.name, instruction.name, message)


# -- fusions --------------------------------------------------------------------------------


def _fusions(module: HloModule) -> Iterator[Problem]:
    """Fused computations that several fusions call, or that compute what nothing uses."""
    callers: Counter[int] = Counter()
    fused: dict[int, HloComputation] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.proto.opcode == Opcode.FUSION:
                for called in instruction.called_computations:
                    callers[called.index] += 1
                    fused[called.index] = called
    for index, computation in sorted(fused.items()):
        if callers[index] > 1:
            message = f"is that of {callers[index]} fusions; it must be that of one"
            yield Problem(computation.name, "", message)
        used = {operand for instruction in computation.instructions for operand in instruction.operands}
        for instruction in computation.instructions:
            if instruction not in used and not instruction.is_root and instruction.proto.opcode != Opcode.PARAMETER:
                yield Problem(computation.name, instruction.name, "nothing in its fusion uses it")


# -- buffers of the entry -------------------------------------------------------------------


def _aliases(module: HloModule) -> Iterator[Problem]:
    try:
        parameters = [parameter.shape for parameter in module.entry.parameters]
        result = module.entry.root.shape
    except XlashapeError:
        return  # the instruction whose shape cannot be decoded is a problem of its own
    aliased: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.proto.input_output_alias.entries:
        number, index = alias.parameter_number, tuple(alias.parameter_shape_index)
        output_index = tuple(alias.output_shape_index)
        given = _parameter_part(parameters, number, index)
        output = _part(result, output_index)
        if given is None or output is None:
            what = f"parameter {number} at {list(index)}" if given is None else f"output {list(output_index)}"
            yield Problem("", "", f"input_output_alias names {what}, which does not exist")
        elif (number, index) in aliased:
            yield Problem("", "", f"input_output_alias names parameter {number} at {list(index)} twice")
        elif not _same_bytes(given, output):
            yield Problem("", "", f"input_output_alias joins output {output} with parameter {number}, {given}")
        aliased.add((number, index))
    for donor in module.proto.buffer_donor.entries:
        number, index = donor.parameter_number, tuple(donor.parameter_shape_index)
        if _parameter_part(parameters, number, index) is None:
            yield Problem("", "", f"buffer_donor names parameter {number} at {list(index)}, which does not exist")
        elif (number, index) in aliased:
            yield Problem(
                "", "", f"buffer_donor names parameter {number} at {list(index)}, which an output has as its alias"
            )


def _same_bytes(lhs: Shape, rhs: Shape) -> bool:
    """Whether two buffers have the same size. An alias may join arrays of other types and dimensions."""
    if compatible_shapes(lhs, rhs):
        return True
    if not (lhs.is_array and rhs.is_array):
        return False
    try:
        bits = [product(shape.dimensions) * shape.element_type.bit_width for shape in (lhs, rhs)]
    except UnsupportedError:
        return False  # an element type of unknown width
    return bits[0] == bits[1]


def _parameter_part(parameters: Sequence[Shape], number: int, index: Sequence[int]) -> Shape | None:
    return _part(parameters[number], index) if 0 <= number < len(parameters) else None


def _part(shape: Shape, index: Sequence[int]) -> Shape | None:
    """The part of a shape at an index; None if it has none there."""
    for element in index:
        if not shape.is_tuple or not 0 <= element < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[element]
    return shape
