"""Attributes made of dimension numbers: windows, convolutions, dots, gathers and scatters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from xlashape.errors import InvalidModuleError
from xlashape.hlo.formatting import ints
from xlashape.hlo.text.writer.registry import Context, enum_name, prints
from xlashape.hlo.text.writer.source import ABSENT
from xlashape.proto import xla

__all__ = ["convolution_parts", "precision_text"]


@lru_cache(4096)
def _window_text(data: bytes) -> str:
    """`, window={…}`, or "" for a window of no dimensions. What has its default in all dimensions is left out."""
    dimensions = xla.Window.FromString(data).dimensions if data != ABSENT else ()
    if not dimensions:
        return ""

    def each(name: str, values: Sequence[Any], default: Any) -> str:
        return f" {name}={'x'.join(map(str, values))}" if any(value != default for value in values) else ""

    text = f"size={'x'.join([str(one.size) for one in dimensions])}"
    text += each("stride", [one.stride for one in dimensions], 1)
    text += each("pad", [f"{one.padding_low}_{one.padding_high}" for one in dimensions], "0_0")
    text += each("lhs_dilate", [one.base_dilation for one in dimensions], 1)
    text += each("rhs_dilate", [one.window_dilation for one in dimensions], 1)
    text += each("rhs_reversal", [int(one.window_reversal) for one in dimensions], 0)
    return f", window={{{text}}}"


@prints("reduce-window", "select-and-scatter")
def _window(one: Any, _: Context) -> str:
    return _window_text(one.window)


@lru_cache(4096)
def _dim_labels(data: bytes) -> str:
    numbers = xla.ConvolutionDimensionNumbers.FromString(data)

    def side(first: tuple[str, int], second: tuple[str, int], spatial: Iterable[int]) -> str:
        places = [first, second, *((str(i), place) for i, place in enumerate(spatial))]
        labels = [""] * len(places)
        for label, place in places:
            if not 0 <= place < len(places) or labels[place]:
                raise InvalidModuleError("the dimension numbers of a convolution are not a permutation")
            labels[place] = label
        return "".join(labels)

    lhs = side(
        ("b", numbers.input_batch_dimension), ("f", numbers.input_feature_dimension), numbers.input_spatial_dimensions
    )
    rhs = side(
        ("i", numbers.kernel_input_feature_dimension),
        ("o", numbers.kernel_output_feature_dimension),
        numbers.kernel_spatial_dimensions,
    )
    output = side(
        ("b", numbers.output_batch_dimension),
        ("f", numbers.output_feature_dimension),
        numbers.output_spatial_dimensions,
    )
    return f", dim_labels={lhs}_{rhs}->{output}"


@lru_cache(4096)
def precision_text(data: bytes, operands: int) -> str:
    """`operand_precision`, for as many operands as there are, and `algorithm`."""
    if data == ABSENT:
        return ""
    config = xla.PrecisionConfig.FromString(data)
    precisions = list(config.operand_precision)
    text = ""
    if any(precisions):
        names = [enum_name(xla.PrecisionConfig.Precision, one, "precision").lower() for one in precisions[:operands]]
        text = f", operand_precision={{{','.join(names)}}}"
    if config.algorithm:
        name = enum_name(xla.PrecisionConfig.Algorithm, config.algorithm, "dot algorithm")
        text += f", algorithm={name.removeprefix('ALG_').lower()}"
    return text


def _groups_text(one: Any) -> str:
    text = ""
    if one.feature_group_count not in (0, 1):
        text = f", feature_group_count={one.feature_group_count}"
    return text if one.batch_group_count in (0, 1) else f"{text}, batch_group_count={one.batch_group_count}"


@prints("convolution")
def _convolution(one: Any, _: Context) -> str:
    data = one.convolution_dimension_numbers
    text = _window_text(one.window) + _dim_labels(b"" if data == ABSENT else data) + _groups_text(one)
    text += precision_text(one.precision_config, len(one.operand_ids))
    if one.conv_kind:
        name = enum_name(xla.ConvolutionKind, one.conv_kind, "kind of convolution")
        text += f", convolution_kind={name.removeprefix('CONVOLUTION_KIND_').lower()}"
    return text


@lru_cache(4096)
def _dot_text(data: bytes) -> str:
    numbers = xla.DotDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = f", lhs_batch_dims={ints(numbers.lhs_batch_dimensions)}" if numbers.lhs_batch_dimensions else ""
    text += f", lhs_contracting_dims={ints(numbers.lhs_contracting_dimensions)}"
    text += f", rhs_batch_dims={ints(numbers.rhs_batch_dimensions)}" if numbers.rhs_batch_dimensions else ""
    return f"{text}, rhs_contracting_dims={ints(numbers.rhs_contracting_dimensions)}"


@prints("dot", "scaled-dot")
def _dot(one: Any, _: Context) -> str:
    return _dot_text(one.dot_dimension_numbers) + precision_text(one.precision_config, len(one.operand_ids))


@prints("ragged-dot")
def _ragged_dot(one: Any, _: Context) -> str:
    data = one.ragged_dot_dimension_numbers
    numbers = xla.RaggedDotDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = _dot_text(numbers.dot_dimension_numbers.SerializeToString())
    text += f", lhs_ragged_dims={ints(numbers.lhs_ragged_dimensions)}"
    if numbers.rhs_group_dimensions:
        text += f", rhs_group_dims={ints(numbers.rhs_group_dimensions)}"
    return text + precision_text(one.precision_config, len(one.operand_ids))


@lru_cache(4096)
def _gather_text(data: bytes) -> str:
    numbers = xla.GatherDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = f", offset_dims={ints(numbers.offset_dims)}, collapsed_slice_dims={ints(numbers.collapsed_slice_dims)}"
    text += f", start_index_map={ints(numbers.start_index_map)}"
    if numbers.operand_batching_dims:
        text += f", operand_batching_dims={ints(numbers.operand_batching_dims)}"
    if numbers.start_indices_batching_dims:
        text += f", start_indices_batching_dims={ints(numbers.start_indices_batching_dims)}"
    return f"{text}, index_vector_dim={numbers.index_vector_dim}"


@prints("gather")
def _gather(one: Any, _: Context) -> str:
    text = f"{_gather_text(one.gather_dimension_numbers)}, slice_sizes={ints(one.gather_slice_sizes)}"
    return f"{text}, indices_are_sorted=true" if one.indices_are_sorted else text


@lru_cache(4096)
def _scatter_text(data: bytes) -> str:
    numbers = xla.ScatterDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = f", update_window_dims={ints(numbers.update_window_dims)}"
    text += f", inserted_window_dims={ints(numbers.inserted_window_dims)}"
    text += f", scatter_dims_to_operand_dims={ints(numbers.scatter_dims_to_operand_dims)}"
    if numbers.input_batching_dims:
        text += f", input_batching_dims={ints(numbers.input_batching_dims)}"
    if numbers.scatter_indices_batching_dims:
        text += f", scatter_indices_batching_dims={ints(numbers.scatter_indices_batching_dims)}"
    return f"{text}, index_vector_dim={numbers.index_vector_dim}"


@prints("scatter")
def _scatter(one: Any, _: Context) -> str:
    text = _scatter_text(one.scatter_dimension_numbers)
    if one.indices_are_sorted:
        text += ", indices_are_sorted=true"
    return f"{text}, unique_indices=true" if one.unique_indices else text


def convolution_parts(one: Any) -> str:
    """Window, dim_labels, group counts and precision of an instruction that may have them, such as a custom call."""
    text = _window_text(one.window)
    if one.convolution_dimension_numbers != ABSENT:
        text += _dim_labels(one.convolution_dimension_numbers)
    return text + _groups_text(one) + precision_text(one.precision_config, len(one.operand_ids))
