"""The attributes that belong to an opcode alone: `, dimensions={1}`, `, slice={[0:2]}`, … A function an opcode or group of opcodes.

Those of collectives stand in print_collectives, those made of dimension numbers in print_dimensions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xlashape.hlo.formatting import escape, ints, number
from xlashape.hlo.literal.format import literal_text
from xlashape.hlo.text.writer import collectives as print_collectives
from xlashape.hlo.text.writer.dimensions import convolution_parts
from xlashape.hlo.text.writer.registry import ATTRIBUTES, Context, enum_name, prints
from xlashape.hlo.text.writer.source import ABSENT
from xlashape.hlo.values.sharding_text import sharding_text
from xlashape.proto import xla
from xlashape.shape import PrimitiveType

# print_collectives is imported for what it registers.
__all__ = ["ATTRIBUTES", "print_collectives"]


@prints("broadcast", "concatenate", "map", "reduce", "reverse", "transpose")
def _dimensions(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}"


@prints("get-dimension-size", "set-dimension-size")
def _dimension(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}"


@prints("sort")
def _sort(one: Any, _: Context) -> str:
    return f", dimensions={ints(one.dimensions)}{', is_stable=true' if one.is_stable else ''}"


@prints("topk")
def _topk(one: Any, _: Context) -> str:
    return f", k={one.k}, largest={'true' if one.largest else 'false'}"


@prints("iota")
def _iota(one: Any, _: Context) -> str:
    return f", iota_dimension={one.dimensions[0] if one.dimensions else 0}"


@prints("reshape")
def _reshape(one: Any, _: Context) -> str:
    return f", inferred_dimension={one.dimensions[0]}" if one.dimensions else ""


@prints("get-tuple-element")
def _tuple_index(one: Any, _: Context) -> str:
    return f", index={one.tuple_index}"


@prints("compare")
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


@prints("slice")
def _slice(one: Any, _: Context) -> str:
    slices = [xla.HloInstructionProto.SliceDimensions.FromString(data) for data in one.slice_dimensions]
    strided = any(part.stride != 1 for part in slices)
    parts = [f"[{part.start}:{part.limit}{f':{part.stride}' if strided else ''}]" for part in slices]
    return f", slice={{{', '.join(parts)}}}"


@prints("dynamic-slice")
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


@prints("pad")
def _pad(one: Any, _: Context) -> str:
    return f", padding={_padding_text(one.padding_config)}"


@prints("batch-norm-training", "batch-norm-inference", "batch-norm-grad")
def _batch_norm(one: Any, _: Context) -> str:
    return f", epsilon={number(one.epsilon)}, feature_index={one.feature_index}"


@prints("reduce-precision")
def _reduce_precision(one: Any, _: Context) -> str:
    return f", exponent_bits={one.exponent_bits}, mantissa_bits={one.mantissa_bits}"


@prints("fft")
def _fft(one: Any, _: Context) -> str:
    return f", fft_type={enum_name(xla.FftType, one.fft_type, 'kind of FFT')}, fft_length={ints(one.fft_length)}"


@prints("triangular-solve")
def _triangular_solve(one: Any, _: Context) -> str:
    data = one.triangular_solve_options
    options = xla.TriangularSolveOptions.FromString(b"" if data == ABSENT else data)
    text = ", left_side=true" if options.left_side else ""
    text += ", lower=true" if options.lower else ""
    text += ", unit_diagonal=true" if options.unit_diagonal else ""
    return f"{text}, transpose_a={enum_name(xla.TriangularSolveOptions.Transpose, options.transpose_a, 'way to transpose')}"


@prints("cholesky")
def _cholesky(one: Any, _: Context) -> str:
    data = one.cholesky_options
    return ", lower=true" if data != ABSENT and xla.CholeskyOptions.FromString(data).lower else ""


@prints("rng")
def _rng(one: Any, _: Context) -> str:
    return f", distribution={enum_name(xla.RandomDistribution, one.distribution, 'random distribution').lower()}"


@prints("rng-bit-generator")
def _rng_bit_generator(one: Any, _: Context) -> str:
    return f", algorithm={enum_name(xla.RandomAlgorithm, one.rng_algorithm, 'random algorithm').lower()}"


@prints("rng-get-and-update-state")
def _rng_state(one: Any, _: Context) -> str:
    return f", delta={one.delta}"


@prints("scan")
def _scan(one: Any, _: Context) -> str:
    dimension = one.dimensions[0] if one.dimensions else 0
    text = f", dimensions={{{dimension}}}, num_carries={one.num_carries}"
    if one.is_reverse:
        text += ", is_reverse=true"
    if one.is_associative == xla.TRI_STATE_UNSPECIFIED:
        return text
    return f"{text}, is_associative={'true' if one.is_associative == xla.TRI_STATE_TRUE else 'false'}"


@prints("parameter")
def _parameter(one: Any, context: Context) -> str:
    data = one.parameter_replication
    if data == ABSENT or not data or not context.show_ids:
        return ""
    flags = xla.ParameterReplication.FromString(data).replicated_at_leaf_buffers
    return f", parameter_replication={{{','.join(['true' if flag else 'false' for flag in flags])}}}" if flags else ""


@prints("infeed")
def _infeed(one: Any, context: Context) -> str:
    shown = one.infeed_config and not context.is_fingerprint
    return f', infeed_config="{escape(one.infeed_config)}"' if shown else ""


@prints("outfeed")
def _outfeed(one: Any, context: Context) -> str:
    text = "" if one.outfeed_shape == ABSENT else f", outfeed_shape={context.shape_text(one.outfeed_shape)}"
    shown = one.outfeed_config and not context.is_fingerprint
    return f'{text}, outfeed_config="{escape(one.outfeed_config)}"' if shown else text


@prints("domain")
def _domain(one: Any, context: Context) -> str:
    # XLA writes the two into each other's field of the proto, and reads them back so.
    sides = [one.domain_exit_sharding, one.domain_entry_sharding]
    entry, exit_ = [
        sharding_text(xla.OpSharding.FromString(b"" if data == ABSENT else data), metadata=context.show_metadata)
        for data in sides
    ]
    return f', domain={{kind="sharding", entry={entry}, exit={exit_}}}'


@prints("copy-start")
def _copy_start(one: Any, _: Context) -> str:
    if not one.HasField("cross_program_prefetch_index"):
        return ", cross_program_prefetch_index=0" if one.is_cross_program_prefetch else ""
    return f", cross_program_prefetch_index={one.cross_program_prefetch_index}"


@prints(
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cbrt",
    "cosh",
    "cosine",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "rsqrt",
    "sine",
    "sinh",
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
    return f", result_accuracy={{mode={enum_name(xla.ResultAccuracy.Mode, accuracy.mode, 'accuracy').lower()}}}"


@lru_cache(4096)
def _aliasing_text(aliasing: tuple[bytes, ...]) -> str:
    pairs: list[str] = []
    for data in aliasing:
        one = xla.OutputOperandAliasing.FromString(data)
        pairs.append(f"{ints(one.output_shape_index)}: ({one.operand_index}, {ints(one.operand_shape_index)})")
    return f", output_to_operand_aliasing={{{', '.join(pairs)}}}" if pairs else ""


@prints("fusion")
def _fusion(one: Any, _: Context) -> str:
    return f", kind={one.fusion_kind}" + _aliasing_text(tuple(one.output_operand_aliasing))


@prints("custom-call")
def _custom_call(one: Any, context: Context) -> str:
    text = convolution_parts(one)
    if one.padding_type:
        text += f", padding_type={enum_name(xla.PaddingType, one.padding_type, 'kind of padding')}"
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
        text += f", schedule={enum_name(xla.CustomCallSchedule, one.custom_call_schedule, 'schedule')}"
    if one.custom_call_api_version > 1:
        text += f", api_version={enum_name(xla.CustomCallApiVersion, one.custom_call_api_version, 'API version')}"
    return text
