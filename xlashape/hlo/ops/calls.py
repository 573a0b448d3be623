"""How an operation calls computations: which attributes name them, in which order the proto lists them, and which
values their parameters take.

Text and proto order the computations differently. A `while` is written `condition=…, body=…`; its proto lists the body
first.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from xlashape.hlo.ops.attributes import Presence
from xlashape.hlo.values.attribute import Attribute, not_written

# The reader resolves the names of computations itself. The writer writes all calls of an instruction at once, as the
# `Calls` of its row says. So these attributes have no functions for reading and writing.
CALLED: Final = {
    name: Attribute(name, None, not_written)
    for name in (
        "body",
        "branch_computations",
        "called_computations",
        "calls",
        "condition",
        "false_computation",
        "scatter",
        "select",
        "to_apply",
        "true_computation",
    )
}
"""Name → attribute, for the attributes that name computations."""

LISTS: Final = frozenset(("branch_computations", "called_computations"))
"""The attributes whose value is a list of computations in braces."""


class Arguments(Enum):
    """Which values the parameters of a called computation take."""

    ELEMENTS = "elements"
    """Elements of the operands, or values that the operation computes, as in a reducer or a comparator."""
    OPERANDS = "operands"
    """The operands of the instruction, in their order."""
    CARRIED = "carried"
    """The operands of the instruction at first, then the result of the iteration before."""
    ONE_OPERAND_EACH = "one operand each"
    """Branch number i takes operand number i + 1."""


class Calls(NamedTuple):
    """The attributes by which an operation names the computations that it calls."""

    label: str
    """The attribute for any number of computations. It is written if the number of calls does not fit `parts`."""
    presence: Presence = Presence.REQUIRED
    """Whether text must, may or must not have the attributes."""
    parts: tuple[tuple[str, int], ...] = ()
    """(attribute, index of its computation in the proto), for attributes that name one computation each, in the order
    in which they are written.
    """
    is_list: bool = False
    """Whether the value of `label` is a list in braces, even of one computation."""
    parts_need_predicate: bool = False
    """Whether `parts` are written only where the first operand is a predicate, and `label` otherwise."""
    label_of_bodies: str = ""
    """The attribute that is written in place of `label` if the bodies of the computations follow; "" for `label`."""
    replacement: str = ""
    """An attribute that text may have in place of `label`. It names a single computation."""
    arguments: Arguments = Arguments.ELEMENTS
    """What the parameters of the called computations take."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes that text may have, in the order in which they are written."""
        if self.presence is Presence.WRITTEN_ONLY:
            return ()
        parts = tuple([name for name, _ in self.parts])
        return parts if parts and not self.is_list else (*parts, self.label)

    @property
    def names_in_proto(self) -> tuple[str, ...]:
        """The same names as `names`, in the order in which the proto lists their computations."""
        indices = dict(self.parts)
        return tuple(sorted(self.names, key=lambda name: indices.get(name, len(indices))))


NO_CALLS = Calls("calls", Presence.WRITTEN_ONLY)
"""The operation calls nothing, and the reader refuses calls. If a proto has calls, they are written as `calls=`."""
TO_APPLY = Calls("to_apply")
TO_APPLY_OR_CALLS = Calls("to_apply", label_of_bodies="calls")
"""As TO_APPLY, but XLA writes `calls=` if the body of the computation follows."""
TO_APPLY_WRITTEN_ONLY = Calls("to_apply", Presence.WRITTEN_ONLY)
CALLS = Calls("calls", arguments=Arguments.OPERANDS)
OPTIONAL_CALLS = Calls("calls", Presence.OPTIONAL)
"""For a later step of an asynchronous operation: an earlier instruction has started the computation."""
CALL_TO_APPLY = Calls("to_apply", arguments=Arguments.OPERANDS)
CALLED_COMPUTATIONS = Calls("called_computations", Presence.OPTIONAL, is_list=True, replacement="to_apply")
CONDITION_AND_BODY = Calls("calls", parts=(("condition", 1), ("body", 0)), arguments=Arguments.CARRIED)
SELECT_AND_SCATTER = Calls("calls", parts=(("select", 0), ("scatter", 1)))
BRANCHES = Calls(
    "branch_computations",
    Presence.OPTIONAL,
    parts=(("true_computation", 0), ("false_computation", 1)),
    is_list=True,
    parts_need_predicate=True,
    arguments=Arguments.ONE_OPERAND_EACH,
)
