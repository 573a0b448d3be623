"""The computations that an instruction calls: `to_apply=sum`, `condition=c, body=b`, `branch_computations={a, b}`, …

The reader of instructions reads these values itself, because they name computations. In the proto they are one list of ids, in the
order in which the attributes below are declared for an opcode; only a while has its body before its condition.

A list that is longer or shorter than an opcode asks for is written as what it is: `calls=` or `to_apply=` and all names.
"""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.values.attribute import Attribute, Context, flag, not_written
from xlashape.shape import PrimitiveType

__all__ = [
    "BODY",
    "BRANCH_COMPUTATIONS",
    "CALLED_COMPUTATIONS",
    "CALLS",
    "CONDITION",
    "FALSE_COMPUTATION",
    "IS_COMPOSITE",
    "SCATTER",
    "SELECT",
    "TO_APPLY",
    "TO_APPLY_OR_CALLS",
    "TO_APPLY_READ_ONLY",
    "TRUE_COMPUTATION",
]


def _label(name: str, *, with_bodies: str = "") -> Attribute:
    """A label before one computation or several; `with_bodies` is the label before computations written in full."""

    def write(message: Any, context: Context) -> str:
        label = with_bodies if with_bodies and context.prints_bodies else name
        called = message.called_computation_ids
        if len(called) > 1 and context.prints_bodies:
            return f", {label}={context.computation_list_text(called)}"
        return f", {label}={', '.join([context.computation_text(i) for i in called])}" if called else ""

    return Attribute(name, None, write)


def _one_of_two(name: str, index: int) -> Attribute:
    """The computation at `index` where two are called; "" where there are not two."""

    def write(message: Any, context: Context) -> str:
        called = message.called_computation_ids
        return f", {name}={context.computation_text(called[index])}" if len(called) == 2 else ""

    return Attribute(name, None, write)


def _first_or_all(name: str, index: int) -> Attribute:
    """The computation at `index` where two are called, else all of them behind `calls=`."""
    of_two = _one_of_two(name, index)

    def write(message: Any, context: Context) -> str:
        return of_two.write(message, context) or CALLS.write(message, context)

    return Attribute(name, None, write)


def _has_two_branches(message: Any, context: Context) -> bool:
    if len(message.called_computation_ids) != 2:
        return False
    shape = context.operand_shape(0)
    return shape is not None and shape.element_type == PrimitiveType.PRED


def _branch_of_two(name: str, index: int) -> Attribute:
    """A branch of a conditional on a predicate."""

    def write(message: Any, context: Context) -> str:
        if not _has_two_branches(message, context):
            return ""
        return f", {name}={context.computation_text(message.called_computation_ids[index])}"

    return Attribute(name, None, write)


def _write_branches(message: Any, context: Context) -> str:
    if not message.called_computation_ids or _has_two_branches(message, context):
        return ""
    return f", branch_computations={context.computation_list_text(message.called_computation_ids)}"


def _write_called_computations(message: Any, context: Context) -> str:
    called = message.called_computation_ids
    return f", called_computations={context.computation_list_text(called)}" if called else ""


def _write_is_composite(message: Any, _context: Context) -> str:
    return ", is_composite=true" if message.is_composite and len(message.called_computation_ids) == 1 else ""


CALLS: Final = _label("calls")
TO_APPLY: Final = _label("to_apply")
TO_APPLY_OR_CALLS: Final = _label("to_apply", with_bodies="calls")
"""Those of a reduce-scatter and of a scan, whose label is `calls` where bodies are written in full."""
TO_APPLY_READ_ONLY: Final = TO_APPLY._replace(write=not_written)
"""An old name for what is written as another attribute."""

CONDITION: Final = _first_or_all("condition", 1)
BODY: Final = _one_of_two("body", 0)
SELECT: Final = _first_or_all("select", 0)
SCATTER: Final = _one_of_two("scatter", 1)

TRUE_COMPUTATION: Final = _branch_of_two("true_computation", 0)
FALSE_COMPUTATION: Final = _branch_of_two("false_computation", 1)
BRANCH_COMPUTATIONS: Final = Attribute("branch_computations", None, _write_branches)
CALLED_COMPUTATIONS: Final = Attribute("called_computations", None, _write_called_computations)

IS_COMPOSITE: Final = flag("is_composite")._replace(write=_write_is_composite)
"""Whether a call stands for an operation that a program defines."""
