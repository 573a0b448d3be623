"""What the completions of several families share: checks of `dimensions`, fields of attributes that text leaves out, counts of operands."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written
from xlashape.hlo.ops.operation import FIELDS
from xlashape.proto import xla

__all__ = [
    "DEFAULT_BATCH_GROUP_COUNT",
    "DEFAULT_FEATURE_GROUP_COUNT",
    "EMPTY_WINDOW",
    "check_even_operand_count",
    "exactly_one_dimension",
    "precision_of_each_operand",
]

EMPTY_WINDOW: Final = FIELDS.message("window", b"")
DEFAULT_FEATURE_GROUP_COUNT: Final = FIELDS.integer("feature_group_count", 1)
DEFAULT_BATCH_GROUP_COUNT: Final = FIELDS.integer("batch_group_count", 1)

# A list of one small number takes three bytes: tag, length, number.
_BYTES_OF_ONE_DIMENSION = 3


def exactly_one_dimension(written: Written, value: bytes | None) -> bytes:
    """`dimensions`, which must name one dimension where it is written."""
    if value is None:
        return b""
    if len(value) != _BYTES_OF_ONE_DIMENSION:
        count = len(xla.HloInstructionProto.FromString(value).dimensions)
        if count != 1:
            raise CannotComplete(f"{written.opcode} needs exactly one dimension, found {count}")
    return value


def precision_of_each_operand(written: Written, value: bytes | None) -> bytes:
    """`operand_precision`: DEFAULT for each operand where it is not written."""
    if value is not None:
        return value
    precisions = [xla.PrecisionConfig.DEFAULT] * len(written.operands)
    return FIELDS.message("precision_config", xla.PrecisionConfig(operand_precision=precisions))


def check_even_operand_count(written: Written) -> None:
    """A row's `check`: as many operands as initial values."""
    count = len(written.operands)
    if count % 2:
        raise CannotComplete(f"expected an even number of operands, found {count}")
