"""Finds the row (`Operation`) of an opcode. The rows are in a file for each family of operations, and `_FAMILIES` lists
these files.
"""

from __future__ import annotations

from typing import Final

from xlashape.base.caches import cached
from xlashape.hlo.ops import (
    asynchronous,
    collective,
    contraction,
    control,
    creation,
    custom,
    elementwise,
    movement,
    reduction,
    slicing,
    sorting,
    transfer,
)
from xlashape.hlo.ops.opcode import UnknownOpcode
from xlashape.hlo.ops.operation import Operation, at_least

_FAMILIES = (
    asynchronous, collective, contraction, control, creation, custom, elementwise, movement, reduction, slicing,
    sorting, transfer,
)  # fmt: skip

OPERATIONS: Final[dict[str, Operation]] = {}
"""Name of an opcode → its row. A member of Opcode finds its row too, because it equals its name. (Keys are plain
strings, since a look-up by the string of a proto takes twice as long if keys are of a subclass.)
"""


def register(row: Operation) -> None:
    """Adds a row. Raises ValueError if its opcode has a row already."""
    if row.opcode in OPERATIONS:
        raise ValueError(f"{row.opcode} has a row already")
    OPERATIONS[str(row.opcode)] = row


def unregister(opcode: str) -> None:
    """Removes the row of an opcode. Raises KeyError if there is none."""
    del OPERATIONS[opcode]


def operation_of(opcode: str) -> Operation:
    """The row of an opcode. An opcode that this version does not know gets a row that allows any number of operands and
    any shape, and has no attributes of its own.

    >>> operation_of("opt-barrier").passes_first_operand_through, operation_of("frobnicate")
    (True, <Operation frobnicate>)
    """
    return OPERATIONS.get(opcode) or _unknown(opcode)


@cached(max_bytes=1 << 18, weigh=lambda key, row: 2500 + len(key[0]))
def _unknown(opcode: str) -> Operation:
    return Operation(UnknownOpcode(opcode), operands=at_least(0))


for _family in _FAMILIES:
    for _row in _family.OPERATIONS:
        register(_row)
