"""Random numbers."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.ops.attributes import required
from xlashape.hlo.ops.opcode import Opcode
from xlashape.hlo.ops.operation import Operation, at_least, exactly
from xlashape.hlo.ops.verification import any_shape
from xlashape.hlo.values.enums import DISTRIBUTION, RNG_ALGORITHM
from xlashape.hlo.values.plain import DELTA

__all__ = ["OPERATIONS"]

OPERATIONS: Final = (
    Operation(Opcode.RNG, operands=at_least(0), attributes=(required(DISTRIBUTION),), verify=any_shape),
    Operation(Opcode.RNG_BIT_GENERATOR, operands=exactly(1), attributes=(required(RNG_ALGORITHM),), verify=any_shape),
    Operation(Opcode.RNG_GET_AND_UPDATE_STATE, operands=exactly(0), attributes=(required(DELTA),)),
)
