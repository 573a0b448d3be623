"""HloInstruction: one instruction of a computation, a view over its HloInstructionProto. Matches XLA's HloInstruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlashape.errors import InvalidArgumentError, InvalidModuleError, XlashapeError
from xlashape.hlo.ops.opcode import Opcode
from xlashape.proto import xla
from xlashape.shape import Shape

if TYPE_CHECKING:
    from xlashape.hlo.computation import HloComputation

__all__ = ["HloInstruction"]

_OPCODES = {opcode.value: opcode for opcode in Opcode}


class HloInstruction:
    """A view: `proto` says everything; properties decode parts of it on first use and keep them.

    A computation makes each of its views once, so views of the same instruction are the same object: compare with `is`.
    Attributes without a property of their own are read from `proto`: `instruction.proto.window`.
    """

    __slots__ = (
        "_called",
        "_control",
        "_name",
        "_opcode",
        "_operands",
        "_shape",
        "_users",
        "computation",
        "place",
        "proto",
    )

    computation: HloComputation
    """The computation it belongs to."""
    place: int
    """Its place in `computation.instructions`."""
    proto: xla.HloInstructionProto
    """The message itself, not a copy."""

    def __init__(self, computation: HloComputation, place: int, proto: xla.HloInstructionProto) -> None:
        self.computation = computation
        self.place = place
        self.proto = proto
        self._name: str | None = None
        self._opcode: Opcode | None = None
        self._shape: Shape | None = None
        self._operands: tuple[HloInstruction, ...] | None = None
        self._users: tuple[HloInstruction, ...] | None = None
        self._called: tuple[HloComputation, ...] | None = None
        self._control: tuple[HloInstruction, ...] | None = None

    @property
    def name(self) -> str:
        """Its name, without `%`."""
        name = self._name
        if name is None:
            name = self._name = self.proto.name
        return name

    @property
    def id(self) -> int:
        """Its id as the proto has it. In newer modules (computation id << 32) | number."""
        return self.proto.id

    @property
    def opcode(self) -> Opcode:
        """What it does. Raises InvalidModuleError if this version does not know the opcode; `proto.opcode` has its name."""
        opcode = self._opcode
        if opcode is None:
            opcode = _OPCODES.get(self.proto.opcode)
            if opcode is None:
                raise self._error(f"has the unknown opcode {self.proto.opcode!r}")
            self._opcode = opcode
        return opcode

    @property
    def shape(self) -> Shape:
        """The shape of its result. Instructions of equal shapes share one object. Raises InvalidModuleError for a shape that cannot be."""
        shape = self._shape
        if shape is None:
            try:
                shape = self._shape = self.computation.module.shape_of(self.proto.shape)
            except XlashapeError as error:
                raise self._error(f"has a shape that cannot be: {error}") from error
        return shape

    @property
    def operands(self) -> tuple[HloInstruction, ...]:
        """The instructions whose results it takes, in order; one that it takes twice stands there twice."""
        operands = self._operands
        if operands is None:
            ids = self.proto.operand_ids[:]  # a list of its own is gone through in half the time
            operands = self._operands = self.computation.resolve(ids) if ids else ()
        return operands

    @property
    def users(self) -> tuple[HloInstruction, ...]:
        """The instructions that take its result, each once, in the order of the computation."""
        users = self._users
        if users is None:
            users = self._users = self.computation.users_of(self)
        return users

    @property
    def control_predecessors(self) -> tuple[HloInstruction, ...]:
        """The instructions that must have run before it, beyond its operands."""
        control = self._control
        if control is None:
            control = self._control = self.computation.resolve(self.proto.control_predecessor_ids)
        return control

    @property
    def called_computations(self) -> tuple[HloComputation, ...]:
        """The computations it calls, in the proto's order: a while's body then its condition, a conditional's branches."""
        called = self._called
        if called is None:
            called = self._called = self.computation.module.resolve(self.proto.called_computation_ids)
        return called

    @property
    def parameter_number(self) -> int:
        """Which parameter of the computation it is. Raises InvalidArgumentError for an instruction that is no parameter."""
        if self.proto.opcode != "parameter":
            raise InvalidArgumentError(f"instruction {self.name!r} is no parameter but {self.proto.opcode!r}")
        return self.proto.parameter_number

    @property
    def is_root(self) -> bool:
        """Whether its result is the result of its computation."""
        return self.computation.root is self

    def _error(self, what: str) -> InvalidModuleError:
        return InvalidModuleError(f"computation {self.computation.name!r}: instruction {self.name!r} {what}")

    def __repr__(self) -> str:
        return f"<HloInstruction {self.name!r}: {self.proto.opcode}>"
