"""The rows of all opcodes. A new family of operations is added to the list in this file."""

from __future__ import annotations

from typing import Final

from xlashape.caches import cached
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

OPERATIONS: Final[dict[str, Operation]] = {}
"""The row of every opcode, by name. An Opcode finds it too, because it equals its name. (Keys are plain strings because
a look-up by the string that a proto has takes twice as long among keys of a subclass.)
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
    """The row of an opcode. For an opcode that this version does not know, a row that
    allows any number of operands and any shape, and has no attributes of its own.

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
