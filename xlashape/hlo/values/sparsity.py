r"""Which operands of a convolution or a dot are sparse, and how.

sparsity    := '{' (('lhs' | 'rhs') '=' operand)* '}'
operand     := '{' ('sparsity=' INT 'x' INT | 'dimension=' INT | 'stride=' INT | 'idx=' INT)* '}'      non-zeros of a block 'x' its size

The attribute of a dot is older: XLA has had none since jaxlib 0.7 (xlashape.hlo.older). Operands after lhs and rhs say which elements are there.

of a dot    := side '.' INT '@' INT ':' INT ('_' …)*          dimension '@' non-zeros of a block ':' its size; side := 'L' | 'R'
"""

from __future__ import annotations

import re
from typing import Any, Final

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.older import SparseOperand
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, submessage
from xlashape.hlo.values.window import parse_numbers_by_x
from xlashape.proto import xla

__all__ = ["DOT_SPARSITY", "SPARSITY_CONFIG"]

_SPARSE_OPERAND: Final = re.compile(r"([LR])\.([0-9]{1,9})@([0-9]{1,9}):([0-9]{1,9})")


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
            elif name == "idx":
                operand.idx = cursor.parse_int(name)
            else:
                raise cursor.error(f"expected sparsity, dimension, stride or idx, found {name!r}", at=at, found=name)
    return FIELDS.message("sparsity_config", message)


def _write(message: Any, _context: Context) -> str:
    config = xla.SparsityConfig.FromString(submessage(message.sparsity_config))
    texts = [f"{side}={_operand_text(getattr(config, side))}" for side in ("lhs", "rhs") if config.HasField(side)]
    return f", sparsity_config={{{' '.join(texts)}}}" if texts else ""


def _operand_text(operand: Any) -> str:
    sizes = f"sparsity={operand.num_non_zero}x{operand.block_size}"
    return f"{{{sizes} dimension={operand.dimension} stride={operand.stride} idx={operand.idx}}}"


SPARSITY_CONFIG: Final = Attribute("sparsity_config", _read, _write)


def _read_of_dot(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    data = b""
    while True:
        match = _SPARSE_OPERAND.match(cursor.text, cursor.at)
        if match is None:
            cursor.fail("a sparse operand, such as 'L.1@2:4'")
        data += SparseOperand("LR".index(match[1]), int(match[2]), int(match[3]), int(match[4])).to_field()
        cursor.at = match.end()
        if not cursor.text.startswith("_", cursor.at):
            return data
        cursor.at += 1


def _write_of_dot(message: Any, _context: Context) -> str:
    texts: list[str] = []
    for data in message.dot_sparsity:
        sparse = SparseOperand.of(data)
        texts.append(f"{'R' if sparse.operand else 'L'}.{sparse.dimension}@{sparse.non_zeros}:{sparse.block_size}")
    return f", sparsity={'_'.join(texts)}" if texts else ""


DOT_SPARSITY: Final = Attribute("sparsity", _read_of_dot, _write_of_dot)
