"""HloComputation: a named list of instructions with a root, a view over its HloComputationProto. Matches XLA's HloComputation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xlashape.errors import InvalidArgumentError, InvalidModuleError, NotFoundError
from xlashape.hlo.instruction import HloInstruction
from xlashape.hlo.structure import LOCAL_ID
from xlashape.proto import xla

if TYPE_CHECKING:
    from xlashape.hlo.module import HloModule

__all__ = ["HloComputation", "bare_name"]


def bare_name(name: str) -> str:
    """A name as protos have it: `%` left aside. InvalidArgumentError for what is no text."""
    # The check is for callers without types.
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(f"name takes text, not {type(name).__name__}", field="name")
    return name.removeprefix("%")


class HloComputation:
    """A view: `proto` says everything. The views of its instructions are made on first use, all at once, and kept."""

    __slots__ = (
        "_by_local_id",
        "_by_name",
        "_instructions",
        "_name",
        "_parameters",
        "_users",
        "module",
        "place",
        "proto",
    )

    module: HloModule
    """The module it belongs to."""
    place: int
    """Its place in `module.computations`."""
    proto: xla.HloComputationProto
    """The message itself, not a copy."""

    def __init__(self, module: HloModule, place: int, proto: xla.HloComputationProto) -> None:
        self.module = module
        self.place = place
        self.proto = proto
        self._name: str | None = None
        self._instructions: tuple[HloInstruction, ...] | None = None
        self._by_local_id: dict[int, HloInstruction] | None = None
        self._by_name: dict[str, HloInstruction] | None = None
        self._parameters: tuple[HloInstruction, ...] | None = None
        self._users: list[tuple[HloInstruction, ...]] | None = None

    @property
    def name(self) -> str:
        """Its name, without `%`."""
        name = self._name
        if name is None:
            name = self._name = self.proto.name
        return name

    @property
    def id(self) -> int:
        """Its id as the proto has it."""
        return self.proto.id

    @property
    def instructions(self) -> tuple[HloInstruction, ...]:
        """Its instructions in the order of the proto; XLA writes operands before their users."""
        instructions = self._instructions
        if instructions is None:
            made = (HloInstruction(self, place, proto) for place, proto in enumerate(self.proto.instructions))
            instructions = self._instructions = tuple(made)
        return instructions

    @property
    def root(self) -> HloInstruction:
        """The instruction whose result is the computation's."""
        return self._local_ids()[self.proto.root_id & LOCAL_ID]

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Its parameters by number. Raises InvalidModuleError if a number is missing or there twice."""
        parameters = self._parameters
        if parameters is None:
            found = [one for one in self.instructions if one.proto.opcode == "parameter"]
            found.sort(key=lambda one: one.proto.parameter_number)
            for number, one in enumerate(found):
                if one.proto.parameter_number != number:
                    raise InvalidModuleError(
                        f"computation {self.name!r}: instruction {one.name!r} is parameter {one.proto.parameter_number} "
                        f"where parameter {number} was expected"
                    )
            parameters = self._parameters = tuple(found)
        return parameters

    @property
    def execution_thread(self) -> str:
        """The thread it runs on; empty is the main one, as XLA's text leaves it out."""
        return self.proto.execution_thread

    def instruction(self, name: str) -> HloInstruction:
        """The instruction of that name, `%` left aside. Raises NotFoundError; of two with one name, the first is given."""
        names = self._by_name
        if names is None:
            names = self._by_name = {one.name: one for one in reversed(self.instructions)}
        found = names.get(bare_name(name))
        if found is None:
            raise NotFoundError(f"computation {self.name!r} has no instruction {name!r}")
        return found

    def resolve(self, ids: Iterable[int]) -> tuple[HloInstruction, ...]:
        """The instructions of these ids, in their order. Raises InvalidModuleError for an id that is not there."""
        by_id = self._local_ids()
        try:
            return tuple([by_id[one & LOCAL_ID] for one in ids])
        except KeyError:
            raise InvalidModuleError(
                f"computation {self.name!r} was changed: an id is gone; make a new module view"
            ) from None

    def users_of(self, instruction: HloInstruction) -> tuple[HloInstruction, ...]:
        """The instructions that take the result of `instruction`, each once. All users are found on the first call."""
        users = self._users
        if users is None:
            found: list[list[HloInstruction]] = [[] for _ in self.instructions]
            for one in self.instructions:
                operands = one.operands
                for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                    found[operand.place].append(one)
            users = self._users = list(map(tuple, found))
        return users[instruction.place]

    def _local_ids(self) -> dict[int, HloInstruction]:
        by_id = self._by_local_id
        if by_id is None:
            by_id = self._by_local_id = {one.proto.id & LOCAL_ID: one for one in self.instructions}
        return by_id

    def __repr__(self) -> str:
        return f"<HloComputation {self.name!r}: {len(self.proto.instructions)} instructions>"
