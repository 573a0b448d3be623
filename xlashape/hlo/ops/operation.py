"""Operation: the row of one opcode, which holds everything that is true of the opcode. The reader, the writer, the
verifier and the analyses of xlashape.indexing ask the row; none of them has a list of opcodes of its own.

    Operation(
        Opcode.REVERSE,
        operands=exactly(1),
        attributes=(required(DIMENSIONS),),         # in the order in which they are written
        infer=first_operand,
    )

The rows are in the files of this package, by family; `registry` finds them by opcode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.frozen import set_field
from xlashape.hlo.ops.attributes import COMMON, Fill, Presence, Use, Written
from xlashape.hlo.ops.calls import CALLED, NO_CALLS, Calls
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.values.attribute import FIELDS, Attribute
from xlashape.proto import xla
from xlashape.shape import Shape

# Fields that XLA writes for every instruction, empty or not.
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
    """What the parentheses after an opcode hold."""

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
    """What the shape of a result follows from."""

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
    """The parameters' shapes of each computation that it calls."""


Infer = Callable[[Given], Shape]
"""The shape of the result. Raises CannotInfer."""

Verify = Callable[[Result], "str | None"]
"""What is wrong with the shape of a result, or with the computations that an instruction calls, or None. Layouts are
ignored.
"""

FixedShape = Callable[[Shape, Sequence[Shape]], Shape]
"""The shape of a result from (the shape that text has, the operands' shapes). Raises CannotInfer."""


class AsyncStep(Enum):
    """Which part of an asynchronous operation an instruction is."""

    START = "-start"
    UPDATE = "-update"
    DONE = "-done"


# -- the row --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Operation:
    """Everything that is true of one opcode. What follows from the other facts has no argument."""

    opcode: Opcode | UnknownOpcode = field(kw_only=False)
    operands: Count
    """How many operands it takes."""
    arity: int | None = None
    """How many operands an operation has that is started before they are known; None where it may have any number.
    Follows from `operands` where those are a fixed number.
    """
    contents: Contents = Contents.OPERANDS
    """What its parentheses hold."""
    attributes: tuple[Use, ...] = ()
    """Its own attributes in the order in which they are written; those of COMMON are not among them."""
    calls: Calls = NO_CALLS
    """How it names the computations it calls. The computations are written after `attributes`."""
    attributes_after_calls: tuple[Use, ...] = ()
    """Further attributes of its own, which are written after the computations it calls."""
    fields: InitVar[bytes] = b""
    """Fields that every instruction of this opcode has, such as empty dimension numbers."""

    check: Callable[[Written], None] | None = None
    """Checks that operands and attributes fit together in text. Raises CannotComplete."""
    fixed_shape: FixedShape | None = None
    """The shape of the result that replaces the shape that text has."""
    infer: Infer | None = None
    """The shape of a result that text leaves out. None where text must have it."""
    verify: Verify | None = None
    """The rule of its shape. Without a rule the shape must be what `infer` gives; without `infer`, too, it may be
    anything.
    """
    verify_calls: Verify | None = None
    """The rule of the computations it calls, if there is one."""

    one_precision: bool = False
    """All floating operands must have the same element type, except in modules of compilers that mix precisions."""
    operands_of_equal_sizes: bool = False
    """All operands must have the same dimensions. Text may leave out shapes where one is a scalar; such a module is not
    valid.
    """

    async_step: AsyncStep | None = None
    """Set for async-start, async-update and async-done. They are written as the operation that they wrap."""
    repeated_operand: int | None = None
    """The element of the result that is the operand again, as the start of an asynchronous operation has it."""
    ends_a_start: bool = False
    """The result is what the start of an asynchronous operation has made; no array is read."""
    passes_first_operand_through: bool = False
    """The result is the first operand, unchanged."""
    moves_no_data: bool = False
    """It reads no element of an array: it gives values names or an order, or puts them into tuples."""
    runs_called_instructions: bool = False
    """It executes the called computations instruction by instruction, so that their results are arrays in memory."""
    fuses_called_computation: bool = False
    """The called computation is one kernel: its instructions have no arrays in memory."""
    exchanges_with_replicas: bool = False
    """Its result has data of other replicas or partitions."""
    text_depends_on_operands: bool = False
    """The text of its attributes depends on the shapes of its operands, or on the instructions that they are."""

    base: bytes = field(init=False)
    """The fields of HloInstructionProto that every instruction of this opcode has when it is read from text, the
    opcode's own among them.
    """
    required: tuple[str, ...] = field(init=False)
    """The names of the attributes that text must have."""
    readable: Mapping[str, Attribute] = field(init=False)
    """All attributes that text may have, COMMON included, by name."""
    call_names: tuple[str, ...] = field(init=False)
    """The attributes that name called computations, in the order in which the proto lists those."""
    fills: Mapping[str, Fill] = field(init=False)
    """The attributes with a `fill`, by name."""

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
        """The shape of the result, which text leaves out. Raises CannotInfer, whose message names the opcode."""
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
    """A row for each of several opcodes of which the same facts are true: arguments of `Operation`."""
    return tuple([Operation(opcode, **facts) for opcode in opcodes])
