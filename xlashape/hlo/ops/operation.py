"""Operation: the row of one opcode, which holds everything that is true of the opcode. The reader, the writer, the verifier and the
analyses of xlashape.indexing ask the row; none of them has a list of opcodes of its own.

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
from enum import Enum
from typing import Final, NamedTuple

from xlashape.errors import XlashapeError
from xlashape.frozen import Frozen, set_field
from xlashape.hlo.ops.attributes import Fill, Presence, Use, Written
from xlashape.hlo.ops.calls import CALLED, NO_CALLS, Calls
from xlashape.hlo.ops.common import COMMON
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.values.attribute import Attribute
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape import Shape

__all__ = [
    "FIELDS",
    "AsyncStep",
    "CannotInfer",
    "Contents",
    "Count",
    "FixedShape",
    "Infer",
    "Operation",
    "Verify",
    "VerifyCalls",
    "at_least",
    "exactly",
    "rows",
]

FIELDS: Final = Fields(xla.HloInstructionProto)
"""Encodes fields of an instruction, by name."""

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
    """The shape of a result does not follow from its operands, or the operands do not fit their operation. The message says why."""


Infer = Callable[[xla.HloInstructionProto, Sequence[Shape], Sequence[Shape]], Shape]
"""The shape of the result, from (the instruction, its operands' shapes, the result shapes of the computations it calls).
Raises CannotInfer."""

Verify = Callable[[xla.HloInstructionProto, Shape, Sequence[Shape]], "str | None"]
"""What is wrong with the shape of a result, or None, from (the instruction, its shape, its operands' shapes). Layouts are ignored."""

VerifyCalls = Callable[
    [xla.HloInstructionProto, Shape, Sequence[Shape], Sequence[Sequence[Shape]], Sequence[Shape]], "str | None"
]
"""What is wrong with the computations that an instruction calls, or None, from (the instruction, its shape, its operands' shapes, the
parameters' shapes of each called computation, the result shape of each)."""


FixedShape = Callable[[Shape, Sequence[Shape]], Shape]
"""The shape of a result from (the shape that text has, the operands' shapes). Raises CannotInfer."""


class AsyncStep(Enum):
    """Which part of an asynchronous operation an instruction is."""

    START = "-start"
    UPDATE = "-update"
    DONE = "-done"


# -- the row --------------------------------------------------------------------------------


class Operation(Frozen):
    """Everything that is true of one opcode."""

    __slots__ = (
        "arity",
        "async_step",
        "attributes",
        "attributes_after_calls",
        "base",
        "call_names",
        "calls",
        "check",
        "contents",
        "exchanges_with_replicas",
        "fills",
        "fixed_shape",
        "fuses_called_computation",
        "infer",
        "moves_no_data",
        "one_precision",
        "opcode",
        "operands",
        "operands_of_equal_sizes",
        "passes_first_operand_through",
        "readable",
        "required",
        "runs_called_instructions",
        "text_depends_on_operands",
        "verify",
        "verify_calls",
    )

    opcode: Opcode | UnknownOpcode
    operands: Count
    """How many operands it takes."""
    arity: int | None
    """How many operands an operation has that is started before they are known; None where it may have any number."""
    contents: Contents
    """What its parentheses hold."""
    attributes: tuple[Use, ...]
    """Its own attributes in the order in which they are written; those of COMMON are not among them."""
    calls: Calls
    """How it names the computations it calls. The computations are written after `attributes`."""
    attributes_after_calls: tuple[Use, ...]
    """Further attributes of its own, which are written after the computations it calls."""

    base: bytes
    """The fields of HloInstructionProto that every instruction of this opcode has when it is read from text, the opcode's own among them."""
    check: Callable[[Written], None] | None
    """Checks that operands and attributes fit together in text. Raises CannotComplete."""
    fixed_shape: FixedShape | None
    """The shape of the result that replaces the shape that text has."""
    infer: Infer | None
    """The shape of a result that text leaves out. None where text must have it."""
    verify: Verify | None
    """The rule of its shape. Without a rule the shape must be what `infer` gives; without `infer`, too, it may be anything."""
    verify_calls: VerifyCalls | None
    """The rule of the computations it calls, if there is one."""

    one_precision: bool
    """All floating operands must have the same element type, except in modules of compilers that mix precisions."""
    operands_of_equal_sizes: bool
    """All operands must have the same dimensions. Text may leave out shapes where one is a scalar; such a module is not valid."""

    async_step: AsyncStep | None
    """Set for async-start, async-update and async-done. They are written as the operation that they wrap."""
    passes_first_operand_through: bool
    """The result is the first operand, unchanged."""
    moves_no_data: bool
    """It reads no element of an array: it gives values names or an order, or puts them into tuples."""
    runs_called_instructions: bool
    """It executes the called computations instruction by instruction, so that their results are arrays in memory."""
    fuses_called_computation: bool
    """The called computation is one kernel: its instructions have no arrays in memory."""
    exchanges_with_replicas: bool
    """Its result has data of other replicas or partitions."""
    text_depends_on_operands: bool
    """The text of its attributes depends on the shapes of its operands, or on the instructions that they are."""

    required: tuple[str, ...]
    """The names of the attributes that text must have."""
    readable: Mapping[str, Attribute]
    """All attributes that text may have, COMMON included, by name."""
    call_names: tuple[str, ...]
    """The attributes that name called computations, in the order in which the proto lists those."""
    fills: Mapping[str, Fill]
    """The attributes with a `fill`, by name."""

    def __init__(
        self,
        opcode: Opcode | UnknownOpcode,
        *,
        operands: Count,
        arity: int | None = None,
        contents: Contents = Contents.OPERANDS,
        attributes: Iterable[Use] = (),
        calls: Calls = NO_CALLS,
        attributes_after_calls: Iterable[Use] = (),
        fields: bytes = b"",
        check: Callable[[Written], None] | None = None,
        fixed_shape: FixedShape | None = None,
        infer: Infer | None = None,
        verify: Verify | None = None,
        verify_calls: VerifyCalls | None = None,
        one_precision: bool = False,
        operands_of_equal_sizes: bool = False,
        async_step: AsyncStep | None = None,
        passes_first_operand_through: bool = False,
        moves_no_data: bool = False,
        runs_called_instructions: bool = False,
        fuses_called_computation: bool = False,
        exchanges_with_replicas: bool = False,
        text_depends_on_operands: bool = False,
    ) -> None:
        """`fields` are those that every instruction of this opcode has, such as empty dimension numbers. `arity` is given where it does not
        follow from `operands`."""
        uses, after_calls = tuple(attributes), tuple(attributes_after_calls)
        read = [use for use in (*uses, *after_calls) if use.presence is not Presence.WRITTEN_ONLY]
        needed = [use.attribute.name for use in read if use.presence is Presence.REQUIRED]
        needed += calls.names if calls.presence is Presence.REQUIRED else ()
        named = (*calls.names, calls.replacement) if calls.replacement else calls.names
        set_field(self, "opcode", opcode)
        set_field(self, "operands", operands)
        fixed = operands.least if operands.least == operands.most else None
        set_field(self, "arity", fixed if arity is None else arity)
        set_field(self, "contents", contents)
        set_field(self, "attributes", uses)
        set_field(self, "calls", calls)
        set_field(self, "attributes_after_calls", after_calls)
        set_field(self, "base", FIELDS.string("opcode", str(opcode)) + _ALWAYS + fields)
        set_field(self, "check", check)
        set_field(self, "fixed_shape", fixed_shape)
        set_field(self, "infer", infer)
        set_field(self, "verify", verify)
        set_field(self, "verify_calls", verify_calls)
        set_field(self, "one_precision", one_precision)
        set_field(self, "operands_of_equal_sizes", operands_of_equal_sizes)
        set_field(self, "async_step", async_step)
        set_field(self, "passes_first_operand_through", passes_first_operand_through)
        set_field(self, "moves_no_data", moves_no_data)
        set_field(self, "runs_called_instructions", runs_called_instructions)
        set_field(self, "fuses_called_computation", fuses_called_computation)
        set_field(self, "exchanges_with_replicas", exchanges_with_replicas)
        set_field(self, "text_depends_on_operands", text_depends_on_operands)
        set_field(self, "required", tuple(needed))
        set_field(
            self,
            "readable",
            {**COMMON, **{name: CALLED[name] for name in named}, **{use.attribute.name: use.attribute for use in read}},
        )
        set_field(self, "call_names", calls.names_in_proto)
        set_field(self, "fills", {use.attribute.name: use.fill for use in read if use.fill is not None})

    def infer_shape(
        self, message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]
    ) -> Shape:
        """The shape of the result, which text leaves out. `results` are those of the computations it calls.

        Raises CannotInfer, whose message names the opcode.
        """
        if self.infer is None:
            raise CannotInfer(f"the shape of {self.opcode} must be written")
        try:
            return self.infer(message, operands, results)
        except CannotInfer as error:
            raise CannotInfer(f"{self.opcode}: {error}") from None
        except XlashapeError as error:
            raise CannotInfer(f"{self.opcode}: {error.message}") from error

    def __repr__(self) -> str:
        return f"<Operation {self.opcode}>"


def rows(
    opcodes: Iterable[Opcode],
    *,
    operands: Count,
    attributes: Iterable[Use] = (),
    infer: Infer | None = None,
    verify: Verify | None = None,
    one_precision: bool = False,
    operands_of_equal_sizes: bool = False,
) -> tuple[Operation, ...]:
    """A row for each of several opcodes of which the same is true."""
    uses = tuple(attributes)
    return tuple(
        [
            Operation(
                opcode,
                operands=operands,
                attributes=uses,
                infer=infer,
                verify=verify,
                one_precision=one_precision,
                operands_of_equal_sizes=operands_of_equal_sizes,
            )
            for opcode in opcodes
        ]
    )
