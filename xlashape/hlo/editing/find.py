"""Finds the instructions and computations that the arguments of an edit name, and checks that they may be used so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlashape.errors import InvalidArgumentError
from xlashape.hlo.ir import HloComputation, HloInstruction, ModuleData, without_percent
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.tokens import safe_name

Named = HloInstruction | str
"""An instruction, or its name."""


# -- instructions ------------------------------------------------------------------------------------


def owner_of(instruction: HloInstruction) -> HloComputation:
    """The computation of an instruction. Raises InvalidArgumentError if the instruction was deleted."""
    check_present(instruction.computation)
    if instruction.index < 0:
        raise InvalidArgumentError(f"instruction {instruction.name!r} was deleted", field="instruction")
    return instruction.computation


def within(computation: HloComputation, instruction: Named, field: str) -> HloInstruction:
    """An instruction of a computation, which may be given by its name. Raises NotFoundError if there is none, and
    InvalidArgumentError if it is in another computation, or was deleted."""
    if isinstance(instruction, str):
        found = computation.by_name().get(without_percent(instruction)) or computation.module.instruction(instruction)
    elif isinstance(instruction, HloInstruction):  # pyright: ignore[reportUnnecessaryIsInstance] # callers without types
        found = instruction
    else:
        raise InvalidArgumentError(
            f"{field} takes an instruction or its name, not {type(instruction).__name__}", field=field
        )
    owner = found.computation
    if owner is not computation:
        where = "another module" if owner.module is not computation.module else f"computation {owner.name!r}"
        raise InvalidArgumentError(f"{found.name!r} is in {where}, not in {computation.name!r}", field=field)
    if found.index < 0:
        raise InvalidArgumentError(f"instruction {found.name!r} was deleted", field=field)
    return found


def all_within(computation: HloComputation, instructions: Iterable[Named], field: str) -> tuple[HloInstruction, ...]:
    """Instructions of a computation, each as `within` finds it."""
    if isinstance(instructions, str):
        raise InvalidArgumentError(f"{field} takes a list of instructions or names, not text", field=field)
    if isinstance(instructions, HloInstruction):
        raise InvalidArgumentError(f"{field} takes a list of instructions or names, not one instruction", field=field)
    return tuple([within(computation, each, field) for each in instructions])


def check_not_parameter(instruction: HloInstruction) -> None:
    """Raises InvalidArgumentError for a parameter."""
    if instruction.opcode is Opcode.PARAMETER:
        raise InvalidArgumentError(f"{instruction.name!r} is a parameter: the computation's callers give it a value")


# -- computations ------------------------------------------------------------------------------------


def check_present(computation: HloComputation) -> None:
    """Raises InvalidArgumentError if a computation was removed from its module."""
    if computation.index < 0:
        raise InvalidArgumentError(f"computation {computation.name!r} was removed", field="computation")


def callee(module: ModuleData, computation: Any, field: str) -> HloComputation:
    """A computation that instructions of a module are to call, which may be given by its name. Raises NotFoundError if
    there is none, and InvalidArgumentError if it is in another module, was removed, or is the entry."""
    found = module.computation(computation) if isinstance(computation, str) else computation
    if not isinstance(found, HloComputation):
        raise InvalidArgumentError(f"{field} takes a computation or its name, not {type(found).__name__}", field=field)
    if found.module is not module:
        raise InvalidArgumentError(f"{found.name!r} is a computation of another module", field=field)
    check_present(found)
    if found is module.entry:
        raise InvalidArgumentError(f"{found.name!r} is the entry, which nothing may call", field=field)
    return found


def check_calls(caller: HloComputation, called: Iterable[HloComputation], field: str) -> None:
    """Raises InvalidArgumentError if `caller` cannot call one of the computations, because that one is `caller`, or
    calls it, directly or not."""
    for target in called:
        if target is caller:
            raise InvalidArgumentError(f"computation {caller.name!r} cannot call itself", field=field)
        if caller in _reached([target]):
            raise InvalidArgumentError(
                f"computation {target.name!r} calls {caller.name!r}, which cannot call it too", field=field
            )


def _reached(starts: Iterable[HloComputation]) -> set[HloComputation]:
    """The computations `starts` and those that they call, directly or not."""
    found: set[HloComputation] = set()
    pending = list(starts)
    while pending:
        each = pending.pop()
        if each not in found:
            found.add(each)
            pending += [target for instruction in each.instructions for target in instruction.called_computations]
    return found


def uncalled_computations(module: ModuleData) -> set[HloComputation]:
    """The computations that the entry does not call, directly or not."""
    return set(module.computations) - _reached([module.entry])


# -- names -------------------------------------------------------------------------------------------


def check_new_name(module: ModuleData, name: str) -> None:
    """Raises InvalidArgumentError if `name` is not a valid name, or if an instruction has it already."""
    check_name(name)
    if any(name in each.by_name() for each in module.computations):
        raise InvalidArgumentError(f"there is an instruction {name!r} already", field="name")


def check_name(name: str) -> None:
    """Raises InvalidArgumentError for a name that XLA would change."""
    # The check is for callers without types.
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"name takes text, not {type(name).__name__}", field="name")
    if not name or safe_name(name) != name:
        raise InvalidArgumentError(
            f"{name!r} is not a valid name: a letter or _, then letters, digits and _.-", field="name"
        )
