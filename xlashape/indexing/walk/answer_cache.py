"""The cache of rules' answers, under everything that a rule can see: equal operations on equal shapes are analysed once, in whichever module.

A `Signature` stands for one such operation. The answers to the questions about it (which output, which operand) are added as they are asked, so the
cache counts the bytes of answers as they come. When it is full it forgets everything: what is in use is found again within one module.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

from xlashape.caches import BoundedCache, CacheUsage, register
from xlashape.indexing.answers.leaves import is_unbounded
from xlashape.indexing.answers.operand_indexing_set import Answer, OperandIndexingSet
from xlashape.indexing.ops.op import Op, Row
from xlashape.indexing.ops.registry import Registered
from xlashape.limits import spend
from xlashape.shape import Shape

# Estimates. Of large models, the bytes that tracemalloc measures are a third to all of what these give.
SET_BYTES = 1600
"""Of a set with one access, its map included."""
SHARED_SET_BYTES = 150
"""Of a set in an answer: most sets are shared by many answers."""
LEAF_BYTES = 20
"""Of a leaf of a signature's shapes: most shapes are shared by many signatures, and with a module."""


class BoundRow(NamedTuple):
    """A set that has to be made for each instruction, because some of its accesses have runtime variables."""

    number: int
    """Of the set in the answer."""
    row: Row


class KeptAnswer(NamedTuple):
    """What is kept of an answer."""

    length: int
    """How many sets the answer has."""
    sets: dict[int, OperandIndexingSet]
    """The sets that hold for every instruction and are not empty, by number."""
    bound: tuple[BoundRow, ...]
    answer: Answer | None
    """The whole answer, where it holds for every instruction and is not too long to be kept."""


class Signature:
    """An operation and a direction, with everything that its rule can see, and the answers so far by what was asked."""

    __slots__ = ("answers", "is_unbounded", "op", "registered")

    answers: dict[Any, KeptAnswer]
    is_unbounded: bool
    """Whether any array has a dimension without a bound."""
    op: Op
    """What the rule sees."""
    registered: Registered
    """The rule."""

    def __init__(self, registered: Registered, shape: Shape, shapes: tuple[Shape, ...], attributes: Any) -> None:
        self.registered = registered
        self.op = Op.of(shape, shapes, attributes)
        self.is_unbounded = is_unbounded(shape) or any(map(is_unbounded, shapes))
        self.answers = {}

    def bytes(self) -> int:
        """About the bytes of the signature without its answers."""
        return 600 + LEAF_BYTES * (len(self.op.outputs) + self.op.starts[-1])


class AnswerCache:
    """Signatures by their keys, with their answers; registered with `xlashape.caches`."""

    def __init__(self, max_bytes: int) -> None:
        self.signatures: dict[tuple[Any, ...], Signature] = {}
        self.max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        register(self)

    def add(self, key: tuple[Any, ...], signature: Signature) -> None:
        """Keeps a new signature."""
        with self._lock:
            self._make_room(signature.bytes())
            self.signatures[key] = signature

    def keep(self, signature: Signature, question: Any, kept: KeptAnswer) -> None:
        """Keeps an answer. It counts against the budget in force by the sets that it holds."""
        spend(1 + len(kept.sets) + len(kept.bound))
        weight = 300 + SHARED_SET_BYTES * len(kept.sets) + SET_BYTES * len(kept.bound)
        with self._lock:
            if self._make_room(weight):
                signature.answers = {}
            signature.answers[question] = kept

    def _make_room(self, weight: int) -> bool:
        """Adds the weight, and forgets everything before if the cache is full."""
        is_full = self._bytes + weight > self.max_bytes
        if is_full:
            self._forget()
        self._bytes += weight
        return is_full

    def _forget(self) -> None:
        for signature in self.signatures.values():
            signature.answers = {}  # the code that walks a module still holds the signature of its current instruction
        self.signatures.clear()
        self._bytes = 0

    def clear(self) -> None:
        """Forgets every answer."""
        with self._lock:
            self._forget()

    def usage(self) -> CacheUsage:
        """How much it holds, and how much it may."""
        with self._lock:
            return CacheUsage("xlashape.indexing: answers of rules", len(self.signatures), self._bytes, self.max_bytes)


answers = AnswerCache(32 << 20)
"""Of all threads."""

sets_of_rows: BoundedCache[Row, OperandIndexingSet] = BoundedCache(
    "xlashape.indexing: sets of rows", 16 << 20, lambda row, made: SET_BYTES * len(row)
)
"""Rules share rows (all elementwise operations of one size have the same), so answers share their sets."""
