"""The verifier's rules for asynchronous operations and transfers. Each start must be ended exactly once, each end must
belong to a start of its kind and fit it, and different transfers to the host must have different channels.

A start is an instruction that begins an operation (async-start, all-reduce-start, send, …), and an end one that waits
for its result (async-done, …). An async-update continues an operation. Copies, tuples and loops may pass the result of
a start on to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final

from xlashape.errors import XlashapeError
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.async_chain import find_origin
from xlashape.hlo.ops.asynchronous import check_end, check_state, check_update, is_state
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Result
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.verifier.module_rules import Problem, with_channel
from xlashape.shape.value.shape import compatible_shapes

_MAIN_THREAD: Final = "main"


def async_problems(module: HloModule, with_channel_0: Set[str]) -> Iterator[Problem]:
    """The problems of the asynchronous operations and the transfers of a module. `with_channel_0` has the names of the
    instructions whose text has `channel_id=0`.
    """
    states = _States(module, with_channel_0)
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.proto.opcode not in _ASYNCHRONOUS:
                continue
            try:
                problems = [*_uses(instruction, states), *_end_problems(instruction, states)]
            except XlashapeError:
                continue  # another rule reports an instruction that cannot be decoded
            for message in problems:
                yield Problem(computation.name, instruction.name, message)
    yield from _host_channels(module)
    for caller, computation in states.shared():
        message = f"calls {computation.name!r}, which an async-start runs; only asynchronous operations may call it"
        yield Problem(caller.computation.name, caller.name, message)


# -- starts ---------------------------------------------------------------------------------

_TRANSFERS: Final = (Opcode.SEND, Opcode.RECV)
_ENDS: Final[dict[str, tuple[Opcode, ...]]] = {
    Opcode.ALL_GATHER_START: (Opcode.ALL_GATHER_DONE,),
    Opcode.ALL_REDUCE_START: (Opcode.ALL_REDUCE_DONE,),
    Opcode.ASYNC_START: (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE),
    Opcode.ASYNC_UPDATE: (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE),
    Opcode.COLLECTIVE_PERMUTE_START: (Opcode.COLLECTIVE_PERMUTE_DONE,),
    Opcode.COPY_START: (Opcode.COPY_DONE,),
    Opcode.RECV: (Opcode.RECV_DONE,),
    Opcode.SEND: (Opcode.SEND_DONE,),
}
"""Opcode of a start or an async-update → the opcodes that may end or continue the operation."""
_HAND_ON: Final = frozenset((Opcode.COPY, Opcode.GET_TUPLE_ELEMENT, Opcode.OPT_BARRIER, Opcode.TUPLE, Opcode.WHILE))
"""The opcodes that may pass the result of a start on to its end."""
_STEPS: Final = frozenset((Opcode.ASYNC_START, Opcode.ASYNC_UPDATE))
"""The opcodes whose result is the state of an asynchronous operation."""
_STATE_USERS: Final = frozenset(
    (*_HAND_ON, Opcode.ASYNC_DONE, Opcode.ASYNC_UPDATE, Opcode.CALL, Opcode.CONDITIONAL, Opcode.DOMAIN)
)
"""The opcodes that may take the state of an asynchronous operation as an operand."""


def _uses(start: HloInstruction, states: _States) -> Iterator[str]:
    """Problems with the users of a start or an async-update."""
    opcode = start.proto.opcode
    if opcode in _STEPS:
        yield from _state_uses(start, states)
        return
    ends = _ENDS.get(opcode)
    if ends is None:
        return
    users = [user for user in start.users if opcode in _TRANSFERS or not _is_order(user)]
    if not users and not (opcode in _TRANSFERS and start.is_root and states.is_wrapped(start)):
        yield f"the {opcode} must be ended, found no user"
    elif len(users) > 1:
        yield f"the {opcode} must be ended once, found {len(users)} users"
    for user in users:
        if user.proto.opcode not in ends and user.proto.opcode not in _HAND_ON:
            what = " or ".join(ends)
            yield f"the {opcode} must be ended by {what} or handed on, found {user.proto.opcode} {user.name!r}"
            return


def _is_order(user: HloInstruction) -> bool:
    """Whether an instruction has operands only to run after them."""
    return user.proto.opcode == Opcode.CUSTOM_CALL and user.proto.custom_call_target == "control_dep"


def _state_uses(step: HloInstruction, states: _States) -> Iterator[str]:
    """Problems with the users of an async-start or async-update. Exactly one async-update or async-done must follow;
    the state may be passed on to it.
    """
    opcode = step.proto.opcode
    for user in step.users:
        if user.proto.opcode not in _STATE_USERS:
            yield (
                f"the {opcode} must be ended by async-update or async-done or handed on, found "
                f"{user.proto.opcode} {user.name!r}"
            )
            return
        if user.proto.opcode in _ENDS[opcode] and step in user.operands[1:]:
            yield (
                f"the {opcode} must be the first operand of {user.proto.opcode} {user.name!r}, found it as a "
                "further one"
            )
            return
    following = states.following(step)
    if len(following) > 1:
        names = " and ".join([repr(each.name) for each in following[:2]])
        yield f"the {opcode} must be ended once, found {names}"
    elif not following and not states.reaches_loop(step):
        yield f"the {opcode} must be ended by async-update or async-done, found none"
    yield from _wrapped(step)


def _wrapped(start: HloInstruction) -> Iterator[str]:
    """Checks that an asynchronous operation on the main thread wraps a single instruction."""
    if start.proto.opcode != Opcode.ASYNC_START or start.proto.async_execution_thread not in ("", _MAIN_THREAD):
        return
    for called in start.called_computations:
        others = [each for each in called.instructions if each.proto.opcode != Opcode.PARAMETER and not each.is_root]
        if others:
            yield f"its computation must have a root and parameters only, found {others[0].name!r}"


# -- ends -----------------------------------------------------------------------------------

_STARTS: Final[dict[str, Opcode]] = {
    **{end: start for start, ends in _ENDS.items() for end in ends if isinstance(start, Opcode)},
    Opcode.ASYNC_DONE: Opcode.ASYNC_START,
    Opcode.ASYNC_UPDATE: Opcode.ASYNC_START,
}
_ASYNCHRONOUS: Final = frozenset((*_ENDS, *_STARTS))


class _States:
    """Finds which steps of asynchronous operations belong together. It implements
    `xlashape.hlo.ops.async_chain.Graph` for the search from an end to its start.
    """

    def __init__(self, module: HloModule, with_channel_0: Set[str]) -> None:
        self.with_channel_0 = with_channel_0
        self._begun: dict[HloInstruction, HloInstruction | None] = {}
        self._following: dict[HloInstruction, list[HloInstruction]] = {}
        self._before: dict[HloInstruction, HloInstruction] = {}
        self._callers: dict[int, list[HloInstruction]] = {}
        for instruction in module.instructions():
            if instruction.proto.called_computation_ids:
                for called in instruction.called_computations:
                    self._callers.setdefault(called.index, []).append(instruction)
        self._find_following(module)

    def _find_following(self, module: HloModule) -> None:
        """Finds the steps that follow each async-start and async-update, and the step before each of these."""
        found: dict[HloInstruction, HloInstruction | None] = {}
        search = _Steps(self)
        for instruction in module.instructions():
            if instruction.proto.opcode in _ENDS[Opcode.ASYNC_START] and instruction.operands:
                before = find_origin(search, instruction.operands[0], found)
                if before is not None:
                    self._before[instruction] = before
                    self._following.setdefault(before, []).append(instruction)

    def following(self, step: HloInstruction) -> Sequence[HloInstruction]:
        """The async-updates and async-dones that take the state of an async-start or async-update."""
        return self._following.get(step, ())

    def before(self, step: HloInstruction) -> HloInstruction | None:
        """The async-start or async-update whose state an async-update or async-done takes."""
        return self._before.get(step)

    def reaches_loop(self, step: HloInstruction) -> bool:
        """Whether the state of a step is passed on to a loop, or is returned by the body of a loop."""
        left, seen = [step], {step}
        while left:
            each = left.pop()
            if each.proto.opcode == Opcode.WHILE or (each.is_root and self._is_body(each)):
                return True
            users = [user for user in each.users if user.proto.opcode in _HAND_ON and user not in seen]
            seen.update(users)
            left += users
        return False

    def _is_body(self, node: HloInstruction) -> bool:
        callers = self._callers.get(node.computation.index, ())
        return any(
            caller.proto.opcode == Opcode.WHILE and caller.called_computations[0] is node.computation
            for caller in callers
        )

    def opcode(self, node: HloInstruction) -> str:
        return node.proto.opcode

    def operands(self, node: HloInstruction) -> Sequence[HloInstruction]:
        return node.operands

    def tuple_index(self, node: HloInstruction) -> int:
        return node.proto.tuple_index

    def body_root(self, node: HloInstruction) -> HloInstruction | None:
        if node.proto.opcode == Opcode.PARAMETER:
            return node.computation.root
        called = node.called_computations
        return called[0].root if called else None

    def loop(self, node: HloInstruction) -> HloInstruction | None:
        callers = self._callers.get(node.computation.index, [])
        if len(callers) != 1 or callers[0].proto.opcode != Opcode.WHILE:
            return None
        called = callers[0].called_computations
        return callers[0] if called and called[0] == node.computation else None

    def shared(self) -> Iterator[tuple[HloInstruction, HloComputation]]:
        """(caller, computation) for each computation that an async-start runs and that an instruction other than an
        asynchronous step calls too.
        """
        for callers in self._callers.values():
            started = next((each for each in callers if each.proto.opcode == Opcode.ASYNC_START), None)
            if started is None:
                continue
            for caller in callers:
                if caller.proto.opcode not in (*_STEPS, Opcode.ASYNC_DONE):
                    yield caller, started.called_computations[0]

    def is_wrapped(self, node: HloInstruction) -> bool:
        """Whether an async-start runs the computation that an instruction is in."""
        callers = self._callers.get(node.computation.index, ())
        return any(caller.proto.opcode == Opcode.ASYNC_START for caller in callers)

    def is_origin(self, node: HloInstruction) -> bool:
        return node.proto.opcode in _ENDS and node.proto.opcode != Opcode.ASYNC_UPDATE

    def begun(self, end: HloInstruction) -> HloInstruction | None:
        """The start of the operation that an instruction ends or continues; None if the search finds none."""
        return find_origin(self, end.operands[0], self._begun)


class _Steps:
    """The graph of `_States` for the search for the previous step, which ends at an async-update too."""

    def __init__(self, states: _States) -> None:
        self.opcode, self.operands, self.tuple_index = states.opcode, states.operands, states.tuple_index
        self.body_root, self.loop = states.body_root, states.loop

    def is_origin(self, node: HloInstruction) -> bool:
        return node.proto.opcode in _STEPS


def _end_problems(end: HloInstruction, states: _States) -> Iterator[str]:
    """Problems of an instruction that ends or continues an operation."""
    opcode = end.proto.opcode
    start = _STARTS.get(opcode)
    if start is None or not end.operands:
        return
    given = end.operands[0]
    if opcode == Opcode.COPY_DONE:
        begun = given if given.proto.opcode == start else None
    elif start in _TRANSFERS:
        if given.proto.opcode == Opcode.GET_TUPLE_ELEMENT:
            return
        begun = given if given.proto.opcode == start else None
    else:
        begun = states.begun(end)
        if begun is not None and begun.proto.opcode != start:
            begun = None
    if begun is None:
        yield f"the {opcode} must end a {start}, found {given.proto.opcode} {given.name!r}"
        return
    if begun is given:
        problem = _transfer_problem(end, begun, states) or _collective_problem(end, begun, states)
        if problem:
            yield problem
    if start == Opcode.ASYNC_START:
        problem = _step_problem(end, begun, states.before(end) or begun)
        if problem:
            yield problem


def _step_problem(step: HloInstruction, begun: HloInstruction, before: HloInstruction) -> str | None:
    """The problem of an async-update or async-done; None if there is none. `begun` is the start of its operation, and
    `before` the previous step.
    """
    own, called = step.called_computations, begun.called_computations
    if len(called) != 1:
        return None
    if own and own[0] is not called[0]:
        return f"it runs {own[0].name!r}, {begun.name!r} has started {called[0].name!r}"
    shape = step.shape
    # XLA compares an update with its operand, and an async-done with the previous step.
    state = before.shape if step.proto.opcode == Opcode.ASYNC_DONE else step.operands[0].shape
    parameters = [parameter.shape for parameter in called[0].parameters]
    if not is_state(state):
        return f"it must take the state of an asynchronous operation, found {state}"
    if step.proto.opcode == Opcode.ASYNC_DONE:
        return check_end(state, shape, parameters, called[0].root.shape)
    if not is_state(shape):
        return None
    operands = [operand.shape for operand in step.operands[1:]]
    return check_update(state, shape, operands) or check_state(shape, parameters, called[0].root.shape)


_COLLECTIVES: Final[dict[str, Opcode]] = {
    Opcode.ALL_GATHER_DONE: Opcode.ALL_GATHER,
    Opcode.ALL_REDUCE_DONE: Opcode.ALL_REDUCE,
}
"""Opcode of an end → the opcode of the same operation in one instruction."""


def _collective_problem(done: HloInstruction, started: HloInstruction, states: _States) -> str | None:
    """The problem of a collective if its start and its end were one instruction; None if there is none."""
    if done.proto.opcode == Opcode.ALL_GATHER_DONE:
        gathered = started.shape.tuple_shapes[1:2]
        if gathered and not compatible_shapes(done.shape, gathered[0]):
            return f"its shape is {done.shape}, its start gathers {gathered[0]}"
    whole = _COLLECTIVES.get(done.proto.opcode)
    verify = None if whole is None else OPERATIONS[whole].verify
    try:
        if verify is not None:
            message = with_channel(started, states.with_channel_0)
            return verify(Result(message, [operand.shape for operand in started.operands], shape=done.shape))
    except XlashapeError:
        pass  # another rule reports a shape that cannot be decoded
    return None


def _transfer_problem(done: HloInstruction, started: HloInstruction, states: _States) -> str | None:
    if started.proto.opcode not in _TRANSFERS:
        return None
    of_done, of_start = done.proto.channel_id, started.proto.channel_id
    if of_done != of_start or (done.name in states.with_channel_0) != (started.name in states.with_channel_0):
        return f"ends channel {of_done}, {started.name!r} has started channel {of_start}"
    if done.proto.is_host_transfer != started.proto.is_host_transfer:
        return f"it and {started.name!r} must both transfer to the host or neither"
    return None


def _host_channels(module: HloModule) -> Iterator[Problem]:
    """Problems of transfers to or from the host that share a channel. Transfers may share one if `_transfer` is equal
    for them.
    """
    users: dict[int, HloInstruction] = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            proto = instruction.proto
            if proto.opcode in _TRANSFERS and proto.is_host_transfer and proto.channel_id:
                other = users.setdefault(proto.channel_id, instruction)
                if _transfer(other) != _transfer(instruction):
                    message = f"uses channel {proto.channel_id} of {other.name!r}"
                    yield Problem(computation.name, instruction.name, message)


def _transfer(instruction: HloInstruction) -> tuple[object, ...]:
    """The properties that transfers on one channel must have in common."""
    proto = instruction.proto
    taken = [operand.proto.shape for operand in instruction.operands]
    return proto.opcode, proto.shape, taken, dict(proto.frontend_attributes.map), proto.backend_config
