"""Readers of what rules need from an instruction's proto, as plain tuples that can be compared and hashed.

Each returns everything that its rules look at: cached answers are found by it.
"""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidModuleError
from xlashape.hlo.values.replica_groups import expanded_groups
from xlashape.proto import xla

__all__ = [
    "MAX_REPLICAS",
    "ConvolutionNumbers",
    "DotNumbers",
    "FftLengths",
    "Groups",
    "IndexNumbers",
    "RaggedDotNumbers",
    "WindowDim",
    "batch_norm",
    "cholesky",
    "collective",
    "convolution",
    "dimensions",
    "dot",
    "dynamic_slice_sizes",
    "fft",
    "gather",
    "opcode",
    "padding",
    "permutation_pairs",
    "ragged_dot",
    "random_algorithm",
    "scatter",
    "slices",
    "topk",
    "triangular_solve",
    "tuple_index",
    "window",
]


def dimensions(proto: xla.HloInstructionProto) -> tuple[int, ...]:
    """`dimensions`, in their order."""
    return tuple(proto.dimensions)


def opcode(proto: xla.HloInstructionProto) -> str:
    """The opcode, for a rule that answers for several."""
    return proto.opcode


def tuple_index(proto: xla.HloInstructionProto) -> int:
    """get-tuple-element: the index of the element."""
    return proto.tuple_index


def slices(proto: xla.HloInstructionProto) -> tuple[tuple[int, int, int], ...]:
    """slice: (start, limit, stride) of each dimension."""
    return tuple((d.start, d.limit, d.stride) for d in proto.slice_dimensions)


def padding(proto: xla.HloInstructionProto) -> tuple[tuple[int, int, int], ...]:
    """pad: (low, high, interior) of each dimension."""
    return tuple((d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in proto.padding_config.dimensions)


def dynamic_slice_sizes(proto: xla.HloInstructionProto) -> tuple[int, ...]:
    """dynamic-slice: the sizes of the slice."""
    return tuple(proto.dynamic_slice_sizes)


class DotNumbers(NamedTuple):
    """Dimension numbers of a dot."""

    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]


def dot(proto: xla.HloInstructionProto) -> DotNumbers:
    """dot, scaled-dot: dimension numbers."""
    return _dot_numbers(proto.dot_dimension_numbers)


def _dot_numbers(numbers: xla.DotDimensionNumbers) -> DotNumbers:
    return DotNumbers(
        tuple(numbers.lhs_batch_dimensions),
        tuple(numbers.rhs_batch_dimensions),
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )


class RaggedDotNumbers(NamedTuple):
    """Dimension numbers of a ragged-dot."""

    dot: DotNumbers
    lhs_ragged: tuple[int, ...]
    rhs_group: tuple[int, ...]


def ragged_dot(proto: xla.HloInstructionProto) -> RaggedDotNumbers:
    """ragged-dot: dimension numbers."""
    numbers = proto.ragged_dot_dimension_numbers
    return RaggedDotNumbers(
        _dot_numbers(numbers.dot_dimension_numbers),
        tuple(numbers.lhs_ragged_dimensions),
        tuple(numbers.rhs_group_dimensions),
    )


class WindowDim(NamedTuple):
    """One dimension of a window."""

    size: int
    stride: int
    low: int
    high: int
    window_dilation: int
    base_dilation: int
    reversal: bool


def window(proto: xla.HloInstructionProto) -> tuple[WindowDim, ...]:
    """reduce-window, select-and-scatter, convolution: the window. An unset stride or dilation, 0 in proto3, means 1."""
    return tuple(
        WindowDim(
            d.size,
            d.stride or 1,
            d.padding_low,
            d.padding_high,
            d.window_dilation or 1,
            d.base_dilation or 1,
            d.window_reversal,
        )
        for d in proto.window.dimensions
    )


class ConvolutionNumbers(NamedTuple):
    """Window, dimension numbers and groups of a convolution."""

    window: tuple[WindowDim, ...]
    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input: int
    kernel_output: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    feature_groups: int
    batch_groups: int


def convolution(proto: xla.HloInstructionProto) -> ConvolutionNumbers:
    """convolution: window, dimension numbers and groups."""
    n = proto.convolution_dimension_numbers
    return ConvolutionNumbers(
        window(proto),
        n.input_batch_dimension,
        n.input_feature_dimension,
        tuple(n.input_spatial_dimensions),
        n.kernel_input_feature_dimension,
        n.kernel_output_feature_dimension,
        tuple(n.kernel_spatial_dimensions),
        n.output_batch_dimension,
        n.output_feature_dimension,
        tuple(n.output_spatial_dimensions),
        proto.feature_group_count or 1,
        proto.batch_group_count or 1,
    )


class IndexNumbers(NamedTuple):
    """Dimension numbers of a gather or scatter, named as the gather names them.

    The *window* is the slice that is read, or the update that is written.

    - `window_dims`: its dimensions in the output (scatter: in the updates).
    - `collapsed`: the dimensions of the operand that the window does not have.
    - `index_map`: the operand's dimension for each element of an index vector.
    - `index_vector_dim`: the dimension of the indices that an index vector extends along.
    - `operand_batching` and `index_batching`: dimensions that operand and indices share, pair by pair.
    - `sizes`: those of a gather's slice; empty for a scatter.
    """

    window_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    sizes: tuple[int, ...]


def gather(proto: xla.HloInstructionProto) -> IndexNumbers:
    """gather: dimension numbers and slice sizes."""
    n = proto.gather_dimension_numbers
    return IndexNumbers(
        tuple(n.offset_dims),
        tuple(n.collapsed_slice_dims),
        tuple(n.start_index_map),
        n.index_vector_dim,
        tuple(n.operand_batching_dims),
        tuple(n.start_indices_batching_dims),
        tuple(proto.gather_slice_sizes),
    )


def scatter(proto: xla.HloInstructionProto) -> IndexNumbers:
    """scatter: dimension numbers."""
    n = proto.scatter_dimension_numbers
    return IndexNumbers(
        tuple(n.update_window_dims),
        tuple(n.inserted_window_dims),
        tuple(n.scatter_dims_to_operand_dims),
        n.index_vector_dim,
        tuple(n.input_batching_dims),
        tuple(n.scatter_indices_batching_dims),
        (),
    )


class FftLengths(NamedTuple):
    """The sizes of an fft's operand and output along the transformed dimensions, which are the last ones."""

    operand: tuple[int, ...]
    output: tuple[int, ...]


def fft(proto: xla.HloInstructionProto) -> FftLengths:
    """fft: the transformed sizes. The complex side of a real transform of n values stores n / 2 + 1 of them."""
    lengths = tuple(proto.fft_length)
    half = (*lengths[:-1], lengths[-1] // 2 + 1) if lengths else ()
    kind = proto.fft_type
    return FftLengths(half if kind == xla.IRFFT else lengths, half if kind == xla.RFFT else lengths)


def random_algorithm(proto: xla.HloInstructionProto) -> int:
    """rng-bit-generator: a RandomAlgorithm."""
    return proto.rng_algorithm


def topk(proto: xla.HloInstructionProto) -> int:
    """topk: how many elements are selected."""
    return proto.k


def batch_norm(proto: xla.HloInstructionProto) -> int:
    """batch-norm-*: the feature dimension."""
    return proto.feature_index


def cholesky(proto: xla.HloInstructionProto) -> bool:
    """cholesky: whether the factor is the lower one."""
    return proto.cholesky_options.lower


def triangular_solve(proto: xla.HloInstructionProto) -> tuple[bool, bool, bool, bool]:
    """triangular-solve: (left side, lower, unit diagonal, transposed)."""
    options = proto.triangular_solve_options
    transposed = options.transpose_a in (xla.TriangularSolveOptions.TRANSPOSE, xla.TriangularSolveOptions.ADJOINT)
    return options.left_side, options.lower, options.unit_diagonal, transposed


MAX_REPLICAS = 1 << 20
"""The most replicas that the short form of replica groups may stand for."""


class Groups(NamedTuple):
    """The replica groups of a collective, and its dimensions."""

    groups: tuple[tuple[int, ...], ...]
    """Empty: all replicas form one group."""
    dimensions: tuple[int, ...]
    spans_partitions: bool = False
    """Whether every partition of the replicas in a group takes part: the collective has a channel, and its groups list replicas."""


def collective(proto: xla.HloInstructionProto) -> Groups:
    """all-gather, all-reduce, all-to-all, reduce-scatter, collective-broadcast: groups and dimensions."""
    try:
        groups = expanded_groups(proto, MAX_REPLICAS)
    except InvalidModuleError as error:
        raise InvalidModuleError(f"not a list of replica groups: {error}") from None
    ids = tuple([tuple(group) for group in groups])
    return Groups(ids, tuple(proto.dimensions), proto.channel_id > 0 and not proto.use_global_device_ids)


def permutation_pairs(proto: xla.HloInstructionProto) -> tuple[tuple[int, int], ...]:
    """collective-permute: pairs of (source, target)."""
    return tuple((pair.source, pair.target) for pair in proto.source_target_pairs)
