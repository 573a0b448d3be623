r"""Which operands of a convolution are sparse, and how. XLA reads it and does not write it.

sparsity    := '{' (('lhs' | 'rhs') '=' operand)* '}'
operand     := '{' ('sparsity=' INT 'x' INT | 'dimension=' INT | 'stride=' INT)* '}'      non-zeros of a block 'x' its size
"""

from __future__ import annotations

from typing import Final

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import FIELDS, Attribute, not_written
from xlashape.hlo.values.window import parse_numbers_by_x
from xlashape.proto import xla

__all__ = ["SPARSITY_CONFIG"]


def _read(cursor: HloCursor) -> bytes:
    message = xla.SparsityConfig()
    cursor.expect("{")
    while not cursor.accept("}"):
        cursor.skip_space()
        at = cursor.at
        side = cursor.parse_attribute_name()
        if side not in ("lhs", "rhs"):
            raise cursor.error(f"expected lhs or rhs, found {side!r}", at=at, expected="lhs or rhs", found=side)
        operand = message.lhs if side == "lhs" else message.rhs
        operand.SetInParent()
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            name = cursor.parse_attribute_name()
            if name == "sparsity":
                start = cursor.at
                what = "the non-zeros of a block and its size, such as '2x4'"
                numbers = parse_numbers_by_x(cursor, what)
                if len(numbers) != 2:
                    cursor.at = start
                    cursor.fail(what)
                operand.num_non_zero, operand.block_size = numbers
            elif name == "dimension":
                operand.dimension = cursor.parse_int(name)
            elif name == "stride":
                operand.stride = cursor.parse_int(name)
            else:
                raise cursor.error(f"expected sparsity, dimension or stride, found {name!r}", at=at, found=name)
    return FIELDS.message("sparsity_config", message)


SPARSITY_CONFIG: Final = Attribute("sparsity_config", _read, not_written)
