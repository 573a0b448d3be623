"""Operation: the row of one opcode in the table of operations. It holds the facts about the opcode that the reader, the
writer, the verifier and the analyses need, and the functions that infer and verify shapes.

    Operation(
        Opcode.REVERSE,
        operands=exactly(1),
        attributes=(required(DIMENSIONS),),         # in the order in which they are written
        infer=first_operand,
    )

The rows are in the other files of this package, a file for each family of operations. `registry` finds a row by opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple

from xlashape.base.frozen import set_field
from xlashape.errors import XlashapeError
from xlashape.hlo.ops.attributes import COMMON, AttributeUse, Fill, Presence, Written
from xlashape.hlo.ops.calls import CALLED, NO_CALLS, Calls
from xlashape.hlo.ops.exchange import ExchangeRule
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.proto import xla
from xlashape.shape import Shape

# The serialized fields that XLA writes for every instruction, even if they are empty.
_ALWAYS = b"".join(FIELDS.message(name, b"") for name in ("metadata", "frontend_attributes", "statistics_viz"))
_UNBOUNDED = 1 << 30


# -- operands -------------------------------------------------------------------------------


class Count(NamedTuple):
    """How many operands an operation takes, both bounds included."""

    least: int
    most: int

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"at least {self.least}"


def exactly(count: int) -> Count:
    """Exactly `count` operands."""
    return Count(count, count)


def at_least(count: int) -> Count:
    """`count` operands or more."""
    return Count(count, _UNBOUNDED)


class Contents(Enum):
    """What the parentheses after an opcode hold in text."""

    OPERANDS = "operands"
    PARAMETER_NUMBER = "a parameter's number"
    LITERAL = "a literal"


# -- inference and verification -------------------------------------------------------------


class CannotInfer(Exception):
    """The shape of a result does not follow from its operands, or the operands do not fit their operation. The message
    says why.
    """


@dataclass(slots=True)
class Given:
    """The parts of an instruction from which the shape of its result is inferred."""

    message: xla.HloInstructionProto
    operands: Sequence[Shape]
    """The shapes of the operands."""
    results: Sequence[Shape] = ()
    """The result shape of each computation that the instruction calls."""


@dataclass(slots=True)
class Result(Given):
    """An instruction whose shape is known."""

    shape: Shape = field(kw_only=True)
    parameters: Sequence[Sequence[Shape]] = field(default=(), kw_only=True)
    """For each computation that the instruction calls, the shapes of its parameters."""


Infer = Callable[[Given], Shape]
"""A function that gives the shape of the result. Raises CannotInfer."""

Verify = Callable[[Result], "str | None"]
"""A function that gives a message about a wrong shape, or about a wrong called computation; None if all is right.
Layouts are ignored.
"""

FixedShape = Callable[[Shape, Sequence[Shape]], Shape]
"""A function that gives the shape of the result from (the shape in the text, the operands' shapes). Raises CannotInfer.
"""


class AsyncStep(Enum):
    """Which step of an asynchronous operation an instruction is. The value is the end of the opcode in text."""

    START = "-start"
    UPDATE = "-update"
    DONE = "-done"


# -- what analyses need to know ---------------------------------------------------------------


class ResultSource(Enum):
    """Which arrays a result consists of. `xlashape.hlo.flow` follows them."""

    COMPUTED = "arrays that the instruction makes"
    """A start of an asynchronous operation makes all but its operands, which `repeated_operand` says."""
    OPERAND = "the first operand, or a part of it"
    """`same` says which part. An async-update may add further operands to it."""
    ELEMENT = "the element of the first operand that the instruction's `tuple_index` names"
    OPERANDS = "a tuple of the operands"
    ARGUMENT = "what the caller of the computation gives, as `Calls.arguments` of the caller's row says"
    CALLED = "what the called computation returns"
    BRANCH = "what that one of the called computations returns which runs"
    STATE = "the first operand, or what the first called computation returned last. Both share memory"


class Same(NamedTuple):
    """Which part of a result is which part of the first operand."""

    result: tuple[int, ...] = ()
    """The index of the part in the result. The rest of the result is made by the instruction."""
    operand: tuple[int, ...] = ()
    """The index of the part in the operand."""


WHOLE: Final = Same()


class InPlace(Enum):
    """Whether a result is computed in the memory of an operand, although nothing in the module declares it."""

    NO = "in memory of its own"
    FIRST_OPERAND = "the result in the first operand"
    EACH_ARRAY = "array number i of the result in operand number i"
    FUSED = "as the instructions do that make the result of the fused computation"


class ReadPattern(Enum):
    """Which elements of its operands an element of the result needs."""

    ANY = "any number of elements"
    SAME = "the element of each operand at its own index, or a scalar: the operation is elementwise"
    ONE = "at most one element of each operand"
    EACH_ONCE = "one element of the operand. Each element of the operand is needed for one element of the result"
    PART = "one element of the first operand. The other operands say which"


class MemoryTraffic(Enum):
    """Which memory an instruction reads and writes."""

    ALL = "all of its operands and its result"
    TOUCHED = "the elements that it takes or replaces, and what says which these are"
    NOTHING = "nothing: instructions of called computations may, or the start of the operation"


class Movement(IntEnum):
    """How an operation moves data, if it computes nothing. Of several such operations in a fusion, the one with the
    lowest value says best why data is moved.
    """

    TRANSFER = 0
    TRANSPOSE = 1
    RESHAPE = 2
    JOIN = 3
    PAD = 4
    TAKE = 5
    TAKE_AT = 6
    REVERSE = 7
    COPY = 8


# -- the row --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Operation:
    """The facts about one opcode. The fields after `text_depends_on_operands` are computed from the others."""

    opcode: Opcode | UnknownOpcode = field(kw_only=False)
    operands: Count
    """How many operands the operation takes."""
    arity: int | None = None
    """The number of operands that the reader assumes for the operation in an async-start, whose shape may not have all
    of them yet. None if there are as many as the shape has. The default is that of `operands` if it is a fixed number.
    """
    contents: Contents = Contents.OPERANDS
    """What the parentheses after the opcode hold."""
    attributes: tuple[AttributeUse, ...] = ()
    """The operation's own attributes, in the order in which they are written. Those of COMMON are left out."""
    calls: Calls = NO_CALLS
    """How the operation names the computations that it calls. They are written after `attributes`."""
    attributes_after_calls: tuple[AttributeUse, ...] = ()
    """Further attributes of the operation's own, which are written after the called computations."""
    fields: InitVar[bytes] = b""
    """Serialized fields that every instruction of this opcode has, such as empty dimension numbers."""

    check: Callable[[Written], None] | None = None
    """Checks that operands and attributes fit together in text. Raises CannotComplete."""
    fixed_shape: FixedShape | None = None
    """Gives the shape of the result, which replaces the shape in the text."""
    infer: Infer | None = None
    """Gives the shape of the result if text leaves it out. None if text must have it."""
    verify: Verify | None = None
    """Checks the shape. If it is None, the shape must be the one that `infer` gives; if that is None too, any shape is
    valid.
    """
    verify_calls: Verify | None = None
    """Checks the called computations."""

    one_precision: bool = False
    """Whether all floating operands must have the same element type. Compilers may allow mixed precisions."""
    operands_of_equal_sizes: bool = False
    """Whether all operands must have the same dimensions. `infer` accepts a scalar beside an array, as XLA's parser
    does, but the verifier does not.
    """

    async_step: AsyncStep | None = None
    """Set for async-start, async-update and async-done. They are written as the operation that they wrap."""

    source: ResultSource = ResultSource.COMPUTED
    """Which arrays the result consists of."""
    same: Same = WHOLE
    """For ResultSource.OPERAND: which part of the result is which part of the first operand."""
    repeated_operand: int | None = None
    """For the start of an asynchronous operation: the element of the result that holds the operands again."""
    in_place: InPlace = InPlace.NO
    """Whether the result is computed in the memory of an operand."""
    begins_asynchronously: bool = False
    """Whether the operation runs beside the instructions after it, until another one ends it."""
    ends_a_start: bool = False
    """Whether the operation ends an asynchronous one: its result was made by the start, and it reads no array."""
    reads: ReadPattern = ReadPattern.ANY
    """Which elements of the operands an element of the result needs."""
    traffic: MemoryTraffic = MemoryTraffic.ALL
    """Which memory an instruction reads and writes. Nothing if `moves_no_data`, `ends_a_start` or
    `runs_called_instructions`.
    """
    movement: Movement | None = None
    """Set if the operation moves data and computes nothing."""
    passes_first_operand_through: bool = False
    """Whether the result has the elements of the first operand at the same indices, in the same memory or as a copy."""
    moves_no_data: bool = False
    """Whether the operation reads no element of an array: it only names, orders or bundles values."""
    is_given: bool = False
    """Whether the result is there before the computation runs: no instruction computes it."""
    has_effect: bool = False
    """Whether the operation does more than give a result: it moves data in or out, or advances a state. What exchanges
    data with replicas or runs a computation has no such mark.
    """
    uses_matrix_units: bool = False
    """Whether it is a sum of products, for which devices have units of their own."""
    restricts_layouts: bool = False
    """Whether compilers leave it to a library or to a unit of the device that does not accept every layout."""
    runs_called_instructions: bool = False
    """Whether the called computations run instruction by instruction, so that their results are arrays in memory."""
    fuses_called_computation: bool = False
    """Whether the called computation is one kernel, so that its instructions have no arrays in memory."""
    exchange: ExchangeRule | None = None
    """What it does with the data of a group of replicas or partitions, if it exchanges data with them."""
    text_depends_on_operands: bool = False
    """Whether the text of attributes depends on the shapes of the operands, or on the operands themselves."""

    exchanges_with_replicas: bool = field(init=False)
    """Whether the result has data of other replicas or partitions."""
    base: bytes = field(init=False)
    """Serialized fields of HloInstructionProto that every instruction of this opcode gets when it is read from text:
    the opcode, the fields that any instruction has, and `fields`.
    """
    required: tuple[str, ...] = field(init=False)
    """The names of the attributes that text must have."""
    readable: Mapping[str, Attribute] = field(init=False)
    """Name → attribute, for all attributes that text may have, COMMON included."""
    call_names: tuple[str, ...] = field(init=False)
    """The names of the attributes that name called computations, in the proto's order of these computations."""
    fills: Mapping[str, Fill] = field(init=False)
    """Name → `fill`, for the attributes that have one."""
    kind_depends_on_operands: bool = field(init=False)
    """Whether attributes or the shape that the reader fills in may follow from the operands."""

    def __post_init__(self, fields: bytes) -> None:
        calls, uses = self.calls, (*self.attributes, *self.attributes_after_calls)
        read = [use for use in uses if use.presence is not Presence.WRITTEN_ONLY]
        needed = [use.attribute.name for use in read if use.presence is Presence.REQUIRED]
        needed += calls.names if calls.presence is Presence.REQUIRED else ()
        named = (*calls.names, calls.replacement) if calls.replacement else calls.names
        own = {use.attribute.name: use.attribute for use in read}
        if self.arity is None and self.operands.least == self.operands.most:
            set_field(self, "arity", self.operands.least)
        if self.moves_no_data or self.ends_a_start or self.runs_called_instructions:
            set_field(self, "traffic", MemoryTraffic.NOTHING)
        exchanges = self.exchange is not None and not self.exchange.is_one_sided
        set_field(self, "exchanges_with_replicas", exchanges)
        set_field(self, "base", FIELDS.string("opcode", str(self.opcode)) + _ALWAYS + fields)
        set_field(self, "required", tuple(needed))
        set_field(self, "readable", {**COMMON, **{name: CALLED[name] for name in named}, **own})
        set_field(self, "call_names", calls.names_in_proto)
        depends = self.check is not None or self.fixed_shape is not None or any(use.fill is not None for use in read)
        set_field(self, "kind_depends_on_operands", depends)
        set_field(self, "fills", {use.attribute.name: use.fill for use in read if use.fill is not None})

    def infer_shape(self, given: Given) -> Shape:
        """Infers the shape of the result, if text leaves it out. Raises CannotInfer with the opcode in its message."""
        if self.infer is None:
            raise CannotInfer(f"the shape of {self.opcode} must be written")
        try:
            return self.infer(given)
        except CannotInfer as error:
            raise CannotInfer(f"{self.opcode}: {error}") from None
        except XlashapeError as error:
            raise CannotInfer(f"{self.opcode}: {error.message}") from error
        except (ArithmeticError, LookupError):
            # Attributes may name dimensions that the operands do not have.
            raise CannotInfer(f"{self.opcode}: its attributes do not fit its operands") from None

    def __repr__(self) -> str:
        return f"<Operation {self.opcode}>"


def rows(opcodes: Iterable[Opcode], **facts: Any) -> tuple[Operation, ...]:
    """A row for each opcode. `facts` are arguments of `Operation` that the rows share."""
    return tuple([Operation(opcode, **facts) for opcode in opcodes])
