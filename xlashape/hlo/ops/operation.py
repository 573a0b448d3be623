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
from enum import Enum
from typing import Any, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.frozen import set_field
from xlashape.hlo.ops.attributes import COMMON, AttributeUse, Fill, Presence, Written
from xlashape.hlo.ops.calls import CALLED, NO_CALLS, Calls
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
    repeated_operand: int | None = None
    """For the start of an asynchronous operation: the element of the result that holds the operands again."""
    ends_a_start: bool = False
    """Whether the operation ends an asynchronous one: its result was made by the start, and it reads no array."""
    passes_first_operand_through: bool = False
    """Whether the result is the first operand, unchanged."""
    moves_no_data: bool = False
    """Whether the operation reads no element of an array: it only names, orders or bundles values."""
    runs_called_instructions: bool = False
    """Whether the called computations run instruction by instruction, so that their results are arrays in memory."""
    fuses_called_computation: bool = False
    """Whether the called computation is one kernel, so that its instructions have no arrays in memory."""
    exchanges_with_replicas: bool = False
    """Whether the result has data of other replicas or partitions."""
    text_depends_on_operands: bool = False
    """Whether the text of attributes depends on the shapes of the operands, or on the operands themselves."""

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

    def __post_init__(self, fields: bytes) -> None:
        calls, uses = self.calls, (*self.attributes, *self.attributes_after_calls)
        read = [use for use in uses if use.presence is not Presence.WRITTEN_ONLY]
        needed = [use.attribute.name for use in read if use.presence is Presence.REQUIRED]
        needed += calls.names if calls.presence is Presence.REQUIRED else ()
        named = (*calls.names, calls.replacement) if calls.replacement else calls.names
        own = {use.attribute.name: use.attribute for use in read}
        if self.arity is None and self.operands.least == self.operands.most:
            set_field(self, "arity", self.operands.least)
        set_field(self, "base", FIELDS.string("opcode", str(self.opcode)) + _ALWAYS + fields)
        set_field(self, "required", tuple(needed))
        set_field(self, "readable", {**COMMON, **{name: CALLED[name] for name in named}, **own})
        set_field(self, "call_names", calls.names_in_proto)
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
