r"""The attributes sparsity_config and block_scaling_config of convolutions and dots. The first says that an operand is
sparse: of each block of elements along one dimension only some are stored. The second says that an operand is scaled
block by block.

sparsity   := '{' (('lhs' | 'rhs') '=' '{' part* '}')* '}'
part       := 'sparsity=' INT 'x' INT | ('dimension=' | 'stride=' | 'idx=') INT        non-zeros of a block 'x' its size
scaling    := '{' (('lhs' | 'rhs') '=' '{' scale* '}')* '}'
scale      := ('scale_idx=' | 'zero_idx=') INT | ('strides=' | 'steps=') INT ('x' INT)*

Operands after lhs and rhs hold the positions of the stored elements, the scales and the zero points. The fields `idx`,
`scale_idx` and `zero_idx` are the numbers of these operands.

Until jaxlib 0.6, XLA had the attribute `sparsity` of a dot instead (xlashape.hlo.module_proto.schema_compat):

of a dot   := side '.' INT '@' INT ':' INT ('_' …)*   dimension '@' non-zeros of a block ':' its size; side := 'L' | 'R'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from xlashape.hlo.module_proto.schema_compat import DOT_SPARSITY as SPARSITY_FIELD
from xlashape.hlo.module_proto.schema_compat import SparseOperand, sparse_operands
from xlashape.hlo.tokens import HloCursor
from xlashape.hlo.values.attribute import Attribute, Codec, Context, message_value, record_of, structured, whole
from xlashape.hlo.values.window import parse_numbers_by_x
from xlashape.proto import xla
from xlashape.proto.wire import fields

_SPARSE_OPERAND: Final = re.compile(r"([LR])\.([0-9]{1,9})@([0-9]{1,9}):([0-9]{1,9})")


_Read = Callable[[HloCursor, dict[str, Any], str, int], None]
"""Reads one field of an operand's configuration: (cursor, the fields read so far, the field's name, its offset)."""


def _read_sides(cursor: HloCursor, read_field: _Read) -> dict[str, dict[str, Any]]:
    """Reads `{lhs={…} rhs={…}}` and returns the fields of each operand. If a field is given twice, the last counts."""
    sides: dict[str, dict[str, Any]] = {}
    cursor.expect("{")
    while not cursor.accept("}"):
        cursor.skip_space()
        at = cursor.at
        side = cursor.parse_attribute_name()
        if side not in ("lhs", "rhs"):
            raise cursor.error(f"expected lhs or rhs, found {side!r}", at=at, expected="lhs or rhs", found=side)
        found = sides.setdefault(side, {})
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.at
            read_field(cursor, found, cursor.parse_attribute_name(), at)
    return sides


def _sides_text(lhs: OperandSparsity | OperandScaling | None, rhs: OperandSparsity | OperandScaling | None) -> str:
    """The text of the configurations of both operands; "" if neither operand has one."""
    texts = [f"{side}={{{each.write()}}}" for side, each in (("lhs", lhs), ("rhs", rhs)) if each is not None]
    return f"{{{' '.join(texts)}}}" if texts else ""


def _is_said(config: SparsityConfig | BlockScalingConfig) -> bool:
    """Whether an operand has a configuration."""
    return (config.lhs or config.rhs) is not None


# -- sparsity_config ------------------------------------------------------------------------


class OperandSparsity(NamedTuple):
    """Which elements of a sparse operand are stored: `num_non_zero` of each block of `block_size` along `dimension`.
    Operand number `idx` holds their positions.
    """

    num_non_zero: int = 0
    block_size: int = 0
    dimension: int = 0
    stride: int = 0
    idx: int = 0

    def write(self) -> str:
        """The text of the sparsity of one operand, such as `sparsity=2x4 dimension=0 stride=1 idx=2`."""
        sizes = f"sparsity={self.num_non_zero}x{self.block_size}"
        return f"{sizes} dimension={self.dimension} stride={self.stride} idx={self.idx}"


class SparsityConfig(NamedTuple):
    """The sparsity of each operand; None for a dense operand.

    >>> SparsityConfig.parse("{rhs={sparsity=2x4 dimension=0 stride=1 idx=2}}").rhs.block_size
    4
    """

    lhs: OperandSparsity | None = None
    rhs: OperandSparsity | None = None

    @classmethod
    def parse(cls, text: str) -> SparsityConfig:
        """The configuration that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> SparsityConfig:
        """Reads the configuration at the cursor."""
        return cls(
            **{side: OperandSparsity(**found) for side, found in _read_sides(cursor, _read_sparse_field).items()}
        )

    def write(self) -> str:
        """The text, such as `{rhs={sparsity=2x4 dimension=0 stride=1 idx=2}}`; "" if no operand is sparse."""
        return _sides_text(self.lhs, self.rhs)

    @classmethod
    def of_proto(cls, message: xla.SparsityConfig) -> SparsityConfig:
        """The configuration of a message."""

        def of(side: Literal["lhs", "rhs"]) -> OperandSparsity | None:
            return record_of(OperandSparsity, getattr(message, side)) if message.HasField(side) else None

        return cls(of("lhs"), of("rhs"))

    def to_proto(self) -> xla.SparsityConfig:
        """A new `xla.SparsityConfig`."""
        return _message_of_sides(xla.SparsityConfig(), self.lhs, self.rhs)

    def __str__(self) -> str:
        return self.write()


def _message_of_sides(message: Any, *sides: OperandSparsity | OperandScaling | None) -> Any:
    for name, side in zip(("lhs", "rhs"), sides, strict=True):
        if side is not None:
            operand = getattr(message, name)
            operand.SetInParent()
            for field, value in side._asdict().items():
                if isinstance(value, tuple):
                    getattr(operand, field).extend(value)
                elif value is not None:
                    setattr(operand, field, value)
    return message


def _read_sparse_field(cursor: HloCursor, found: dict[str, Any], name: str, at: int) -> None:
    if name == "sparsity":
        start = cursor.at
        what = "the non-zeros of a block and its size, such as '2x4'"
        numbers = parse_numbers_by_x(cursor, what)
        if len(numbers) != 2:
            cursor.at = start
            cursor.fail(what)
        found["num_non_zero"], found["block_size"] = numbers
    elif name in ("dimension", "stride", "idx"):
        found[name] = cursor.parse_int(name)
    else:
        raise cursor.error(f"expected sparsity, dimension, stride or idx, found {name!r}", at=at, found=name)


SPARSITY_CONFIG: Final = structured(
    "sparsity_config", SparsityConfig, value=message_value("sparsity_config", SparsityConfig, is_said=_is_said)
)


# -- block_scaling_config -------------------------------------------------------------------


class OperandScaling(NamedTuple):
    """How an operand is scaled block by block. Operand number `scale_idx` holds the scales, operand number `zero_idx`
    the zero points, if there are any."""

    scale_idx: int = 0
    zero_idx: int | None = None
    strides: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def write(self) -> str:
        """The text of the scaling of one operand, such as `scale_idx=1 zero_idx=3 strides=1x2 steps=2x4`."""
        text = f"scale_idx={self.scale_idx}"
        if self.zero_idx is not None:
            text += f" zero_idx={self.zero_idx}"
        if self.strides:
            text += f" strides={'x'.join(map(str, self.strides))}"
        if self.steps:
            text += f" steps={'x'.join(map(str, self.steps))}"
        return text


class BlockScalingConfig(NamedTuple):
    """The scaling of each operand; None for an operand that is not scaled.

    >>> BlockScalingConfig.parse("{lhs={scale_idx=1 strides=1x2}}").lhs.strides
    (1, 2)
    """

    lhs: OperandScaling | None = None
    rhs: OperandScaling | None = None

    @classmethod
    def parse(cls, text: str) -> BlockScalingConfig:
        """The configuration that `text` describes, braces included. Raises ParseError."""
        return whole(cls.read, text)

    @classmethod
    def read(cls, cursor: HloCursor) -> BlockScalingConfig:
        """Reads the configuration at the cursor."""
        return cls(
            **{side: OperandScaling(**found) for side, found in _read_sides(cursor, _read_scaling_field).items()}
        )

    def write(self) -> str:
        """The text, such as `{lhs={scale_idx=1}}`; "" if no operand is scaled."""
        return _sides_text(self.lhs, self.rhs)

    @classmethod
    def of_proto(cls, message: xla.BlockScalingConfig) -> BlockScalingConfig:
        """The configuration of a message."""

        def of(side: Literal["lhs", "rhs"]) -> OperandScaling | None:
            operand = getattr(message, side)
            zero = operand.zero_idx if operand.HasField("zero_idx") else None
            values = (operand.scale_idx, zero, tuple(operand.strides), tuple(operand.steps))
            return OperandScaling(*values) if message.HasField(side) else None

        return cls(of("lhs"), of("rhs"))

    def to_proto(self) -> xla.BlockScalingConfig:
        """A new `xla.BlockScalingConfig`."""
        return _message_of_sides(xla.BlockScalingConfig(), self.lhs, self.rhs)

    def __str__(self) -> str:
        return self.write()


def _read_scaling_field(cursor: HloCursor, found: dict[str, Any], name: str, at: int) -> None:
    if name in ("scale_idx", "zero_idx"):
        found[name] = cursor.parse_int(name)
    elif name in ("strides", "steps"):
        numbers = parse_numbers_by_x(cursor, f"numbers with 'x' between them for {name}")
        found[name] = (*found.get(name, ()), *numbers)
    else:
        raise cursor.error(f"expected scale_idx, zero_idx, strides or steps, found {name!r}", at=at, found=name)


BLOCK_SCALING_CONFIG: Final = structured(
    "block_scaling_config",
    BlockScalingConfig,
    value=message_value("block_scaling_config", BlockScalingConfig, is_said=_is_said),
)


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


def _write_of_dot(message: xla.HloInstructionProto, _context: Context) -> str:
    texts = [
        f"{'R' if each.operand else 'L'}.{each.dimension}@{each.non_zeros}:{each.block_size}"
        for each in sparse_operands(message)
    ]
    return f", sparsity={'_'.join(texts)}" if texts else ""


def _put_of_dot(instruction: xla.HloInstructionProto, value: Any) -> None:
    added = [SparseOperand(*each).to_field() for each in value or ()]
    data = instruction.SerializePartialToString()
    kept = [data[start:end] for number, _, start, _, end in fields(data) if number != SPARSITY_FIELD]
    instruction.Clear()
    instruction.MergeFromString(b"".join([*kept, *added]))


DOT_SPARSITY: Final = Attribute(
    "sparsity", _read_of_dot, _write_of_dot, Codec(sparse_operands, _put_of_dot, "a list of SparseOperand")
)
