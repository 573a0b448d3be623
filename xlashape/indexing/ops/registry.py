"""Which function answers for which operation: one rule an HLO opcode and direction, registered by decorator.

A rule is a pure function of an `Op`: the shapes of outputs and operands and the attributes that its reader took from the instruction. It cannot
see the instruction itself, so whatever its answer depends on is part of the `Op`, and equal `Op`s may share one answer.

    @output_to_input("transpose", attributes=dimensions)
    def transpose_output_to_input(op: Op, output: int) -> Rows: ...

A rule answers with a row for each operand (input to output: for each output), each row the ways in which that array is accessed. Arrays inside a
tuple are counted depth first: *leaf* 0, 1, …; an array shape is its own leaf 0. Opcodes whose answer lies in the computations they call are
declared with `calls`; opcodes about which nothing can be said with `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from xlashape.indexing.ops.keys import key_of
from xlashape.proto import xla
from xlashape.shape import Shape
from xlashape.symbolic import IndexingMap

__all__ = [
    "INPUT_TO_OUTPUT",
    "OUTPUT_TO_INPUT",
    "UNKNOWN",
    "Access",
    "InputRule",
    "Op",
    "OutputRule",
    "Replicas",
    "Row",
    "Rows",
    "Runtime",
    "Sparse",
    "calls",
    "element_starts",
    "first_leaves",
    "input_to_output",
    "is_calling",
    "leaves",
    "output_to_input",
    "unknown",
    "unlisted",
]


class Op(NamedTuple):
    """What a rule may know of an instruction."""

    shape: Shape
    """Of the result."""
    operand_shapes: tuple[Shape, ...]
    attributes: Any
    """What the rule's attribute reader returned."""
    outputs: tuple[Shape, ...]
    """The leaves of the result."""
    operands: tuple[tuple[Shape, ...], ...]
    """The leaves of each operand."""
    starts: tuple[int, ...]
    """Where each operand's leaves begin when all are counted together; at the end, how many there are."""

    @classmethod
    def of(cls, shape: Shape, operand_shapes: tuple[Shape, ...], attributes: Any) -> Op:
        """With the leaves of the shapes."""
        operands = tuple([leaves(operand) for operand in operand_shapes])
        starts = tuple(accumulate([len(operand) for operand in operands], initial=0))
        return cls(shape, operand_shapes, attributes, leaves(shape), operands, starts)


def leaves(shape: Shape) -> tuple[Shape, ...]:
    """The arrays (tokens, opaques, buffers) within a shape, depth first; the shape itself if it is no tuple."""
    return _leaves(shape) if shape.is_tuple else (shape,)


@lru_cache(maxsize=1 << 12)
def _leaves(shape: Shape) -> tuple[Shape, ...]:
    return tuple(shape.leaves())


def first_leaves(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """Where the leaves of each shape begin when the shapes are put into one tuple; at the end, how many there are."""
    return tuple(accumulate([len(leaves(shape)) if shape.is_tuple else 1 for shape in shapes], initial=0))


@lru_cache(maxsize=1 << 10)
def element_starts(shape: Shape) -> tuple[int, ...]:
    """`first_leaves` of the elements of a tuple."""
    return first_leaves(shape.tuple_shapes)


class Runtime(NamedTuple):
    """Where the value of a runtime variable comes from: an element of an operand."""

    operand: int
    map: IndexingMap
    """From the variables of the access to the element. It has the dimensions of the access; its ranges too if it depends on any."""
    clamped: bool = True
    """Whether the operation clamps the value into the variable's bounds. If not, it leaves out what lies beyond."""


class Replicas(NamedTuple):
    """Which replica holds an element, for operations across replicas."""

    map: IndexingMap
    """From the dimensions of the access to a position in the list of replicas that data comes from (goes to)."""
    groups: tuple[tuple[int, ...], ...] = ()
    """Replicas that exchange data among themselves. Empty: all replicas in order."""
    pairs: tuple[tuple[int, int], ...] | None = None
    """(source, target) instead of groups."""


class Access(NamedTuple):
    """One way in which an array is accessed, without the instructions: `OperandIndexing` before it is bound."""

    map: IndexingMap
    leaf: int = 0
    """Output to input: which leaf of the operand. Input to output: 0."""
    runtime: tuple[Runtime | None, ...] = ()
    """One for each runtime variable of the map. None: the position of the executing replica in its group."""
    replicas: Replicas | None = None
    every: bool = False
    """Nothing narrower than every element is known to be true."""


Row: TypeAlias = tuple[Access, ...]
Rows: TypeAlias = tuple[Row, ...]


class Sparse(tuple[Row, ...]):  # noqa: SLOT001  # a tuple has no room for slots of its own
    """Rows of which few are not empty: `given` holds those by number. Whoever goes through hundreds of rows asks it instead."""

    given: dict[int, Row]


OutputRule: TypeAlias = Callable[[Op, int], Rows]
InputRule: TypeAlias = Callable[[Op, int, int], Rows]
Reader: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]


class Registered(NamedTuple):
    """A rule, the reader of the attributes it needs, and the key under which its answers are filed beside the shapes."""

    rule: Callable[..., Rows]
    attributes: Reader | None
    key: Reader | None
    """Of the attributes; None where there are none."""
    number: int
    """Of the registration: rules with different readers are filed apart."""


_registrations: list[Registered] = []
OUTPUT_TO_INPUT: dict[str, Registered] = {}
INPUT_TO_OUTPUT: dict[str, Registered] = {}
CALLS: dict[str, str] = {}
UNKNOWN: dict[str, str] = {}
"""Opcodes that are knowingly not answered, and why."""


def _register(
    table: dict[str, Registered], opcodes: tuple[str, ...], rule: Callable[..., Rows], attributes: Reader | None
) -> None:
    registered = unlisted(rule, attributes)
    for opcode in opcodes:
        if opcode in table or opcode in UNKNOWN or opcode in CALLS:
            raise ValueError(f"{opcode} is registered twice")
        table[opcode] = registered


def unlisted(rule: Callable[..., Rows], attributes: Reader | None = None) -> Registered:
    """A rule that no opcode has by itself: part of the answer for one whose maps depend on what it calls too."""
    registered = Registered(rule, attributes, None if attributes is None else key_of(attributes), len(_registrations))
    _registrations.append(registered)
    return registered


def output_to_input(*opcodes: str, attributes: Reader | None = None) -> Callable[[OutputRule], OutputRule]:
    """Registers a rule from outputs to operands. It gets the op and the number of the output's leaf."""

    def register(rule: OutputRule) -> OutputRule:
        _register(OUTPUT_TO_INPUT, opcodes, rule, attributes)
        return rule

    return register


def input_to_output(*opcodes: str, attributes: Reader | None = None) -> Callable[[InputRule], InputRule]:
    """Registers a rule from operands to outputs. It gets the op, the operand's number and the number of the operand's leaf."""

    def register(rule: InputRule) -> InputRule:
        _register(INPUT_TO_OUTPUT, opcodes, rule, attributes)
        return rule

    return register


def calls(opcode: str, how: str) -> None:
    """Declares an opcode whose maps come from the computations it calls. `how` says in a few words."""
    CALLS[opcode] = how


def is_calling(opcode: str) -> bool:
    """Whether the opcode's maps come from the computations it calls."""
    return opcode in CALLS


def unknown(opcode: str, reason: str) -> None:
    """Declares an opcode that is knowingly not answered."""
    UNKNOWN[opcode] = reason
