"""The ways in which an instruction reads an operand. The classes match `xla::OperandIndexing` and
`xla::OperandIndexingSet`.

An `OperandIndexing` is one way: a map, the producers of its runtime variables, and the replica. An `OperandIndexingSet`
is the sequence of all ways, since a fusion may read an operand in several. A set of one way, which is usual, can be
used as that way:

    for reads in output_to_input(root):
        print(reads.map)                       # the one map, or SeveralMaps: a tuple, which prints each
        [access.map for access in reads]       # a list, for any number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NoReturn, TypeAlias, overload

from xlashape.base.frozen import FrozenValue, set_field
from xlashape.errors import InvalidArgumentError
from xlashape.hlo import HloInstruction, Opcode
from xlashape.indexing.answers.leaves import scalar_value
from xlashape.symbolic import Expr, IndexingMap, Interval, Var, Variable, VariableKind
from xlashape.symbolic.expr.expression import substitute, variables_of


class RuntimeVariable(FrozenValue):
    """Where the value of a runtime variable of a map comes from. Frozen and hashable. Two are equal if all fields are;
    `instruction` has to be the same object.

    - `instruction` produces the value, in its leaf `leaf`.
    - `map` leads to the element of the leaf that is the value. It starts from the variables of the outer map, in which
      the runtime variable occurs: it has the outer map's dimensions, and the outer map's range (runtime) variables too
      if the element depends on any of them.
    - `is_position`: the value is not an element but the position of the executing replica in its group of the
      collective `instruction`.
    - `is_clamped`: how the operation treats a value beyond `bounds`. Where it is true (dynamic-slice, gather) the
      nearest bound is used, else (scatter) nothing is accessed.
    - `bounds`: the bounds that the operation sets for the value. None: those that the variable has in the map.

    In a composition, the variable's bounds in the map may be narrower than `bounds`: an offset into an array that was
    padded first may lead into the padding. Nothing is accessed where the value, clamped or not, lies outside the
    variable's bounds in the map.
    """

    __slots__ = ("bounds", "instruction", "is_clamped", "is_position", "leaf", "map")
    _fields = ("instruction", "map", "leaf", "is_position", "is_clamped", "bounds")

    instruction: HloInstruction
    map: IndexingMap
    leaf: int
    is_position: bool
    is_clamped: bool
    bounds: Interval | None

    def __init__(
        self,
        instruction: HloInstruction,
        map: IndexingMap,  # noqa: A002  # the proto's name
        leaf: int = 0,
        is_position: bool = False,
        is_clamped: bool = True,
        bounds: Interval | None = None,
    ) -> None:
        set_field(self, "instruction", instruction)
        set_field(self, "map", map)
        set_field(self, "leaf", leaf)
        set_field(self, "is_position", is_position)
        set_field(self, "is_clamped", is_clamped)
        set_field(self, "bounds", bounds)

    def with_map(self, map: IndexingMap) -> RuntimeVariable:  # noqa: A002  # the proto's name
        """The same producer with another map."""
        return self.replace(map=map)

    def with_instruction(self, instruction: HloInstruction) -> RuntimeVariable:
        """The same value, produced by another instruction."""
        return self if instruction is self.instruction else self.replace(instruction=instruction)

    def matters(self, bounds: Interval) -> bool:
        """Whether the value decides if anything is accessed, even where no expression uses the variable: it may lie
        outside `bounds`.

        `bounds` are those that the variable has in its map.
        """
        if self.bounds is None:
            return False
        return not (self.is_clamped or self.is_position) or not bounds.contains(self.bounds)

    def __repr__(self) -> str:
        return f"{self.producer_text}; {self.map}"

    @property
    def producer_text(self) -> str:
        """The producer as XLA writes it: `parameter(1)`, `constant(7)`, else the name of the instruction."""
        instruction = self.instruction
        if self.is_position:
            return f"position in a group of {instruction.name}"
        opcode = instruction.opcode
        if opcode == Opcode.PARAMETER:
            return f"parameter({instruction.parameter_number})"
        if opcode == Opcode.CONSTANT:
            value = scalar_value(instruction)
            return "constant" if value is None else f"constant({value})"
        return instruction.name


class ReplicaIndexing(FrozenValue):
    """Which replicas hold the elements of an access across replicas. Frozen and hashable.

    `map` leads from the dimensions of the access to a position in the list of replicas that the executing replica takes
    data from (input to output: gives data to). That list is

    - the executing replica's group in `groups`, or all replicas in order where `groups` is empty;
    - with `pairs` of (source, target): the executing replica's source (target).

    A replica that stands in its group several times stands for one of its partitions each time: partition 0 the first
    time, then partition 1, …

    A range variable of `map` means every replica of the list. `map` is undefined where the position is not known, for
    example because groups differ in size.

    >>> every_second = ReplicaIndexing(IndexingMap.parse("(d0) -> (1), domain: d0 in [0, 3]"), ((0, 2), (1, 3)))
    >>> every_second.partners(3)
    (1, 3)
    """

    __slots__ = ("groups", "map", "pairs")
    _fields = ("map", "groups", "pairs")

    map: IndexingMap
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] | None

    def __init__(
        self,
        map: IndexingMap,  # noqa: A002  # the proto's name
        groups: tuple[tuple[int, ...], ...] = (),
        pairs: tuple[tuple[int, int], ...] | None = None,
    ) -> None:
        set_field(self, "map", map)
        set_field(self, "groups", groups)
        set_field(self, "pairs", pairs)

    def partners(self, replica: int, *, backwards: bool = False) -> tuple[int, ...] | None:
        """The list that `map` gives positions in, for the executing replica `replica`; None where it is all replicas,
        by id.

        With pairs: the sources of the replica, or with `backwards` its targets. Empty where the replica takes no part.
        """
        if self.pairs is not None:
            if backwards:
                return tuple([target for source, target in self.pairs if source == replica])
            return tuple([source for source, target in self.pairs if target == replica])
        if not self.groups:
            return None
        return next((group for group in self.groups if replica in group), ())

    def __repr__(self) -> str:
        return str(self.map)


class Knowledge(Enum):
    """How much a map says about what is accessed."""

    EXACT = "exact"
    """The elements that the map names and no others. Where values decide (the order of a sort), those that some values
    lead to. As in XLA, some maps name more: that of a padding value leads from every element of the result, and that
    of a convolution's kernel also to elements that are multiplied with padding only.
    """
    EVERY_ELEMENT = "every element"
    """The map may name more elements than are accessed, because nothing narrower is known to be true: it names every
    element of some array on the way, such as the operand of a custom call, or every index along a dimension of it. Or
    it leads outside of the array where nothing is read, as XLA's map of the update of a dynamic-update-slice.
    """
    UNKNOWN = "unknown"
    """The map is undefined: this version cannot compute it."""


class OperandIndexing(FrozenValue):
    """One way in which an array is accessed. Frozen and hashable.

    - `map`: from an element of the output (input to output: of the operand) to elements of the array.
    - `runtime`: where the values of the map's runtime variables come from, in their order.
    - `replica`: which replica holds the element, for operations across replicas; None: the executing replica.
    - `leaf`: which array, where the operand is a tuple: its leaves counted depth first.
    - `is_conservative`: the map may name more elements than are accessed (`Knowledge.EVERY_ELEMENT`).
    - `stays_inside`: every index that the map leads to lies within the array; else nothing is accessed at the others.

    Two are equal if all of these fields are; producers are equal if they are the same instruction. `str()` is XLA's
    text.

    >>> from xlashape.hlo import HloModule
    >>> from xlashape.indexing import output_to_input
    >>> text = "HloModule m ENTRY e { p = f32[2,3] parameter(0) ROOT t = f32[3,2] transpose(p), dimensions={1,0} }"
    >>> (reads,) = output_to_input(HloModule.parse(text).entry.root)
    >>> reads[0]
    (d0, d1) -> (d1, d0), domain: d0 in [0, 2], d1 in [0, 1]
    >>> reads[0].knowledge
    <Knowledge.EXACT: 'exact'>
    """

    # `_simplified` follows from the fields: None until it is asked for, `_ITSELF` where this is the simplified form
    # already.
    __slots__ = ("_simplified", "is_conservative", "leaf", "map", "replica", "runtime", "stays_inside")
    _fields = ("map", "runtime", "replica", "leaf", "is_conservative", "stays_inside")

    map: IndexingMap
    runtime: tuple[RuntimeVariable, ...]
    replica: ReplicaIndexing | None
    leaf: int
    is_conservative: bool
    stays_inside: bool
    _simplified: OperandIndexing | None

    def __init__(
        self,
        map: IndexingMap,  # noqa: A002  # the name in XLA and in the protos
        runtime: tuple[RuntimeVariable, ...] = (),
        replica: ReplicaIndexing | None = None,
        leaf: int = 0,
        is_conservative: bool = False,
        stays_inside: bool = True,
    ) -> None:
        set_field(self, "map", map)
        set_field(self, "runtime", runtime)
        set_field(self, "replica", replica)
        set_field(self, "leaf", leaf)
        set_field(self, "is_conservative", is_conservative)
        set_field(self, "stays_inside", stays_inside)
        set_field(self, "_simplified", None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not OperandIndexing:
            return NotImplemented
        # As in FrozenValue, field by field: walks compare accesses thousands of times, and this takes a third less
        # time.
        return (
            self.map == other.map
            and self.runtime == other.runtime
            and self.leaf == other.leaf
            and self.is_conservative == other.is_conservative
            and self.stays_inside == other.stays_inside
            and self.replica == other.replica
        )

    __hash__ = FrozenValue.__hash__

    @property
    def knowledge(self) -> Knowledge:
        """How much the map says."""
        if self.map.is_undefined:
            return Knowledge.UNKNOWN
        return Knowledge.EVERY_ELEMENT if self.is_conservative or not self.stays_inside else Knowledge.EXACT

    def with_map(self, map: IndexingMap, runtime: tuple[RuntimeVariable, ...]) -> OperandIndexing:  # noqa: A002  # the proto's name
        """The same access with another map and the producers of its runtime variables."""
        return OperandIndexing(map, runtime, self.replica, self.leaf, self.is_conservative, self.stays_inside)

    def with_leaf(self, leaf: int) -> OperandIndexing:
        """The same access, to another leaf."""
        if self.leaf == leaf:
            return self
        return OperandIndexing(self.map, self.runtime, self.replica, leaf, self.is_conservative, self.stays_inside)

    def simplify(self) -> OperandIndexing:
        """The same access in simplified form, without range and runtime variables that nothing depends on.

        The producer of a runtime variable that is removed is removed too. A range variable stays while the map of a
        producer depends on it.
        """
        simplified = self._simplified
        if simplified is None:
            simple_map = self.map.simplify()
            renewed = self if simple_map is self.map else self.with_map(simple_map, self.runtime)
            renewed = renewed._without_unused()
            simplified = _ITSELF if renewed is self else renewed
            set_field(self, "_simplified", simplified)
        return self if simplified is _ITSELF else simplified

    def compose(self, second: OperandIndexing) -> OperandIndexing:
        """The access from A to C, simplified, where `self` leads from A to B and `second` from B to C.

        It has the range and runtime variables of both that are used, those of `second` first, and the producers in the
        order of their variables.
        """
        is_conservative = self.is_conservative or second.is_conservative
        if self.map.is_undefined or second.map.is_undefined:
            return OperandIndexing(IndexingMap.undefined(), leaf=second.leaf)
        if self.map.is_known_empty or second.map.is_known_empty:
            return OperandIndexing(IndexingMap.empty(), leaf=second.leaf)
        composed = self.map.compose(second.map)
        if composed.is_known_empty:
            return OperandIndexing(IndexingMap.empty(), leaf=second.leaf)
        replica = self._composed_replica(second)
        if not self.runtime and not second.runtime:
            if composed.ranges:
                composed = composed.remove_unused_symbols().map
            return OperandIndexing(composed, (), replica, second.leaf, is_conservative, second.stays_inside)
        producers = [self._producer_of_second(second, producer) for producer in second.runtime]
        producers += [
            _producer_of_first(producer, composed, len(second.map.ranges), len(second.map.runtime))
            for producer in self.runtime
        ]
        return OperandIndexing(
            composed, tuple(producers), replica, second.leaf, is_conservative, second.stays_inside
        )._without_unused()

    def _composed_replica(self, second: OperandIndexing) -> ReplicaIndexing | None:
        exchange = second.replica
        if exchange is None:
            return self.replica
        if self.replica is not None:
            # Two exchanges in a row: the group of the second one depends on the replica that the first one leads to.
            return ReplicaIndexing(IndexingMap.undefined())
        if exchange.map.is_undefined:
            return exchange
        if self.map.is_undefined or self.map.runtime:
            return ReplicaIndexing(IndexingMap.undefined(), exchange.groups, exchange.pairs)
        composed = self.map.compose(exchange.map).remove_unused_symbols().map
        return ReplicaIndexing(composed, exchange.groups, exchange.pairs)

    def _producer_of_second(self, second: OperandIndexing, producer: RuntimeVariable) -> RuntimeVariable:
        """A producer of `second`, with a map from the variables of the composition."""
        inner = producer.map
        # Declare all variables of the producer's outer map, so that the composition numbers them in the same way as for
        # the outer map.
        widened = IndexingMap(inner.dims, second.map.ranges, second.map.runtime, inner.results)
        return producer.with_map(_producer_map(self.map.compose_unsimplified(widened)))

    def _without_unused(self) -> OperandIndexing:
        """The same access without the range and runtime variables that neither the map nor a producer of a variable
        that stays depends on.

        A runtime variable whose value may lie outside its bounds stays too: where it does, nothing is accessed.
        """
        own_map = self.map
        if not own_map.ranges and not own_map.runtime:
            return self
        if own_map.is_known_empty or own_map.is_undefined:
            return OperandIndexing(own_map if own_map.is_undefined else IndexingMap.empty(), leaf=self.leaf)
        if not self.runtime:
            used_map = own_map.remove_unused_symbols().map
            return self if used_map is own_map else self.with_map(used_map, ())
        used = self._used_variables()
        _, ranges, runtime = [[variable in used for variable in group] for group in own_map.variable_expressions()]
        if all(ranges) and all(runtime):
            return self

        def restricted(old: IndexingMap) -> IndexingMap:
            dims = [True] * len(old.dims)
            return old.keep_variables(dims, ranges if old.ranges else (), runtime if old.runtime else ())

        kept = [producer for producer, is_used in zip(self.runtime, runtime, strict=True) if is_used]
        producers = tuple([producer.with_map(_producer_map(restricted(producer.map))) for producer in kept])
        return self.with_map(restricted(own_map), producers)

    def _used_variables(self) -> set[Variable]:
        """The variables that the map, or the producer of a runtime variable that stays, depends on."""
        used = set(self.map.used_variables())
        for i, (producer, var) in enumerate(zip(self.runtime, self.map.runtime, strict=True)):
            if producer.matters(var.bounds):
                used.add(Variable(VariableKind.RUNTIME, i))
        pending = [variable.index for variable in used if variable.kind is VariableKind.RUNTIME]
        while pending:
            for variable in variables_of(self.runtime[pending.pop()].map.results):
                if variable.kind is not VariableKind.DIM and variable not in used:
                    used.add(variable)
                    if variable.kind is VariableKind.RUNTIME:
                        pending.append(variable.index)
        return used

    def to_text(self, style: str = "xla") -> str:
        """The map, the producers of its runtime variables and the replica, as XLA prints them; `style` as in
        `IndexingMap.to_text`.
        """
        text = self.map.to_text(style)
        if self.runtime:
            names = [var.name or f"rt{i}" for i, var in enumerate(self.map.runtime)]
            producers = [
                f"{name}: {producer.producer_text}; {producer.map.to_text(style)}"
                for name, producer in zip(names, self.runtime, strict=True)
            ]
            text += "\nruntime variables:\n\n" + "\n".join(producers)
        if self.replica is not None:
            text += "\nreplica id:\n" + self.replica.map.to_text(style)
        return text

    def __repr__(self) -> str:
        return self.to_text()


_ITSELF = OperandIndexing(IndexingMap.undefined())
"""Means that the object itself is its simplified form. A reference to itself would keep it alive after its last use."""


def _producer_of_first(
    producer: RuntimeVariable, composed: IndexingMap, range_shift: int, runtime_shift: int
) -> RuntimeVariable:
    """A producer of the first map in a composition, where the range and runtime variables of the second map come
    first.
    """
    old = producer.map
    shifts: dict[Variable, Expr] = {}
    for kind, own, shift in (
        (VariableKind.RANGE, old.ranges, range_shift),
        (VariableKind.RUNTIME, old.runtime, runtime_shift),
    ):
        if shift:
            shifts.update({Variable(kind, i): Variable(kind, i + shift) for i in range(len(own))})

    def declared(own: tuple[Var, ...], of_composition: tuple[Var, ...]) -> tuple[Var, ...]:
        """The variables of one kind that the map declares: none, or all of the composition's."""
        return of_composition if own and (shifts or len(own) != len(of_composition)) else own

    ranges, runtime = declared(old.ranges, composed.ranges), declared(old.runtime, composed.runtime)
    if not shifts and ranges is old.ranges and runtime is old.runtime:
        return producer
    return producer.with_map(IndexingMap(old.dims, ranges, runtime, substitute(old.results, shifts)))


def _producer_map(producer: IndexingMap) -> IndexingMap:
    """A producer's map without constraints, and without the kinds of variables that its results do not use.

    It needs no constraints: its domain is that of the access's map.
    """
    if producer.is_known_empty or producer.is_undefined:
        return producer
    kinds = {variable.kind for variable in variables_of(producer.results)}
    ranges = producer.ranges if VariableKind.RANGE in kinds else ()
    runtime = producer.runtime if VariableKind.RUNTIME in kinds else ()
    return IndexingMap(producer.dims, ranges, runtime, producer.results)


# -- sets --------------------------------------------------------------------------------------


class SeveralMaps(tuple[IndexingMap, ...]):
    """The maps of an array that is accessed in several ways: what `map` of its OperandIndexingSet returns. `str()` has
    a line for each.

    It is a tuple and not an IndexingMap, and a type checker says so: go through its maps to evaluate or compose them.

    >>> maps = SeveralMaps(
    ...     IndexingMap.parse(f"(d0) -> ({result}), domain: d0 in [0, 3]") for result in ("d0", "3 - d0")
    ... )
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

    Each way is a member. In a set of one member, `map`, `runtime`, `replica` and `leaf` are those of the member. A set
    without members means that no element is accessed: `map` is KNOWN EMPTY, the other three are (), None and 0. With
    several members `map` is SeveralMaps, and the other three raise InvalidArgumentError. Two sets are equal if they
    hold the same members, in any order.

    >>> from xlashape.hlo import HloModule
    >>> from xlashape.indexing import output_to_input
    >>> fusion = HloModule.parse('''HloModule m
    ... f { p = f32[2,2] parameter(0) t = f32[2,2] transpose(p), dimensions={1,0} ROOT r = f32[2,2] add(p, t) }
    ... ENTRY e { a = f32[2,2] parameter(0) ROOT s = f32[2,2] fusion(a), kind=kLoop, calls=f }''').entry.root
    >>> (reads,) = output_to_input(fusion)
    >>> for access in reads:
    ...     print(access)
    (d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 1]
    (d0, d1) -> (d1, d0), domain: d0 in [0, 1], d1 in [0, 1]
    """

    # `_simplified` follows from the members: None until it is asked for, `NOT_ACCESSED` where this is the simplified
    # form already.
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
        """The map of the only member; KNOWN EMPTY where there is none; the maps of all members where there are
        several.
        """
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
        """The least knowledge of any member: UNKNOWN is less than EVERY_ELEMENT, which is less than EXACT. An empty set
        is EXACT.
        """
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
"""The answer to a question. Output to input: one set for each operand. Input to output: one set for each leaf of the
result.
"""

NOT_ACCESSED = OperandIndexingSet()
"""The set of an array that is not accessed."""


def set_of(map: IndexingMap, leaf: int = 0) -> OperandIndexingSet:  # noqa: A002  # the proto's name
    """The set of one access."""
    return OperandIndexingSet([OperandIndexing(map, leaf=leaf)])
