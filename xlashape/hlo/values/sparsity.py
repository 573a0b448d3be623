r"""Which operands of a convolution or a dot are sparse, and how, and which operands scale them block by block.

sparsity    := '{' (('lhs' | 'rhs') '=' operand)* '}'
operand     := '{' ('sparsity=' INT 'x' INT | 'dimension=' INT | 'stride=' INT | 'idx=' INT)* '}'      non-zeros of a block 'x' its size
scaling     := '{' (('lhs' | 'rhs') '=' '{' (('scale_idx=' | 'zero_idx=') INT | ('strides=' | 'steps=') INT ('x' INT)*)* '}')* '}'

The attribute `sparsity` of a dot is older: XLA has had none since jaxlib 0.7 (xlashape.hlo.older). Operands after lhs and rhs say which elements are there.

of a dot    := side '.' INT '@' INT ':' INT ('_' …)*          dimension '@' non-zeros of a block ':' its size; side := 'L' | 'R'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.older import SparseOperand
from xlashape.hlo.values.attribute import FIELDS, Attribute, Context, submessage
from xlashape.hlo.values.window import parse_numbers_by_x
from xlashape.proto import xla

__all__ = ["BLOCK_SCALING_CONFIG", "DOT_SPARSITY", "SPARSITY_CONFIG"]

_SPARSE_OPERAND: Final = re.compile(r"([LR])\.([0-9]{1,9})@([0-9]{1,9}):([0-9]{1,9})")


_Side = Callable[[HloCursor, Any, str, int], None]
"""Reads a field of what is said of one operand: (cursor, message, the field's name, its offset)."""


def _read_sides(cursor: HloCursor, message: Any, read_field: _Side) -> None:
    """Reads `{lhs={…} rhs={…}}` into `message`."""
    cursor.expect("{")
    while not cursor.accept("}"):
        cursor.skip_space()
        at = cursor.at
        side = cursor.parse_attribute_name()
        if side not in ("lhs", "rhs"):
            raise cursor.error(f"expected lhs or rhs, found {side!r}", at=at, expected="lhs or rhs", found=side)
        operand = getattr(message, side)
        operand.SetInParent()
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            read_field(cursor, operand, cursor.parse_attribute_name(), at)


def _sides_text(message: Any, text: Callable[[Any], str]) -> str:
    """The text of both operands; "" where nothing is said of either."""
    texts = [f"{side}={{{text(getattr(message, side))}}}" for side in ("lhs", "rhs") if message.HasField(side)]
    return f"{{{' '.join(texts)}}}" if texts else ""


# -- sparsity_config ------------------------------------------------------------------------


def _read_sparse_field(cursor: HloCursor, operand: Any, name: str, at: int) -> None:
    if name == "sparsity":
        start = cursor.at
        what = "the non-zeros of a block and its size, such as '2x4'"
        numbers = parse_numbers_by_x(cursor, what)
        if len(numbers) != 2:
            cursor.at = start
            cursor.fail(what)
        operand.num_non_zero, operand.block_size = numbers
    elif name in ("dimension", "stride", "idx"):
        setattr(operand, name, cursor.parse_int(name))
    else:
        raise cursor.error(f"expected sparsity, dimension, stride or idx, found {name!r}", at=at, found=name)


def _sparse_text(operand: Any) -> str:
    sizes = f"sparsity={operand.num_non_zero}x{operand.block_size}"
    return f"{sizes} dimension={operand.dimension} stride={operand.stride} idx={operand.idx}"


def _read(cursor: HloCursor) -> bytes:
    message = xla.SparsityConfig()
    _read_sides(cursor, message, _read_sparse_field)
    return FIELDS.message("sparsity_config", message)


def _write(message: Any, _context: Context) -> str:
    text = _sides_text(xla.SparsityConfig.FromString(submessage(message.sparsity_config)), _sparse_text)
    return f", sparsity_config={text}" if text else ""


SPARSITY_CONFIG: Final = Attribute("sparsity_config", _read, _write)


# -- block_scaling_config -------------------------------------------------------------------


def _read_scaling_field(cursor: HloCursor, operand: Any, name: str, at: int) -> None:
    if name in ("scale_idx", "zero_idx"):
        setattr(operand, name, cursor.parse_int(name))
    elif name in ("strides", "steps"):
        getattr(operand, name).extend(parse_numbers_by_x(cursor, f"numbers with 'x' between them for {name}"))
    else:
        raise cursor.error(f"expected scale_idx, zero_idx, strides or steps, found {name!r}", at=at, found=name)


def _scaling_text(operand: Any) -> str:
    text = f"scale_idx={operand.scale_idx}"
    if operand.HasField("zero_idx"):
        text += f" zero_idx={operand.zero_idx}"
    if operand.strides:
        text += f" strides={'x'.join(map(str, operand.strides))}"
    if operand.steps:
        text += f" steps={'x'.join(map(str, operand.steps))}"
    return text


def _read_scaling(cursor: HloCursor) -> bytes:
    message = xla.BlockScalingConfig()
    _read_sides(cursor, message, _read_scaling_field)
    return FIELDS.message("block_scaling_config", message)


def _write_scaling(message: Any, _context: Context) -> str:
    config = xla.BlockScalingConfig.FromString(submessage(message.block_scaling_config))
    text = _sides_text(config, _scaling_text)
    return f", block_scaling_config={text}" if text else ""


BLOCK_SCALING_CONFIG: Final = Attribute("block_scaling_config", _read_scaling, _write_scaling)


# -- sparsity of a dot ----------------------------------------------------------------------


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
