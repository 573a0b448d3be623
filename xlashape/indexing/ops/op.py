"""What the rules of the indexing analysis are made of: their arguments, their answers, and the register that finds
them.

    @output_to_input(Opcode.TRANSPOSE, attributes=DIMENSIONS)
    def transpose_output_to_input(op: Op, output: int) -> Rows: ...

An opcode has a rule for each direction, registered by a decorator. A rule is a pure function of an `Op`: the shapes of
an instruction, their leaves (the arrays within them, `answers.leaves`), and the attributes that the rule's reader took
from the instruction. It answers with a `Row` for each
operand (input to output: for each output). A row holds the ways in which one array is accessed, each an `Access`. An
access names operands by their number; `walk.instruction_answers` binds it to an instruction: the access becomes an
`OperandIndexing`, the row an `OperandIndexingSet`. A rule that finds attributes which do not fit the shapes raises
`Malformed`; the analysis turns it into an InvalidModuleError that names the instruction.

Opcodes whose maps come from the computations that they call are declared with `calls`; opcodes whose maps are not
known, with `unknown`.

Answers are cached by the shapes and a key of the attributes, which is read without decoding them (`keyed_by`,
`fields`). Equal keys of one reader mean equal attributes. Of a field that is a message, the key holds the serialised
bytes; if they differ in a part that no rule looks at, or in the order of fields, the only cost is a second analysis.
For a reader without a key, the attributes are the key.
With all caches warm, a map takes 1.9 µs with these keys instead of 2.3 µs with the readers (all maps of mobilenet_v2),
or 2.3 µs instead of 2.7 µs (Llama 3.1 8B).

At the end of the file: maps made from sizes, rows that many operations share, and checks of operands and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from xlashape.base.caches import cached
from xlashape.hlo import Opcode
from xlashape.hlo.values.attribute import Attribute, Codec
from xlashape.hlo.values.dimension_numbers import DOT_DIMENSION_NUMBERS
from xlashape.hlo.values.plain import DIMENSIONS
from xlashape.hlo.values.window import PADDING, SLICE
from xlashape.indexing.answers.leaves import dims_of, first_leaves, leaves
from xlashape.proto import is_repeated, xla
from xlashape.shape import Shape
from xlashape.symbolic import Expr, IndexingMap, Interval, MapParts, Var, dim, rng


class Op(NamedTuple):
    """An operation as rules see it. Not the instruction itself: whatever an answer depends on is part of the `Op`, so
    equal ones share answers.
    """

    shape: Shape
    """The shape of the result."""
    operand_shapes: tuple[Shape, ...]
    attributes: Any
    """What the rule's attribute reader returned."""
    outputs: tuple[Shape, ...]
    """The leaves of the result."""
    operands: tuple[tuple[Shape, ...], ...]
    """The leaves of each operand."""
    starts: tuple[int, ...]
    """The number of each operand's first leaf when all operands' leaves are counted together; the last item is the
    number of all leaves.
    """

    @classmethod
    def of(cls, shape: Shape, operand_shapes: tuple[Shape, ...], attributes: Any) -> Op:
        """An `Op` with the leaves of the shapes."""
        operands = tuple([leaves(operand) for operand in operand_shapes])
        return cls(shape, operand_shapes, attributes, leaves(shape), operands, first_leaves(operand_shapes))

    def output_dims(self, output: int) -> tuple[int, ...]:
        """The sizes of an output's leaf."""
        return dims_of(self.outputs[output])

    def operand_dims(self, operand: int, leaf: int = 0) -> tuple[int, ...]:
        """The sizes of an operand's leaf."""
        return dims_of(self.operands[operand][leaf])

    def require_operands(self, count: int) -> None:
        """Raises Malformed unless the operation has that many operands, each one array (or token)."""
        if len(self.operands) != count:
            raise Malformed(f"has {len(self.operands)} operands instead of {count}")
        for shape in self.operand_shapes:
            if shape.is_tuple:
                raise Malformed("has a tuple among its operands")


class Runtime(NamedTuple):
    """Where the value of a runtime variable comes from: an element of an operand."""

    operand: int
    map: IndexingMap
    """The map from the variables of the access to the element. It has the dimensions of the access, and also its ranges
    if the element depends on any.
    """
    is_clamped: bool = True
    """Whether the operation clamps the value into the variable's bounds. If not, nothing is accessed where the value
    lies beyond them.
    """


class Replicas(NamedTuple):
    """Which replica holds an element, for operations across replicas."""

    map: IndexingMap
    """The map from the dimensions of the access to a position in the list of replicas that data comes from (goes to).
    """
    groups: tuple[tuple[int, ...], ...] = ()
    """Each group lists the replicas that exchange data among themselves. Empty: all replicas in order."""
    pairs: tuple[tuple[int, int], ...] | None = None
    """(source, target) instead of groups."""


class Access(NamedTuple):
    """One way in which an array is accessed."""

    map: IndexingMap
    leaf: int = 0
    """Output to input: the number of the operand's leaf. Input to output: 0."""
    runtime: tuple[Runtime | None, ...] = ()
    """Where the value of each runtime variable of the map comes from. None: it is the position of the executing replica
    in its group.
    """
    replicas: Replicas | None = None
    is_conservative: bool = False
    """Whether the map names every element, or every index along a dimension, because nothing narrower is known to be
    true.
    """
    stays_inside: bool = True
    """Whether every index that the map leads to lies within the array. If not, nothing is read at the others, which the
    map names as XLA's map does.
    """


Row: TypeAlias = tuple[Access, ...]

NOT_ACCESSED: Row = ()
"""The row of an array that is not accessed."""


class SparseRows(NamedTuple):
    """Rows, most of which are empty: a tuple of n elements has n outputs, each of which reads one of n operands."""

    length: int
    not_empty: dict[int, Row]
    """The rows that are not empty, by number."""

    def dense(self) -> tuple[Row, ...]:
        """All rows.

        >>> SparseRows(3, {1: NOT_ACCESSED}).dense()
        ((), (), ())
        """
        return tuple([self.not_empty.get(number, NOT_ACCESSED) for number in range(self.length)])


Rows: TypeAlias = tuple[Row, ...] | SparseRows


# -- keys --------------------------------------------------------------------------------------


Key: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]
"""A function that takes the key of the attributes out of an instruction's proto."""

_R = TypeVar("_R", bound=Key)

_KEYS: dict[Key, Key] = {}


def keyed_by(key: Key) -> Callable[[_R], _R]:
    """A decorator of a reader of attributes, which gives it a key."""

    def decorate(reader: _R) -> _R:
        _KEYS[reader] = key
        return reader

    return decorate


def fields(*names: str) -> Key:
    """A key made of the fields of an instruction's proto that have these names.

    >>> fields("dimensions", "k")(xla.HloInstructionProto(dimensions=[1, 0]))
    ((1, 0), 0)
    """
    parts = [_field(name) for name in names]
    if len(parts) == 1:
        return parts[0]
    return lambda instruction: tuple([part(instruction) for part in parts])


def _field(name: str) -> Key:
    field: FieldDescriptor = xla.HloInstructionProto.DESCRIPTOR.fields_by_name[name]
    get: Callable[[Any], Any] = attrgetter(name)
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return (lambda instruction: tuple(get(instruction)[:])) if is_repeated(field) else get
    if is_repeated(field):
        return lambda instruction: tuple([each.SerializeToString() for each in get(instruction)])
    return lambda instruction: get(instruction).SerializeToString()


def key_of(reader: Key) -> Key:
    """The key of a reader of attributes."""
    return _KEYS.get(reader, reader)


def _keyed(attribute: Attribute | Codec, *names: str) -> None:
    value = attribute.value if isinstance(attribute, Attribute) else attribute
    assert value is not None
    _KEYS[value.get] = fields(*names)


_keyed(DIMENSIONS, "dimensions")
_keyed(DOT_DIMENSION_NUMBERS, "dot_dimension_numbers")
_keyed(PADDING, "padding_config")
_keyed(SLICE, "slice_dimensions")


# -- register ----------------------------------------------------------------------------------


OutputRule: TypeAlias = Callable[[Op, int], Rows]
"""A function of (op, output's leaf) that returns a row for each operand."""
InputRule: TypeAlias = Callable[[Op, int, int], Rows]
"""A function of (op, operand, operand's leaf) that returns a row for each leaf of the output."""
Reader: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]
"""A function that takes the attributes which a rule needs out of an instruction's proto."""
Attributes: TypeAlias = "Attribute | Codec | Reader"
"""What a rule needs: an attribute, a value of one, or where it needs several a reader of them."""


class Registered(NamedTuple):
    """A rule, and how its answers are cached."""

    rule: Callable[..., Rows]
    attributes: Reader | None
    """Reads the attributes that the rule needs."""
    key: Reader | None
    """Reads the key under which answers are cached, beside the shapes; None where the rule needs no attributes."""
    number: int
    """Different for each registration: rules with different readers are cached apart."""


_registrations: list[Registered] = []
# Keys are members of Opcode, which equal their names: a proto's opcode is looked up as the string that it is.
OUTPUT_TO_INPUT: dict[str, Registered] = {}
INPUT_TO_OUTPUT: dict[str, Registered] = {}
CALLS: dict[str, str] = {}
"""Opcodes whose maps come from the computations that they call → how they do, in a few words."""
WITHOUT_BOUNDS: set[str] = set()
"""Opcodes whose rules answer for dimensions without a bound too."""
UNKNOWN: dict[str, str] = {}
"""Opcodes that have no rule on purpose → the reason."""


def registered_rule(rule: Callable[..., Rows], attributes: Attributes | None = None) -> Registered:
    """A rule with its place in the cache. It belongs to no opcode: the analysis of a sort uses it for a part of the
    answer.
    """
    if isinstance(attributes, Attribute):
        assert attributes.value is not None, f"{attributes.name} has no value"
        attributes = attributes.value
    reader = attributes.get if isinstance(attributes, Codec) else attributes
    key = None if reader is None else key_of(reader)
    registered = Registered(rule, reader, key, len(_registrations))
    _registrations.append(registered)
    return registered


def without_bounds(*opcodes: Opcode) -> None:
    """Declares opcodes whose rules answer for dimensions without a bound too: their maps do not depend on sizes."""
    WITHOUT_BOUNDS.update(opcodes)


def _register(
    table: dict[str, Registered], opcodes: tuple[Opcode, ...], rule: Callable[..., Rows], attributes: Attributes | None
) -> None:
    registered = registered_rule(rule, attributes)
    for opcode in opcodes:
        if opcode in table or opcode in UNKNOWN or opcode in CALLS:
            raise ValueError(f"{opcode} is registered twice")
        table[opcode] = registered


def output_to_input(*opcodes: Opcode, attributes: Attributes | None = None) -> Callable[[OutputRule], OutputRule]:
    """Registers a rule from outputs to operands."""

    def register(rule: OutputRule) -> OutputRule:
        _register(OUTPUT_TO_INPUT, opcodes, rule, attributes)
        return rule

    return register


def input_to_output(*opcodes: Opcode, attributes: Attributes | None = None) -> Callable[[InputRule], InputRule]:
    """Registers a rule from operands to outputs."""

    def register(rule: InputRule) -> InputRule:
        _register(INPUT_TO_OUTPUT, opcodes, rule, attributes)
        return rule

    return register


def calls(opcode: Opcode, how: str) -> None:
    """Declares an opcode whose maps come from the computations that it calls. `how` says in a few words."""
    CALLS[opcode] = how


def unknown(opcode: Opcode, reason: str) -> None:
    """Declares an opcode that has no rule on purpose."""
    UNKNOWN[opcode] = reason


# -- building maps -----------------------------------------------------------------------------


class Malformed(Exception):
    """Attributes or operands that do not fit the operation. It never leaves `xlashape.indexing`."""


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises Malformed unless the condition holds. Pass a function where formatting the message takes longer than the
    check.
    """
    if not condition:
        raise Malformed(message if isinstance(message, str) else message())


def require_dims(what: str, dims: Sequence[int], rank: int) -> None:
    """Raises Malformed unless the numbers are different dimensions of an array of that rank."""
    if len(set(dims)) != len(dims) or (dims and not 0 <= min(dims) <= max(dims) < rank):
        raise Malformed(f"{what} {list(dims)} are not different dimensions of rank {rank}")


def make_map(
    dims: Iterable[int | Interval],
    results: Iterable[Expr],
    *,
    ranges: Iterable[int | Interval] = (),
    runtime: Iterable[Interval] = (),
    constraints: Iterable[tuple[Expr, Interval]] = (),
) -> IndexingMap:
    """A map. In place of the interval [0, n - 1], the bounds of a variable may be the int n.

    >>> make_map([4], [dim(0), rng(0)], ranges=[3])
    (d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 2]
    """
    # Rules name only variables that they declare. The constructor would check that, which takes a tenth of the time of
    # an analysis.
    return IndexingMap.from_parts(
        MapParts(
            "map",
            tuple([_var(d) for d in dims]),
            tuple([_var(r) for r in ranges]),
            tuple([Var(bounds) for bounds in runtime]),
            tuple(results),
            tuple(constraints),
        )
    )


def _var(bounds: int | Interval) -> Var:
    return Var(Interval(0, bounds - 1) if isinstance(bounds, int) else bounds)


def _bytes_by_ranks(key: tuple[tuple[int, ...], ...], value: object) -> int:
    """An estimate of the bytes of a map between arrays whose sizes are in the key."""
    return 1200 + 400 * sum([len(dims) for dims in key])


# Keeping results saves 8 % of the steps of the maps of ResNet-50, 3 % of those of Llama 3.1.
@cached(max_bytes=4 << 20, weigh=_bytes_by_ranks)
def identity(dims: tuple[int, ...]) -> Row:
    """The row in which each element depends on the element of the same index."""
    return (Access(make_map(dims, [dim(i) for i in range(len(dims))])),)


def passed(dims: tuple[int, ...], leaf: int) -> Row:
    """The row in which each element depends on the element of the same index in leaf `leaf` of an operand."""
    return (Access(identity(dims)[0].map, leaf),) if leaf else identity(dims)


def to_scalar(dims: tuple[int, ...]) -> Row:
    """The row in which each element depends on the one element of a scalar."""
    return (Access(make_map(dims, ())),)


def everything(
    dims: tuple[int, ...], target: tuple[int, ...], leaf: int = 0, *, is_conservative: bool = False
) -> Access:
    """The access in which each element of an array of sizes `dims` depends on every element of a leaf of sizes
    `target`. `is_conservative`: whether that is only because nothing narrower is known to be true."""
    whole = make_map(dims, [rng(i) for i in range(len(target))], ranges=target)
    return Access(whole, leaf, is_conservative=is_conservative)


def every_element(op: Op, output: int) -> Rows:
    """The rows in which each element depends on every element of every operand, because nothing narrower is known to be
    true."""
    dims = op.output_dims(output)
    return tuple(
        tuple(everything(dims, dims_of(shape), leaf, is_conservative=True) for leaf, shape in enumerate(operand))
        for operand in op.operands
    )
