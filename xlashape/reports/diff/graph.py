"""A module in the form that `diff` compares: each computation as lists of hashes, operands and users, with an element
for each instruction. They are derived from the canonical form (`xlashape.hlo.canonical`), in which nothing depends on
names and ids.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from xlashape.hlo.canonical import Canonical, CanonicalComputation
from xlashape.hlo.module import HloInstruction, HloModule
from xlashape.hlo.ops.opcode import Opcode
from xlashape.proto import xla
from xlashape.reports.diff.measures import ModuleMeasures


def digest(*parts: bytes) -> bytes:
    """A hash of several byte strings."""
    return blake2b(b"|".join(parts), digest_size=12).digest()


class Computation:
    """A computation as lists, each with an element for each instruction, in the order of the module."""

    __slots__ = ("_op_names", "_use", "_users", "base", "canonical", "index", "is_entry", "rich", "side")

    def __init__(self, side: Side, index: int, canonical: CanonicalComputation) -> None:
        self.side = side
        self.index = index
        self.canonical = canonical
        self.base = [side.bases[local] for local in canonical.locals]
        """A hash of each instruction, without its operands and, of a parameter, without its number."""
        self.rich = self.base
        """A hash of each instruction as in `base`, together with the computations that the instruction calls."""
        if canonical.called:
            self.rich = list(self.base)
            for i, targets in canonical.called.items():
                digests = [side.canonical.computations[target].digest for target in targets]
                self.rich[i] = digest(self.base[i], *digests)
        self._users: list[list[tuple[int, int]]] | None = None
        self._use: list[bytes] | None = None
        self._op_names: list[str] | None = None

    @property
    def size(self) -> int:
        """The number of its instructions."""
        return len(self.base)

    @property
    def operands(self) -> list[list[int]]:
        """The indices of each instruction's operands."""
        return self.canonical.operands

    @property
    def root(self) -> int:
        """The index of its root."""
        return self.canonical.computation.root.index

    @property
    def users(self) -> list[list[tuple[int, int]]]:
        """The users of each instruction: the index of the user, and which of its operands the instruction is."""
        if self._users is None:
            users: list[list[tuple[int, int]]] = [[] for _ in self.base]
            for user, operands in enumerate(self.operands):
                for position, operand in enumerate(operands):
                    users[operand].append((user, position))
            self._users = users
        return self._users

    @property
    def use(self) -> list[bytes]:
        """A hash of each instruction and of all that depends on it."""
        if self._use is None:
            use = [b""] * self.size
            users, rich, root = self.users, self.rich, self.root
            for i in reversed(self.canonical.order):
                parts = [b"%d:%b" % (position, use[user]) for user, position in users[i]]
                if len(parts) > 1:
                    parts.sort()
                use[i] = digest(rich[i], b"root" if i == root else b"", *parts)
            self._use = use
        return self._use

    @property
    def op_names(self) -> list[str]:
        """The op_name of each instruction, "" for none."""
        if self._op_names is None:
            self._op_names = [
                self.side.op_name(each.metadata_bytes) for each in self.canonical.computation.instructions
            ]
        return self._op_names

    def opcode(self, i: int) -> str:
        """The opcode of an instruction."""
        return str(self.canonical.computation.instructions[i].opcode)

    def parts(self, i: int) -> dict[str, str]:
        """The canonical parts of an instruction: the texts of its opcode, shape and attributes, by name."""
        return self.canonical.locals[i].parts

    def name(self, i: int) -> str:
        """The name of an instruction."""
        return self.canonical.computation.instructions[i].name

    def view(self, i: int) -> HloInstruction:
        """The instruction."""
        return self.side.module.computations[self.index].instructions[i]


class _Bases(dict[Any, bytes]):
    """The canonical parts of an instruction → the hash in `Computation.base`."""

    def __missing__(self, local: Any) -> bytes:
        known = local.digest
        if local.parts["opcode"] == Opcode.PARAMETER:
            rest = sorted([(name, text) for name, text in local.parts.items() if name != "parameter"])
            known = digest(repr(rest).encode("utf-8", "surrogateescape"))
        self[local] = known
        return known


class Side:
    """One of the two modules that are compared."""

    __slots__ = ("_op_names", "bases", "callers", "canonical", "computations", "entry", "measures", "module")

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.canonical: Canonical = module.canonical()
        self.measures = ModuleMeasures(module)
        self.bases = _Bases()
        self._op_names: dict[bytes, str] = {}
        self.computations = [Computation(self, i, each) for i, each in enumerate(self.canonical.computations)]
        self.entry = self.computations[module.entry.index]
        self.callers: list[list[tuple[int, int]]] = [[] for _ in self.computations]
        """For each computation the instructions that call it, by the index of their computation and their index in that
        computation.
        """
        for computation in self.computations:
            for i, targets in computation.canonical.called.items():
                for target in targets:
                    self.callers[target].append((computation.index, i))

    def op_name(self, metadata: bytes | None) -> str:
        """The op_name in serialized metadata; "" where there is none."""
        if not metadata:
            return ""
        name = self._op_names.get(metadata)
        if name is None:
            name = self._op_names[metadata] = xla.OpMetadata.FromString(metadata).op_name
        return name
