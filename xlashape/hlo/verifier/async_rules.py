"""The verifier's rules for asynchronous operations and transfers. Each start must be ended exactly once, each end must
belong to a start of its kind and fit it, and different transfers to the host must have different channels.

A start is an instruction that begins an operation (async-start, all-reduce-start, send, …), and an end one that waits
for its result (async-done, …). An async-update continues an operation. Copies, tuples and loops may pass the result of
a start on to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xlashape.errors import XlashapeError
from xlashape.hlo.async_start import async_start
from xlashape.hlo.module import HloComputation, HloInstruction, HloModule
from xlashape.hlo.ops.asynchronous import check_end, check_state, check_update, is_state
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Result
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.verifier.module_rules import Problem, with_channel
from xlashape.shape.value.shape import compatible_shapes

_MAIN_THREAD: Final = "main"


def async_problems(module: HloModule) -> Iterator[Problem]:
    """The problems of the asynchronous operations and the transfers of a module."""
    asynchronous = [each for each in module.instructions() if each.kind.opcode in _ASYNCHRONOUS]
    if not asynchronous:
        return
    states = _States(module, asynchronous)
    for instruction in asynchronous:
        try:
            problems = [*_uses(instruction, states), *_end_problems(instruction, states)]
        except XlashapeError:
            continue  # another rule reports an instruction that cannot be decoded
        for message in problems:
            yield Problem(instruction.computation.name, instruction.name, message)
    yield from _host_channels(asynchronous)
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
    opcode = start.opcode
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
        if user.opcode not in ends and user.opcode not in _HAND_ON:
            what = " or ".join(ends)
            yield f"the {opcode} must be ended by {what} or handed on, found {user.opcode} {user.name!r}"
            return


def _is_order(user: HloInstruction) -> bool:
    """Whether an instruction has operands only to run after them."""
    return user.opcode is Opcode.CUSTOM_CALL and user.details.custom_call_target == "control_dep"


def _state_uses(step: HloInstruction, states: _States) -> Iterator[str]:
    """Problems with the users of an async-start or async-update. Exactly one async-update or async-done must follow;
    the state may be passed on to it.
    """
    opcode = step.opcode
    for user in step.users:
        if user.opcode not in _STATE_USERS:
            yield (
                f"the {opcode} must be ended by async-update or async-done or handed on, found "
                f"{user.opcode} {user.name!r}"
            )
            return
        if user.opcode in _ENDS[opcode] and step in user.operands[1:]:
            yield (f"the {opcode} must be the first operand of {user.opcode} {user.name!r}, found it as a further one")
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
    if start.opcode is not Opcode.ASYNC_START or start.details.async_execution_thread not in ("", _MAIN_THREAD):
        return
    for called in start.called_computations:
        others = [each for each in called.instructions if each.opcode is not Opcode.PARAMETER and not each.is_root]
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
    """Finds which steps of asynchronous operations belong together."""

    def __init__(self, module: HloModule, asynchronous: Sequence[HloInstruction]) -> None:
        """`asynchronous` are the instructions of the module with opcodes of `_ASYNCHRONOUS`."""
        self._module = module
        self.with_channel_0 = frozenset(module.config.channels_0)
        """The names of the instructions whose text has `channel_id=0`."""
        self._begun: dict[HloInstruction, HloInstruction | None] = {}
        self._following: dict[HloInstruction, list[HloInstruction]] = {}
        self._before: dict[HloInstruction, HloInstruction] = {}
        found: dict[HloInstruction, HloInstruction | None] = {}
        for instruction in asynchronous:
            if instruction.opcode in _ENDS[Opcode.ASYNC_START] and instruction.operands:
                before = async_start(instruction.operands[0], found, begins=_is_step)
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
            if each.opcode is Opcode.WHILE or (each.is_root and self._is_body(each)):
                return True
            users = [user for user in each.users if user.opcode in _HAND_ON and user not in seen]
            seen.update(users)
            left += users
        return False

    def _is_body(self, node: HloInstruction) -> bool:
        return any(
            caller.opcode is Opcode.WHILE and caller.called_computations[0] is node.computation
            for caller in self._module.callers_of(node.computation)
        )

    def shared(self) -> Iterator[tuple[HloInstruction, HloComputation]]:
        """(caller, computation) for each computation that an async-start runs and that an instruction other than an
        asynchronous step calls too.
        """
        called = dict.fromkeys(called for each in self._module.instructions() for called in each.called_computations)
        for callers in map(self._module.callers_of, called):
            started = next((each for each in callers if each.opcode is Opcode.ASYNC_START), None)
            if started is None:
                continue
            for caller in callers:
                if caller.opcode not in (*_STEPS, Opcode.ASYNC_DONE):
                    yield caller, started.called_computations[0]

    def is_wrapped(self, node: HloInstruction) -> bool:
        """Whether an async-start runs the computation that an instruction is in."""
        return any(caller.opcode is Opcode.ASYNC_START for caller in self._module.callers_of(node.computation))

    def begun(self, end: HloInstruction) -> HloInstruction | None:
        """The start of the operation that an instruction ends or continues; None if the search finds none."""
        return async_start(end.operands[0], self._begun, begins=_is_start)


def _is_start(node: HloInstruction) -> bool:
    return node.opcode in _ENDS and node.opcode is not Opcode.ASYNC_UPDATE


def _is_step(node: HloInstruction) -> bool:
    return node.opcode in _STEPS


def _end_problems(end: HloInstruction, states: _States) -> Iterator[str]:
    """Problems of an instruction that ends or continues an operation."""
    opcode = end.opcode
    start = _STARTS.get(opcode)
    if start is None or not end.operands:
        return
    given = end.operands[0]
    if opcode is Opcode.COPY_DONE:
        begun = given if given.opcode == start else None
    elif start in _TRANSFERS:
        if given.opcode is Opcode.GET_TUPLE_ELEMENT:
            return
        begun = given if given.opcode == start else None
    else:
        begun = states.begun(end)
        if begun is not None and begun.opcode != start:
            begun = None
    if begun is None:
        yield f"the {opcode} must end a {start}, found {given.opcode} {given.name!r}"
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
    state = before.shape if step.opcode is Opcode.ASYNC_DONE else step.operands[0].shape
    parameters = [parameter.shape for parameter in called[0].parameters]
    if not is_state(state):
        return f"it must take the state of an asynchronous operation, found {state}"
    if step.opcode is Opcode.ASYNC_DONE:
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
    if done.opcode is Opcode.ALL_GATHER_DONE:
        gathered = started.shape.tuple_shapes[1:2]
        if gathered and not compatible_shapes(done.shape, gathered[0]):
            return f"its shape is {done.shape}, its start gathers {gathered[0]}"
    whole = _COLLECTIVES.get(done.opcode)
    verify = None if whole is None else OPERATIONS[whole].verify
    try:
        if verify is not None:
            message = with_channel(started, states.with_channel_0)
            return verify(Result(message, [operand.shape for operand in started.operands], shape=done.shape))
    except XlashapeError:
        pass  # another rule reports a shape that cannot be decoded
    return None


def _transfer_problem(done: HloInstruction, started: HloInstruction, states: _States) -> str | None:
    if started.opcode not in _TRANSFERS:
        return None
    of_done, of_start = done.channel, started.channel
    if of_done != of_start or (done.name in states.with_channel_0) != (started.name in states.with_channel_0):
        return f"ends channel {of_done}, {started.name!r} has started channel {of_start}"
    if done.details.is_host_transfer != started.details.is_host_transfer:
        return f"it and {started.name!r} must both transfer to the host or neither"
    return None


def _host_channels(asynchronous: Sequence[HloInstruction]) -> Iterator[Problem]:
    """Problems of transfers to or from the host that share a channel. Transfers may share one if `_transfer` is equal
    for them.
    """
    users: dict[int, HloInstruction] = {}
    for instruction in asynchronous:
        channel = instruction.channel
        if channel and instruction.opcode in _TRANSFERS and instruction.details.is_host_transfer:
            other = users.setdefault(channel, instruction)
            if _transfer(other) != _transfer(instruction):
                message = f"uses channel {channel} of {other.name!r}"
                yield Problem(instruction.computation.name, instruction.name, message)


def _transfer(instruction: HloInstruction) -> tuple[object, ...]:
    """The properties that transfers on one channel must have in common."""
    details = instruction.details
    taken = [operand.details.shape for operand in instruction.operands]
    return details.opcode, details.shape, taken, dict(details.frontend_attributes.map), details.backend_config
