"""Shapes of results that follow from windows, paddings and dimension numbers: convolution, dot, gather, pad, reduce-window."""

from __future__ import annotations

from collections.abc import Sequence

from xlashape.math import ceil_div
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = [
    "CannotInfer",
    "array",
    "convolution",
    "dot",
    "gather",
    "pad",
    "ragged_dot",
    "reduce_window",
    "select_and_scatter",
]


class CannotInfer(Exception):
    """Operands that do not fit their operation; says how."""


def array(shape: Shape) -> Shape:
    """`shape`, which must be an array."""
    if not shape.is_array:
        raise CannotInfer(f"its operands are arrays, found {shape}")
    return shape


def _wider_type(a: Shape, b: Shape) -> PrimitiveType:
    x, y = a.element_type, b.element_type
    if x == y:
        return x
    if (x.is_floating and y.is_floating) or (x.is_integral and y.is_integral):
        return x if x.bit_width >= y.bit_width else y
    raise CannotInfer(f"operands of types {x} and {y}")


def _windowed(size: int, window: xla.WindowDimension) -> int:
    """How many places a window has along a dimension."""
    if window.size <= 0 or window.stride <= 0 or window.base_dilation <= 0 or window.window_dilation <= 0:
        raise CannotInfer("a window's sizes, strides and dilations are positive")
    dilated = 0 if size == 0 else (size - 1) * window.base_dilation + 1
    padded = dilated + window.padding_low + window.padding_high
    reach = (window.size - 1) * window.window_dilation + 1
    return 0 if padded < reach else (padded - reach) // window.stride + 1


def reduce_window(message: xla.HloInstructionProto, operands: Sequence[Shape], results: Sequence[Shape]) -> Shape:
    """A window of every operand, reduced."""
    inputs = [array(one) for one in operands[: len(operands) // 2]]
    if not inputs or not results or len(message.window.dimensions) != inputs[0].rank:
        raise CannotInfer("its window has the dimensions of its operands")
    sizes = [_windowed(size, one) for size, one in zip(inputs[0].dimensions, message.window.dimensions, strict=True)]
    made = [Shape(one.element_type, sizes, inputs[0].dynamic_dimensions).with_default_layout() for one in inputs]
    return Shape.tuple(made) if results[0].is_tuple else made[0]


def select_and_scatter(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """The operand's shape; the source has an element for each place of the window."""
    shape, source = array(operands[0]), array(operands[1])
    if len(message.window.dimensions) != shape.rank:
        raise CannotInfer("its window has the dimensions of its operand")
    sizes = [_windowed(size, one) for size, one in zip(shape.dimensions, message.window.dimensions, strict=True)]
    if list(source.dimensions) != sizes:
        raise CannotInfer(f"a source of sizes {sizes}, found {source}")
    return shape


def pad(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """Low, high and interior padding of every dimension."""
    shape, value = array(operands[0]), array(operands[1])
    dims = message.padding_config.dimensions
    if len(dims) != shape.rank or value.rank:
        raise CannotInfer(f"a padding for each dimension of {shape} and a scalar, found {len(dims)} and {value}")
    sizes: list[int] = []
    for size, one in zip(shape.dimensions, dims, strict=True):
        if one.interior_padding < 0:
            raise CannotInfer("interior padding is not negative")
        made = size + one.edge_padding_low + one.edge_padding_high + max(size - 1, 0) * one.interior_padding
        if made < 0:
            raise CannotInfer("a padding takes more than there is")
        sizes.append(made)
    return Shape(_wider_type(shape, value), sizes, shape.dynamic_dimensions).with_default_layout()


def dot(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """Batch dimensions, then what is left of either side."""
    return _dot(message.dot_dimension_numbers, array(operands[0]), array(operands[1]))


def _check_dims(dims: Sequence[int], shape: Shape) -> None:
    if len(set(dims)) != len(dims) or not all(0 <= dim < shape.rank for dim in dims):
        raise CannotInfer(f"dimensions {list(dims)} are not those of {shape}")


def _dot(numbers: xla.DotDimensionNumbers, lhs: Shape, rhs: Shape) -> Shape:
    lhs_used = [*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions]
    rhs_used = [*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions]
    _check_dims(lhs_used, lhs)
    _check_dims(rhs_used, rhs)
    if [lhs.dimensions[dim] for dim in lhs_used] != [rhs.dimensions[dim] for dim in rhs_used]:
        raise CannotInfer(f"contracted or batch dimensions of {lhs} and {rhs} differ")
    batch = list(numbers.lhs_batch_dimensions)
    left = [dim for dim in range(lhs.rank) if dim not in lhs_used]
    right = [dim for dim in range(rhs.rank) if dim not in rhs_used]
    sizes = [lhs.dimensions[dim] for dim in (*batch, *left)] + [rhs.dimensions[dim] for dim in right]
    dynamic = [lhs.dynamic_dimensions[dim] for dim in (*batch, *left)] + [rhs.dynamic_dimensions[dim] for dim in right]
    return Shape(_wider_type(lhs, rhs), sizes, dynamic).with_default_layout()


def ragged_dot(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """A dot whose groups are a dimension of the right side, and lie one behind the other along a ragged one of the left."""
    numbers = message.ragged_dot_dimension_numbers
    lhs, rhs = array(operands[0]), array(operands[1])
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise CannotInfer("one dimension of the left side is ragged")
    dims, ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions[0]
    _check_dims([ragged], lhs)
    groups = list(numbers.rhs_group_dimensions)
    _check_dims(groups, rhs)
    if ragged in dims.lhs_batch_dimensions:
        return _dot(dims, lhs, rhs)
    lhs_used = [*dims.lhs_batch_dimensions, *dims.lhs_contracting_dimensions]
    rhs_used = [*dims.rhs_batch_dimensions, *dims.rhs_contracting_dimensions, *groups]
    _check_dims(lhs_used, lhs)
    _check_dims(rhs_used, rhs)
    pairs = zip(lhs_used, rhs_used, strict=False)
    if any(lhs.dimensions[a] != rhs.dimensions[b] for a, b in pairs):
        raise CannotInfer(f"contracted or batch dimensions of {lhs} and {rhs} differ")
    sizes = [lhs.dimensions[dim] for dim in dims.lhs_batch_dimensions]
    if ragged in dims.lhs_contracting_dimensions:
        sizes.insert(0, array(operands[2]).dimensions[-1])
    sizes += [size for dim, size in enumerate(lhs.dimensions) if dim not in lhs_used]
    sizes += [size for dim, size in enumerate(rhs.dimensions) if dim not in rhs_used]
    return Shape(_wider_type(lhs, rhs), sizes).with_default_layout()


def convolution(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """Windows of the input's spatial dimensions, the kernel's output features, the batch."""
    numbers, windows = message.convolution_dimension_numbers, message.window.dimensions
    lhs, rhs = array(operands[0]), array(operands[1])
    rank = len(numbers.input_spatial_dimensions) + 2
    if lhs.rank != rank or rhs.rank != rank or len(windows) != rank - 2:
        raise CannotInfer(f"operands and window have {rank} dimensions, found {lhs} and {rhs}")
    sizes = [0] * rank
    for place, window in enumerate(windows):
        kernel = rhs.dimensions[numbers.kernel_spatial_dimensions[place]]
        if kernel != window.size:
            raise CannotInfer(f"the window's size {window.size} is not the kernel's, {kernel}")
        size = lhs.dimensions[numbers.input_spatial_dimensions[place]]
        sizes[numbers.output_spatial_dimensions[place]] = _windowed(size, window)
    groups, batches = max(message.feature_group_count, 1), max(message.batch_group_count, 1)
    features = lhs.dimensions[numbers.input_feature_dimension]
    if features != rhs.dimensions[numbers.kernel_input_feature_dimension] * groups:
        raise CannotInfer(f"{lhs} has other features than the kernel {rhs} takes")
    sizes[numbers.output_batch_dimension] = ceil_div(lhs.dimensions[numbers.input_batch_dimension], batches)
    sizes[numbers.output_feature_dimension] = rhs.dimensions[numbers.kernel_output_feature_dimension]
    dynamic = [False] * rank
    dynamic[numbers.output_batch_dimension] = lhs.dynamic_dimensions[numbers.input_batch_dimension]
    return Shape(_wider_type(lhs, rhs), sizes, dynamic).with_default_layout()


def gather(message: xla.HloInstructionProto, operands: Sequence[Shape], _: Sequence[Shape]) -> Shape:
    """The indices' dimensions but the vector's, with the slices' own in between."""
    shape, indices = array(operands[0]), array(operands[1])
    numbers, slices = message.gather_dimension_numbers, list(message.gather_slice_sizes)
    if len(slices) != shape.rank or not 0 <= numbers.index_vector_dim <= indices.rank:
        raise CannotInfer(f"slice sizes and index vectors do not fit {shape} and {indices}")
    vector = indices.dimensions[numbers.index_vector_dim] if numbers.index_vector_dim < indices.rank else 1
    if len(numbers.start_index_map) != vector:
        raise CannotInfer(
            f"start_index_map has {len(numbers.start_index_map)} dimensions for index vectors of {vector}"
        )
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [size for dim, size in enumerate(slices) if dim not in gone]
    batch = [dim for dim in range(indices.rank) if dim != numbers.index_vector_dim]
    rank = len(window) + len(batch)
    offsets = list(numbers.offset_dims)
    if len(window) != len(offsets) or sorted(set(offsets)) != offsets or not all(0 <= dim < rank for dim in offsets):
        raise CannotInfer(f"offset dimensions {offsets} for slices of {len(window)} dimensions")
    sizes: list[int] = []
    dynamic: list[bool] = []
    windows, batches = iter(window), iter(batch)
    for dim in range(rank):
        if dim in offsets:
            sizes.append(next(windows))
            dynamic.append(False)
        else:
            from_dim = next(batches)
            sizes.append(indices.dimensions[from_dim])
            dynamic.append(indices.dynamic_dimensions[from_dim])
    return Shape(shape.element_type, sizes, dynamic).with_default_layout()
