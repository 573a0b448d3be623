"""Machine: runs a computation instruction by instruction, on all devices in step.

A value is a NumPy array, or a tuple of values. The domain of the machine (`xlashape.evaluation.domains`) says what
floats are. A spread is a list with the value of each device, or with one value if all devices have the same.
`evaluates` registers the function that evaluates an opcode; the files beside this one have them, a file for each
family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from xlashape.errors import InvalidArgumentError, UnsupportedError
from xlashape.evaluation.domains.domain import FloatDomain
from xlashape.hlo import HloComputation, HloInstruction, Opcode
from xlashape.hlo.kind import Kind
from xlashape.limits import check, spend
from xlashape.shape import Shape

_F = TypeVar("_F", bound=Callable[..., Any])

Array: TypeAlias = "np.ndarray[Any, Any]"
Value: TypeAlias = Any
"""An array, or a tuple of values."""
Spread: TypeAlias = list[Value]
"""The value of each device, or one value that all devices have."""
Evaluate: TypeAlias = "Callable[[Machine, HloInstruction, list[Value]], Value]"
Together: TypeAlias = "Callable[[Machine, HloInstruction, list[Spread]], Spread]"
Outside: TypeAlias = Callable[[HloInstruction, list[Spread]], Spread]

MAX_ELEMENTS: Final = 1 << 28
"""The most elements of one result."""
ELEMENTS_OF_A_STEP: Final = 1 << 12
"""Elements of results that count as a step of a budget, as an instruction does."""

EVALUATORS: dict[str, Evaluate] = {}
"""Opcode → the function that evaluates it on one device."""
TOGETHER: dict[str, Together] = {}
"""Opcode → the function that evaluates it on all devices: it exchanges data, or calls computations that may."""


def registers(table: dict[str, _F]) -> Callable[..., Callable[[_F], _F]]:
    """A decorator that puts a function into a table under the names that it is given."""

    def named(*names: str) -> Callable[[_F], _F]:
        def register(function: _F) -> _F:
            table.update(dict.fromkeys(names, function))
            return function

        return register

    return named


evaluates = registers(EVALUATORS)
"""Registers a function that evaluates opcodes: from machine, instruction and values of the operands to a value."""
evaluates_together = registers(TOGETHER)
"""As `evaluates`, for functions from the spreads of the operands to a spread."""


class PlannedStep(NamedTuple):
    """An instruction of a computation that runs."""

    instruction: HloInstruction
    operands: list[int]
    argument: int | None
    """The number of a parameter."""
    is_fixed: bool
    """Whether the value is the same in each run."""
    last: list[int]
    """The instructions whose values are not needed after this one."""


def _plan(computation: HloComputation) -> list[PlannedStep]:
    last = {operand: user for user in computation.instructions for operand in user.operands}
    found: list[PlannedStep] = []
    for instruction in computation.instructions:
        is_parameter = instruction.opcode is Opcode.PARAMETER
        done = [o.index for o in dict.fromkeys(instruction.operands) if last[o] is instruction and not o.is_root]
        is_fixed = instruction.opcode in (Opcode.CONSTANT, Opcode.IOTA)
        argument = instruction.number if is_parameter else None
        found.append(PlannedStep(instruction, [o.index for o in instruction.operands], argument, is_fixed, done))
    return found


def _evaluators(kind: Kind) -> tuple[Evaluate | None, Together | None]:
    """What evaluates instructions of a kind, on one device or on all."""
    if kind.shape.is_array:
        check("evaluated elements", int(np.prod(kind.shape.dimensions, dtype=np.float64)), MAX_ELEMENTS)
    return EVALUATORS.get(str(kind.opcode)), TOGETHER.get(str(kind.opcode))


class Machine:
    """What an evaluation shares: the domain of floats, the devices, and what stands for data from outside."""

    def __init__(
        self,
        domain: FloatDomain,
        devices: int = 1,
        *,
        partitioned: bool = True,
        outside: Outside | None = None,
        replaced: Mapping[HloInstruction, Spread] | None = None,
        every: dict[HloInstruction, Spread] | None = None,
    ) -> None:
        """`partitioned`: whether devices are partitions rather than replicas. `outside` gives the result of an
        instruction that has no meaning in the module alone, such as an infeed. Values in `replaced` stand in the place
        of computed ones. The value of each instruction is put into `every`, also within called computations, where the
        last call counts.
        """
        self.domain = domain
        self.devices = devices
        self.partitioned = partitioned
        self.replaced = replaced or {}
        self.every = every
        self._outside = outside
        self._plans: dict[HloComputation, list[PlannedStep]] = {}
        self._fixed: dict[HloInstruction, Spread] = {}
        """The values of instructions that take none."""

    def run(self, computation: HloComputation, arguments: Sequence[Spread]) -> Spread:
        """The value of the root."""
        plan = self._plans.get(computation)
        if plan is None:
            plan = self._plans[computation] = _plan(computation)
        values: list[Spread] = [[]] * len(plan)
        with np.errstate(all="ignore"):
            for step in plan:
                instruction = step.instruction
                spread = self.replaced.get(instruction) or self._fixed.get(instruction)
                if spread is None:
                    if step.argument is not None:
                        spread = arguments[step.argument]
                    else:
                        spread = self.apply(instruction, [values[i] for i in step.operands])
                    if step.is_fixed:
                        self._fixed[instruction] = spread
                values[instruction.index] = spread
                for i in step.last:
                    values[i] = []  # no longer needed: its memory is free
                if self.every is not None:
                    self.every[instruction] = spread
        return values[computation.root.index]

    def apply(self, instruction: HloInstruction, operands: list[Spread]) -> Spread:
        """The value of an instruction from those of its operands."""
        one, together = instruction.kind.fact(_evaluators, _evaluators)
        if together is not None:
            spend(1)
            return together(self, instruction, operands)
        if one is None:
            raise unsupported(instruction)
        count = max([len(spread) for spread in operands], default=1)
        found = [one(self, instruction, [at(spread, device) for spread in operands]) for device in range(count)]
        shape = instruction.shape
        spend(1 + sum([np.size(x) for x in found]) // ELEMENTS_OF_A_STEP if shape.is_array else 1)
        return [self.domain.rounded(value, shape.element_type) for value in found] if shape.is_array else found

    def result(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """The value of a computation on one device, such as that of a reduction."""
        return self.run(computation, [[value] for value in arguments])[0]

    def outside(self, instruction: HloInstruction, operands: list[Spread]) -> Spread:
        """The result of an instruction that has no meaning in the module alone."""
        if self._outside is None:
            raise unsupported(instruction)
        return self._outside(instruction, operands)

    def each(self, spread: Spread) -> Spread:
        """The value of each device."""
        return spread * self.devices if len(spread) == 1 else spread


def at(spread: Spread, device: int) -> Value:
    """The value of a device."""
    return spread[device if len(spread) > 1 else 0]


def unsupported(instruction: HloInstruction, why: str = "has no meaning without a device") -> UnsupportedError:
    """The error about an instruction that cannot be evaluated."""
    target = instruction.details.custom_call_target
    named = f"{instruction.opcode} of {target!r}" if target else str(instruction.opcode)
    return UnsupportedError(f"instruction {instruction.name!r} cannot be evaluated: {named} {why}")


def leaves(value: Value) -> list[Array]:
    """The arrays within a value, depth first."""
    if isinstance(value, tuple):
        return [leaf for part in cast("tuple[Value, ...]", value) for leaf in leaves(part)]
    return [np.asarray(value)]


def nested(shape: Shape, arrays: list[Any]) -> Value:
    """The value of a shape, made of its arrays, which are taken from the front of the list."""
    if shape.is_tuple:
        return tuple([nested(part, arrays) for part in shape.tuple_shapes])
    if not arrays:
        raise InvalidArgumentError("there are fewer inputs than the parameters have arrays", field="inputs")
    return arrays.pop(0)


def dtype_of(shape: Shape) -> np.dtype[Any]:
    """The NumPy type of an array's elements. A token is a number that depends on all operations before it."""
    return np.dtype(np.float64) if shape.is_token else shape.element_type.numpy_dtype()
