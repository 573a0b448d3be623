"""The attributes that belong to an opcode alone: `, dimensions={1}`, `, window={size=3x3}`, … One function an opcode or group of opcodes.

A function takes an instruction of the printer's schema (print_twin: sub-messages are bytes) and a Names to ask for shapes and returns its
attributes in XLA's order, each with a comma and a space before it, or "".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from xlashape.errors import InvalidModuleError
from xlashape.hlo.literal_format import literal_text
from xlashape.hlo.print_sharding import replica_groups_text, sharding_text
from xlashape.hlo.print_text import escape, ints, number
from xlashape.hlo.print_twin import ABSENT
from xlashape.proto import xla
from xlashape.shape import PrimitiveType, Shape

__all__ = ["ATTRIBUTES", "Context"]


class Context(Protocol):
    """What an attribute may ask the printer for."""

    def shape_text(self, data: bytes) -> str:
        """The text of a serialized ShapeProto, layout included."""
        ...

    def operand_shape(self, one: Any, number: int) -> Shape | None:
        """The shape of an operand of the instruction; None if it has not so many."""
        ...

    @property
    def is_fingerprint(self) -> bool:
        """Whether only what decides the program is shown: device lists written out, no infeed and outfeed configs."""
        ...

    @property
    def show_ids(self) -> bool:
        """Whether names, and with them parameter_replication, are shown."""
        ...

    @property
    def show_metadata(self) -> bool:
        """Whether shardings show their metadata."""
        ...


Printer = Callable[[Any, Context], str]
ATTRIBUTES: Final[dict[str, Printer]] = {}
"""The function of each opcode that has attributes of its own."""


def _prints(*opcodes: str) -> Callable[[Printer], Printer]:
    def register(function: Printer) -> Printer:
        for opcode in opcodes:
            ATTRIBUTES[opcode] = function
        return function

    return register


def _enum(wrapper: Any, value: int, what: str) -> str:
    try:
        return wrapper.Name(value)
    except ValueError:
        raise InvalidModuleError(f"{value} is no {what}") from None


@_prints("broadcast", "concatenate", "map", "reduce", "reverse", "transpose")
def _dimensions(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}"


@_prints("get-dimension-size", "set-dimension-size")
def _dimension(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}"


@_prints("sort")
def _sort(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}{', is_stable=true' if one.is_stable else ''}"


@_prints("topk")
def _topk(one: Any, _: Context) -> str:
    return f", k={one.k}, largest={'true' if one.largest else 'false'}"


@_prints("iota")
def _iota(one: Any, _: Context) -> str:
    return f", iota_dimension={one.dimensions[0] if one.dimensions else 0}"


@_prints("get-tuple-element")
def _tuple_index(one: Any, _: Context) -> str:
    return f", index={one.tuple_index}"


@_prints("compare")
def _compare(one: Any, context: Context) -> str:
    text = f", direction={one.comparison_direction}"
    kind = one.comparison_type
    if not kind:
        return text
    shape = context.operand_shape(one, 0)
    return text if shape is not None and kind == _comparison(shape.element_type) else f"{text}, type={kind}"


def _comparison(element_type: PrimitiveType) -> str:
    # The type of comparison that an element type has by itself.
    if element_type.is_floating or element_type.is_complex:
        return "FLOAT"
    return "SIGNED" if element_type.is_signed_integral else "UNSIGNED"


@_prints("slice")
def _slice(one: Any, _: Context) -> str:
    slices = [xla.HloInstructionProto.SliceDimensions.FromString(data) for data in one.slice_dimensions]
    strided = any(part.stride != 1 for part in slices)
    parts = [f"[{part.start}:{part.limit}{f':{part.stride}' if strided else ''}]" for part in slices]
    return f", slice={{{', '.join(parts)}}}"


@_prints("dynamic-slice")
def _dynamic_slice(one: Any, _: Context) -> str:
    return f", dynamic_slice_sizes={ints(one.dynamic_slice_sizes)}"


@lru_cache(4096)
def _padding_text(data: bytes) -> str:
    dimensions = xla.PaddingConfig.FromString(b"" if data == ABSENT else data).dimensions
    inside = any(one.interior_padding for one in dimensions)
    return "x".join(
        [
            f"{one.edge_padding_low}_{one.edge_padding_high}{f'_{one.interior_padding}' if inside else ''}"
            for one in dimensions
        ]
    )


@_prints("pad")
def _pad(one: Any, _: Context) -> str:
    return f", padding={_padding_text(one.padding_config)}"


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


@_prints("reduce-window", "select-and-scatter")
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
def _precision_text(data: bytes, operands: int) -> str:
    if data == ABSENT:
        return ""
    config = xla.PrecisionConfig.FromString(data)
    precisions = list(config.operand_precision)
    text = ""
    if any(precisions):
        names = [_enum(xla.PrecisionConfig.Precision, one, "precision").lower() for one in precisions[:operands]]
        text = f", operand_precision={{{','.join(names)}}}"
    if config.algorithm:
        name = _enum(xla.PrecisionConfig.Algorithm, config.algorithm, "dot algorithm")
        text += f", algorithm={name.removeprefix('ALG_').lower()}"
    return text


def _groups_text(one: Any) -> str:
    text = ""
    if one.feature_group_count not in (0, 1):
        text = f", feature_group_count={one.feature_group_count}"
    return text if one.batch_group_count in (0, 1) else f"{text}, batch_group_count={one.batch_group_count}"


@_prints("convolution")
def _convolution(one: Any, _: Context) -> str:
    data = one.convolution_dimension_numbers
    text = _window_text(one.window) + _dim_labels(b"" if data == ABSENT else data) + _groups_text(one)
    text += _precision_text(one.precision_config, len(one.operand_ids))
    if one.conv_kind:
        name = _enum(xla.ConvolutionKind, one.conv_kind, "kind of convolution")
        text += f", convolution_kind={name.removeprefix('CONVOLUTION_KIND_').lower()}"
    return text


@lru_cache(4096)
def _dot_text(data: bytes) -> str:
    numbers = xla.DotDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = f", lhs_batch_dims={ints(numbers.lhs_batch_dimensions)}" if numbers.lhs_batch_dimensions else ""
    text += f", lhs_contracting_dims={ints(numbers.lhs_contracting_dimensions)}"
    text += f", rhs_batch_dims={ints(numbers.rhs_batch_dimensions)}" if numbers.rhs_batch_dimensions else ""
    return f"{text}, rhs_contracting_dims={ints(numbers.rhs_contracting_dimensions)}"


@_prints("dot", "scaled-dot")
def _dot(one: Any, _: Context) -> str:
    return _dot_text(one.dot_dimension_numbers) + _precision_text(one.precision_config, len(one.operand_ids))


@_prints("ragged-dot")
def _ragged_dot(one: Any, _: Context) -> str:
    data = one.ragged_dot_dimension_numbers
    numbers = xla.RaggedDotDimensionNumbers.FromString(b"" if data == ABSENT else data)
    text = _dot_text(numbers.dot_dimension_numbers.SerializeToString())
    text += f", lhs_ragged_dims={ints(numbers.lhs_ragged_dimensions)}"
    if numbers.rhs_group_dimensions:
        text += f", rhs_group_dims={ints(numbers.rhs_group_dimensions)}"
    return text + _precision_text(one.precision_config, len(one.operand_ids))


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


@_prints("gather")
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


@_prints("scatter")
def _scatter(one: Any, _: Context) -> str:
    text = _scatter_text(one.scatter_dimension_numbers)
    if one.indices_are_sorted:
        text += ", indices_are_sorted=true"
    return f"{text}, unique_indices=true" if one.unique_indices else text


@_prints("batch-norm-training", "batch-norm-inference", "batch-norm-grad")
def _batch_norm(one: Any, _: Context) -> str:
    return f", epsilon={number(one.epsilon)}, feature_index={one.feature_index}"


@_prints("reduce-precision")
def _reduce_precision(one: Any, _: Context) -> str:
    return f", exponent_bits={one.exponent_bits}, mantissa_bits={one.mantissa_bits}"


@_prints("fft")
def _fft(one: Any, _: Context) -> str:
    return f", fft_type={_enum(xla.FftType, one.fft_type, 'kind of FFT')}, fft_length={ints(one.fft_length)}"


@_prints("triangular-solve")
def _triangular_solve(one: Any, _: Context) -> str:
    data = one.triangular_solve_options
    options = xla.TriangularSolveOptions.FromString(b"" if data == ABSENT else data)
    text = ", left_side=true" if options.left_side else ""
    text += ", lower=true" if options.lower else ""
    text += ", unit_diagonal=true" if options.unit_diagonal else ""
    return f"{text}, transpose_a={_enum(xla.TriangularSolveOptions.Transpose, options.transpose_a, 'way to transpose')}"


@_prints("cholesky")
def _cholesky(one: Any, _: Context) -> str:
    data = one.cholesky_options
    return ", lower=true" if data != ABSENT and xla.CholeskyOptions.FromString(data).lower else ""


@_prints("rng")
def _rng(one: Any, _: Context) -> str:
    return f", distribution={_enum(xla.RandomDistribution, one.distribution, 'random distribution').lower()}"


@_prints("rng-bit-generator")
def _rng_bit_generator(one: Any, _: Context) -> str:
    return f", algorithm={_enum(xla.RandomAlgorithm, one.rng_algorithm, 'random algorithm').lower()}"


@_prints("rng-get-and-update-state")
def _rng_state(one: Any, _: Context) -> str:
    return f", delta={one.delta}"


@_prints("scan")
def _scan(one: Any, _: Context) -> str:
    dimension = one.dimensions[0] if one.dimensions else 0
    text = f", dimensions={{{dimension}}}, num_carries={one.num_carries}"
    if one.is_reverse:
        text += ", is_reverse=true"
    if one.is_associative == xla.TRI_STATE_UNSPECIFIED:
        return text
    return f"{text}, is_associative={'true' if one.is_associative == xla.TRI_STATE_TRUE else 'false'}"


@_prints("parameter")
def _parameter(one: Any, context: Context) -> str:
    data = one.parameter_replication
    if data == ABSENT or not data or not context.show_ids:
        return ""
    flags = xla.ParameterReplication.FromString(data).replicated_at_leaf_buffers
    return f", parameter_replication={{{','.join(['true' if flag else 'false' for flag in flags])}}}" if flags else ""


@_prints("infeed")
def _infeed(one: Any, context: Context) -> str:
    shown = one.infeed_config and not context.is_fingerprint
    return f', infeed_config="{escape(one.infeed_config)}"' if shown else ""


@_prints("outfeed")
def _outfeed(one: Any, context: Context) -> str:
    text = "" if one.outfeed_shape == ABSENT else f", outfeed_shape={context.shape_text(one.outfeed_shape)}"
    shown = one.outfeed_config and not context.is_fingerprint
    return f'{text}, outfeed_config="{escape(one.outfeed_config)}"' if shown else text


@_prints("domain")
def _domain(one: Any, context: Context) -> str:
    # XLA writes the two into each other's field of the proto, and reads them back so.
    sides = [one.domain_exit_sharding, one.domain_entry_sharding]
    entry, exit_ = [
        sharding_text(xla.OpSharding.FromString(b"" if data == ABSENT else data), metadata=context.show_metadata)
        for data in sides
    ]
    return f', domain={{kind="sharding", entry={entry}, exit={exit_}}}'


@_prints("copy-start")
def _copy_start(one: Any, _: Context) -> str:
    if not one.HasField("cross_program_prefetch_index"):
        return ", cross_program_prefetch_index=0" if one.is_cross_program_prefetch else ""
    return f", cross_program_prefetch_index={one.cross_program_prefetch_index}"


@_prints(
    "cosine",
    "cbrt",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
)
def _result_accuracy(one: Any, _: Context) -> str:
    data = one.result_accuracy
    if data == ABSENT or not data:
        return ""
    accuracy = xla.ResultAccuracy.FromString(data)
    if accuracy.HasField("tolerance"):
        tolerance = accuracy.tolerance
        inside = f"atol={number(tolerance.atol)},rtol={number(tolerance.rtol)},ulps={tolerance.ulps}"
        return f", result_accuracy={{tolerance={{{inside}}}}}"
    if not accuracy.mode:
        return ""
    return f", result_accuracy={{mode={_enum(xla.ResultAccuracy.Mode, accuracy.mode, 'accuracy').lower()}}}"


@lru_cache(4096)
def _groups(data: bytes, full: bool) -> str:
    return replica_groups_text(xla.HloInstructionProto.FromString(data), full=full)


def _replica_groups(one: Any, context: Context) -> str:
    # Only the four fields that may hold the groups go into the key.
    parts: list[bytes] = []
    made = xla.HloInstructionProto()
    for name in ("iota_collective_device_list", "mesh_axes_replica_group_list", "collective_device_list"):
        data = getattr(one, name)
        if data != ABSENT:
            getattr(made, name).MergeFromString(data)
            getattr(made, name).SetInParent()
            return f", replica_groups={_groups(made.SerializeToString(), context.is_fingerprint)}"
    for data in one.replica_groups:
        parts.append(data)
        made.replica_groups.add().MergeFromString(data)
    return f", replica_groups={_groups(made.SerializeToString(), context.is_fingerprint)}"


def _channel(one: Any) -> str:
    return f", channel_id={one.channel_id}" if one.channel_id > 0 else ""


def _collective(one: Any, context: Context) -> str:
    return _channel(one) + _replica_groups(one, context) + (", constrain_layout=true" if one.constrain_layout else "")


def _global_ids(one: Any) -> str:
    return ", use_global_device_ids=true" if one.use_global_device_ids else ""


@_prints("all-gather", "all-gather-start")
def _all_gather(one: Any, context: Context) -> str:
    return f"{_collective(one, context)}, dimensions={ints(one.dimensions)}{_global_ids(one)}"


@_prints("all-reduce", "all-reduce-start")
def _all_reduce(one: Any, context: Context) -> str:
    return _collective(one, context) + _global_ids(one)


@_prints("reduce-scatter")
def _reduce_scatter(one: Any, context: Context) -> str:
    return f"{_collective(one, context)}{_global_ids(one)}, dimensions={ints(one.dimensions)}"


@_prints("all-to-all")
def _all_to_all(one: Any, context: Context) -> str:
    return _collective(one, context) + (f", dimensions={ints(one.dimensions)}" if one.dimensions else "")


@_prints("ragged-all-to-all", "collective-broadcast")
def _collective_only(one: Any, context: Context) -> str:
    return _collective(one, context)


@_prints("collective-permute", "collective-permute-start")
def _collective_permute(one: Any, context: Context) -> str:
    pairs = [xla.SourceTarget.FromString(data) for data in one.source_target_pairs]
    text = f"{_channel(one)}, source_target_pairs={{{','.join([f'{{{p.source},{p.target}}}' for p in pairs])}}}"
    if not one.dynamic_slice_sizes:
        return text
    sent = context.operand_shape(one, 0)
    parts = () if sent is None else sent.tuple_shapes if sent.is_tuple else (sent,)
    return f"{text}, slice_sizes={_slice_sizes(list(one.dynamic_slice_sizes), [part.rank for part in parts])}"


def _slice_sizes(sizes: list[int], ranks: Sequence[int]) -> str:
    # The sizes of all slices stand in one list, one after the other; each slice has the rank of what is sent.
    parts: list[str] = []
    at = number = 0
    while at < len(sizes):
        rank = ranks[number % len(ranks)] if ranks else 0
        number += 1
        if rank == 0:
            rank = len(sizes) - at
        parts.append(ints(sizes[at : at + rank]))
        at += rank
    return f"{{{','.join(parts)}}}"


@_prints("send", "send-done", "recv", "recv-done")
def _send(one: Any, _: Context) -> str:
    return _channel(one) + (", is_host_transfer=true" if one.is_host_transfer else "")


@lru_cache(4096)
def _aliasing_text(aliasing: tuple[bytes, ...]) -> str:
    pairs: list[str] = []
    for data in aliasing:
        one = xla.OutputOperandAliasing.FromString(data)
        pairs.append(
            f"{ints_apart(one.output_shape_index)}: ({one.operand_index}, {ints_apart(one.operand_shape_index)})"
        )
    return f", output_to_operand_aliasing={{{', '.join(pairs)}}}" if pairs else ""


def ints_apart(values: Iterable[int]) -> str:
    """`{0, 1}`: how XLA writes an index into a shape outside of attributes that are plain lists."""
    return f"{{{', '.join([str(value) for value in values])}}}"


@_prints("fusion")
def _fusion(one: Any, _: Context) -> str:
    return f", kind={one.fusion_kind}" + _aliasing_text(tuple(one.output_operand_aliasing))


@_prints("custom-call")
def _custom_call(one: Any, context: Context) -> str:
    text = _window_text(one.window)
    if one.convolution_dimension_numbers != ABSENT:
        text += _dim_labels(one.convolution_dimension_numbers)
    text += _groups_text(one) + _precision_text(one.precision_config, len(one.operand_ids))
    if one.padding_type:
        text += f", padding_type={_enum(xla.PaddingType, one.padding_type, 'kind of padding')}"
    # Quotes, and escapes of what is not printable.
    text += f', custom_call_target="{escape(one.custom_call_target)}"'
    if one.constrain_layout:
        shapes = [context.shape_text(data) for data in one.operand_shapes_with_layout]
        text += f", operand_layout_constraints={{{', '.join(shapes)}}}"
    if one.custom_call_has_side_effect:
        text += ", custom_call_has_side_effect=true"
    if one.literal != ABSENT:
        literal = xla.LiteralProto.FromString(one.literal)
        text += f", literal={context.shape_text(literal.shape.SerializeToString())} {literal_text(literal)}"
    text += _aliasing_text(tuple(one.output_operand_aliasing))
    if one.custom_call_schedule:
        text += f", schedule={_enum(xla.CustomCallSchedule, one.custom_call_schedule, 'schedule')}"
    if one.custom_call_api_version > 1:
        text += f", api_version={_enum(xla.CustomCallApiVersion, one.custom_call_api_version, 'API version')}"
    return text
