"""Functions by which several families of operations infer shapes (`Operation.infer`), and fill in and check attributes
that text has or leaves out (`Use.fill`, `Operation.check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlashape.hlo.ops.attributes import CannotComplete, Written
from xlashape.hlo.ops.operation import CannotInfer, Given
from xlashape.hlo.values.attribute import FIELDS
from xlashape.hlo.values.window import WindowDimension
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape


def first_operand(given: Given) -> Shape:
    """The shape of the first operand, layout included."""
    return given.operands[0]


def called_result(given: Given) -> Shape:
    """The result shape of the first computation that the instruction calls."""
    if not given.results:
        raise CannotInfer("it calls no computation")
    return given.results[0]


def token(_: Given) -> Shape:
    """The shape of a token, for `Operation.infer`."""
    return Shape.token()


def token_shape(_written: Shape, _operands: Sequence[Shape]) -> Shape:
    """The shape of a token, for `Operation.fixed_shape`."""
    return Shape.token()


def array(shape: Shape) -> Shape:
    """Returns `shape`. Raises CannotInfer if it is not an array."""
    if not shape.is_array:
        raise CannotInfer(f"its operands must be arrays, found {shape}")
    return shape


def is_floating(element_type: PrimitiveType) -> bool:
    """Whether a type is floating or complex."""
    return element_type.is_floating or element_type.is_complex


def is_number(element_type: PrimitiveType) -> bool:
    """Whether a type is integral, floating or complex."""
    return element_type.is_integral or element_type.is_floating or element_type.is_complex


def wider_type(a: Shape, b: Shape) -> PrimitiveType:
    """The element type of both operands, or the more precise one of two floating types. Raises CannotInfer for any
    other pair of types.
    """
    x, y = a.element_type, b.element_type
    if x != y and not (x.is_floating and y.is_floating):
        raise CannotInfer(f"the operand types {x} and {y} do not fit together")
    return promoted_type(a, b)


def promoted_type(a: Shape, b: Shape) -> PrimitiveType:
    """The more precise one of two element types of any kinds. Raises CannotInfer for different types of the same
    precision.
    """
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    # XLA ends the process for different types of the same precision.
    if not (x.is_array_type and x.is_known and y.is_array_type and y.is_known) or x.precision == y.precision:
        raise CannotInfer(f"the operand types {x} and {y} do not fit together")
    return x if x.precision > y.precision else y


def window_steps(size: int, window: WindowDimension) -> int:
    """The number of positions that a window takes along a dimension of `size` elements."""
    if window.size <= 0 or window.stride <= 0 or window.base_dilation <= 0 or window.window_dilation <= 0:
        raise CannotInfer("the sizes, strides and dilations of a window must be positive")
    dilated = 0 if size == 0 else (size - 1) * window.base_dilation + 1
    padded = dilated + window.padding_low + window.padding_high
    reach = (window.size - 1) * window.window_dilation + 1
    return 0 if padded < reach else (padded - reach) // window.stride + 1


EMPTY_WINDOW: Final = FIELDS.message("window", b"")
DEFAULT_FEATURE_GROUP_COUNT: Final = FIELDS.integer("feature_group_count", 1)
DEFAULT_BATCH_GROUP_COUNT: Final = FIELDS.integer("batch_group_count", 1)

# Bytes of a serialized `dimensions` with one number below 128: tag, length, number.
_BYTES_OF_ONE_DIMENSION = 3


def exactly_one_dimension(written: Written, value: bytes | None) -> bytes:
    """A `fill` for `dimensions`: checks that a written value names exactly one dimension."""
    if value is None:
        return b""
    if len(value) != _BYTES_OF_ONE_DIMENSION:
        count = len(xla.HloInstructionProto.FromString(value).dimensions)
        if count != 1:
            raise CannotComplete(f"{written.opcode} needs exactly one dimension, found {count}")
    return value


def precision_of_each_operand(written: Written, value: bytes | None) -> bytes:
    """A `fill` for `operand_precision`: if it is not written, each operand gets DEFAULT."""
    if value is not None:
        return value
    precisions = [xla.PrecisionConfig.DEFAULT] * len(written.operands)
    return FIELDS.message("precision_config", xla.PrecisionConfig(operand_precision=precisions))


def check_even_operand_count(written: Written) -> None:
    """A `check` for operations that take as many initial values as inputs: the number of operands must be even."""
    count = len(written.operands)
    if count % 2:
        raise CannotComplete(f"expected an even number of operands, found {count}")
