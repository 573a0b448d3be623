"""Which function answers for which operation: one rule for each opcode and direction, registered by decorator.

    @output_to_input(Opcode.TRANSPOSE, attributes=DIMENSIONS)
    def transpose_output_to_input(op: Op, output: int) -> Rows: ...

A rule is a pure function of an `Op`. Opcodes whose maps come from the computations that they call are declared with `calls`; opcodes about which
nothing can be said, with `unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

from xlashape.hlo import Opcode
from xlashape.hlo.values.attribute import Attribute, Codec
from xlashape.indexing.ops.keys import key_of
from xlashape.indexing.ops.op import Op, Rows
from xlashape.proto import xla

OutputRule: TypeAlias = Callable[[Op, int], Rows]
"""From (op, output's leaf) to the rows of the operands."""
InputRule: TypeAlias = Callable[[Op, int, int], Rows]
"""From (op, operand, operand's leaf) to the rows of the output's leaves."""
Reader: TypeAlias = Callable[[xla.HloInstructionProto], Hashable]
Attributes: TypeAlias = "Attribute | Codec | Reader"
"""The attribute, or the value, that a rule needs; a function where a rule needs several."""


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
"""Opcodes whose maps come from the computations that they call, and how in a few words."""
WITHOUT_BOUNDS: set[str] = set()
"""Opcodes whose rules answer for dimensions without a bound too."""
UNKNOWN: dict[str, str] = {}
"""Opcodes that are knowingly not answered, and why."""


def registered_rule(rule: Callable[..., Rows], attributes: Attributes | None = None) -> Registered:
    """A rule with its place in the cache. It answers for no opcode by itself: the analysis of a sort asks it for part of the answer."""
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
    """Declares an opcode that is knowingly not answered."""
    UNKNOWN[opcode] = reason
