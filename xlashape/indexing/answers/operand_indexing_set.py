"""All ways in which one array is accessed.

A fusion may read an operand in several ways. A set is a sequence of them; one that holds one way, which is usual, can be used as that way:

    for reads in output_to_input(root):
        print(reads.map)                       # the one map, or SeveralMaps: a tuple, which prints each
        [access.map for access in reads]       # a list, for any number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias, overload

from xlashape.errors import InvalidArgumentError
from xlashape.frozen import FrozenValue, set_field
from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing, ReplicaIndexing, RuntimeVariable
from xlashape.symbolic import IndexingMap


class SeveralMaps(tuple[IndexingMap, ...]):
    """The maps of an array that is accessed in several ways: `map` of such an OperandIndexingSet. `str()` has a line for each.

    It is not an IndexingMap, and a type checker says so: go through its members to evaluate or compose them.

    >>> maps = SeveralMaps(IndexingMap.parse(f"(d0) -> ({result}), domain: d0 in [0, 3]") for result in ("d0", "3 - d0"))
    >>> [map.evaluate((1,)) for map in maps]
    [(1,), (2,)]
    >>> maps.evaluate((1,))
    Traceback (most recent call last):
    AttributeError: the array is accessed in 2 ways: ask each map, `[map.evaluate for map in maps]`
    """

    __slots__ = ()

    def simplify(self) -> SeveralMaps:
        """The simplified maps."""
        return SeveralMaps([each.simplify() for each in self])

    def to_text(self, style: str = "xla") -> str:
        """The text of each map, on lines of their own; `style` as in `IndexingMap.to_text`."""
        return "\n".join([each.to_text(style) for each in self])

    def __repr__(self) -> str:
        return self.to_text()

    if not TYPE_CHECKING:  # type checkers must refuse the attributes of a single map

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__") or not hasattr(IndexingMap, name):
                raise AttributeError(f"'SeveralMaps' object has no attribute {name!r}")
            raise AttributeError(
                f"the array is accessed in {len(self)} ways: ask each map, `[map.{name} for map in maps]`"
            )


class OperandIndexingSet(FrozenValue, Sequence[OperandIndexing]):
    """Every way in which an array is accessed, each once, in the order in which they were found. Frozen and hashable.

    Empty: no element is accessed. `map`, `runtime`, `replica` and `leaf` are those of the only member; `map` of an empty set is KNOWN EMPTY,
    `map` of several members is SeveralMaps, and the other three then raise InvalidArgumentError.
    Two sets are equal if they hold the same members, in any order.

    >>> from xlashape.hlo import HloModule
    >>> from xlashape.indexing import output_to_input
    >>> fusion = HloModule.parse('''HloModule m
    ... f { p = f32[2,2] parameter(0) t = f32[2,2] transpose(p), dimensions={1,0} ROOT r = f32[2,2] add(p, t) }
    ... ENTRY e { a = f32[2,2] parameter(0) ROOT s = f32[2,2] fusion(a), kind=kLoop, calls=f }''').entry.root
    >>> (reads,) = output_to_input(fusion)
    >>> for access in reads: print(access)
    (d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 1]
    (d0, d1) -> (d1, d0), domain: d0 in [0, 1], d1 in [0, 1]
    """

    # `_simplified` follows from the members: None until it is asked for, `NOT_ACCESSED` where this is the simplified form already.
    __slots__ = ("_simplified", "members")
    _fields = ("members",)

    members: tuple[OperandIndexing, ...]
    _simplified: OperandIndexingSet | None

    def __init__(self, members: Iterable[OperandIndexing] = ()) -> None:
        listed = tuple(members)
        set_field(self, "members", listed if len(listed) < 2 else tuple(dict.fromkeys(listed)))
        set_field(self, "_simplified", None)

    @overload
    def __getitem__(self, index: int) -> OperandIndexing: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[OperandIndexing, ...]: ...
    def __getitem__(self, index: int | slice) -> OperandIndexing | tuple[OperandIndexing, ...]:
        return self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[OperandIndexing]:
        return iter(self.members)

    @property
    def maps(self) -> tuple[IndexingMap, ...]:
        """The maps of the members."""
        return tuple([member.map for member in self.members])

    @property
    def map(self) -> IndexingMap | SeveralMaps:
        """The map of the only member; KNOWN EMPTY where there is none; the maps of all members where there are several."""
        members = self.members
        if len(members) == 1:
            return members[0].map
        return SeveralMaps(self.maps) if members else IndexingMap.empty()

    @property
    def runtime(self) -> tuple[RuntimeVariable, ...]:
        """The runtime variables of the only member."""
        return self._only().runtime if self.members else ()

    @property
    def replica(self) -> ReplicaIndexing | None:
        """The replica of the only member."""
        return self._only().replica if self.members else None

    @property
    def leaf(self) -> int:
        """The leaf of the only member."""
        return self._only().leaf if self.members else 0

    @property
    def knowledge(self) -> Knowledge:
        """The least that any member says: UNKNOWN, then EVERY_ELEMENT, then EXACT."""
        known = {member.knowledge for member in self.members}
        if Knowledge.UNKNOWN in known:
            return Knowledge.UNKNOWN
        return Knowledge.EVERY_ELEMENT if Knowledge.EVERY_ELEMENT in known else Knowledge.EXACT

    def simplify(self) -> OperandIndexingSet:
        """The set of the members' simplified forms, each once."""
        simplified = self._simplified
        if simplified is None:
            members = [member.simplify() for member in self.members]
            is_simple = all(new is old for new, old in zip(members, self.members, strict=True))
            simplified = NOT_ACCESSED if is_simple else OperandIndexingSet(members)
            set_field(self, "_simplified", simplified)
        return self if simplified is NOT_ACCESSED else simplified

    def to_text(self, style: str = "xla") -> str:
        """The members' texts, separated by new lines."""
        return "\n".join(member.to_text(style) for member in self.members)

    def _only(self) -> OperandIndexing:
        if len(self.members) == 1:
            return self.members[0]
        raise InvalidArgumentError(
            f"the array is accessed in {len(self.members)} ways: go through them, `for access in reads`"
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, OperandIndexingSet):
            return NotImplemented
        return len(self.members) == len(other.members) and set(self.members) == set(other.members)

    def __hash__(self) -> int:
        return hash(frozenset(self.members))

    def __repr__(self) -> str:
        return f"{{{self.to_text()}}}"


Answer: TypeAlias = tuple[OperandIndexingSet, ...]
"""What a question is answered with. Output to input: one set for each operand. Input to output: one set for each leaf of the result."""

NOT_ACCESSED = OperandIndexingSet()
"""The set of an array that is not accessed."""


def set_of(map: IndexingMap, leaf: int = 0) -> OperandIndexingSet:  # noqa: A002  # the proto's name
    """The set of one access."""
    return OperandIndexingSet([OperandIndexing(map, leaf=leaf)])
