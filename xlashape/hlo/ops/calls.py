"""How an operation names the computations it calls: by which attributes, in which order the proto lists them, and what they are given.

Text and proto order the computations differently. A `while` is written `condition=…, body=…`; its proto lists the body first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = [
    "BRANCHES",
    "CALLED_COMPUTATIONS",
    "CALLS",
    "CONDITION_AND_BODY",
    "SELECT_AND_SCATTER",
    "TO_APPLY",
    "TO_APPLY_OR_CALLS",
    "Arguments",
    "Calls",
]


class Arguments(Enum):
    """Which values the parameters of a called computation take."""

    ELEMENTS = "elements"
    """Elements of the operands, or values that the operation makes of them: a reducer, a comparator."""
    OPERANDS = "operands"
    """The operands of the instruction, in their order."""
    ONE_OPERAND_EACH = "one operand each"
    """Branch number i takes operand number i + 1."""


class Calls(NamedTuple):
    """The attributes that name called computations."""

    label: str
    """The attribute that names any number of computations. An instruction whose number of calls does not fit `parts` is written with it."""
    parts: tuple[tuple[str, int], ...] = ()
    """Attributes of one computation each with its index in the proto, in the order in which they are written."""
    is_list: bool = False
    """Whether the value of `label` is a list in braces, even of one computation."""
    parts_need_predicate: bool = False
    """Whether `parts` are used only where the first operand is a predicate; otherwise `label` is."""
    label_of_bodies: str = ""
    """The attribute in place of `label` where the computations' bodies are written in full; "" for `label` itself."""
    replacement: str = ""
    """An attribute that text may have instead of `label`, and which then holds alone; "" for none."""
    arguments: Arguments = Arguments.ELEMENTS
    """What the parameters of the called computations stand for."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes in the order in which the proto lists their computations."""
        parts = tuple([name for name, _ in sorted(self.parts, key=lambda part: part[1])])
        return parts if parts and not self.is_list else (*parts, self.label)


TO_APPLY = Calls("to_apply")
TO_APPLY_OR_CALLS = Calls("to_apply", label_of_bodies="calls")
"""As TO_APPLY, but XLA writes `calls=` before a body."""
CALLS = Calls("calls", arguments=Arguments.OPERANDS)
CALLED_COMPUTATIONS = Calls("called_computations", is_list=True, replacement="to_apply")
CONDITION_AND_BODY = Calls("calls", (("condition", 1), ("body", 0)), arguments=Arguments.OPERANDS)
SELECT_AND_SCATTER = Calls("calls", (("select", 0), ("scatter", 1)))
BRANCHES = Calls(
    "branch_computations",
    (("true_computation", 0), ("false_computation", 1)),
    is_list=True,
    parts_need_predicate=True,
    arguments=Arguments.ONE_OPERAND_EACH,
)
