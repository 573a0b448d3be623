"""What text may have for an opcode: what the opcode's row says, or what an asynchronous form such as `negate-start` takes.

`negate-start(p)` is an async-start of a negate: it takes the operands and attributes of a negate, and those of an async-start that a
negate does not have.
`negate-update(s, …)` and `negate-done(s)` take the started operation, and the attributes that any instruction may have. The update also
takes operands that the start does not have, and may have output_to_operand_aliasing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xlashape.hlo.ops.common import COMMON
from xlashape.hlo.ops.opcode import Opcode, UnknownOpcode
from xlashape.hlo.ops.operation import AsyncStep, Count, Operation, at_least
from xlashape.hlo.ops.registry import OPERATIONS
from xlashape.hlo.values.attribute import Attribute

__all__ = ["Form", "WrappedForm", "form_of"]

_STEPS = {
    step.value: (step, opcode)
    for step, opcode in (
        (AsyncStep.START, Opcode.ASYNC_START),
        (AsyncStep.UPDATE, Opcode.ASYNC_UPDATE),
        (AsyncStep.DONE, Opcode.ASYNC_DONE),
    )
}


class WrappedForm(NamedTuple):
    """What text may have for an asynchronous operation that is written as the operation it wraps."""

    opcode: Opcode | UnknownOpcode
    operands: Count
    required: tuple[str, ...]
    readable: Mapping[str, Attribute]


Form = Operation | WrappedForm


def _has_steps_of_its_own(opcode: str) -> bool:
    """Whether an operation such as copy or send has opcodes of its own for its asynchronous steps."""
    return opcode + AsyncStep.START.value in OPERATIONS or opcode + AsyncStep.DONE.value in OPERATIONS


def form_of(opcode: str) -> tuple[Operation, Form, str] | None:
    """The row of the instruction that text writes with `opcode`, what text may have for it, and the opcode that it wraps, if any.

    None for an opcode that is not known.
    """
    row = OPERATIONS.get(opcode)
    if row is not None:
        return row, row, ""
    wrapped, dash, ending = opcode.rpartition("-")
    inner = OPERATIONS.get(wrapped)
    if inner is None or dash + ending not in _STEPS or _has_steps_of_its_own(wrapped):
        return None
    step, outer = _STEPS[dash + ending]
    row = OPERATIONS[outer]
    own = {use.attribute.name: use.attribute for use in row.attributes}
    if step is AsyncStep.START:
        # Operands that are missing here are those of an update.
        form = WrappedForm(outer, at_least(0), inner.required, {**own, **inner.readable})
    else:
        form = WrappedForm(outer, at_least(1), (), {**COMMON, **own})
    return row, form, wrapped
