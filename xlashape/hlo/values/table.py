"""The dispatch table: attribute name → the function that reads its value and answers the wire bytes of HloInstructionProto fields.

Only attributes whose bytes follow from their own text stand here. What names computations or instructions, and what belongs to a table
of the module (metadata's stack frames), `parse_instruction` reads itself.
"""

from __future__ import annotations

from collections.abc import Callable

from xlashape.errors import XlashapeError
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.literal import parse_literal
from xlashape.hlo.values.config import (
    parse_algorithm,
    parse_aliasing,
    parse_dim_labels,
    parse_padding,
    parse_precision,
    parse_result_accuracy,
    parse_slice,
    parse_sparsity,
    parse_window,
)
from xlashape.hlo.values.metadata import (
    parse_backend_config,
    parse_frontend_attributes,
    parse_origin,
    parse_statistics,
)
from xlashape.hlo.values.replica_groups import parse_replica_groups, parse_source_target_pairs
from xlashape.hlo.values.sharding import parse_domain, parse_sharding
from xlashape.proto import xla
from xlashape.proto.wire import Fields
from xlashape.shape.value.shape import parse_shape

__all__ = ["VALUES", "VALUES_OF", "parse_shape_proto"]

_FIELDS = Fields(xla.HloInstructionProto)
_GATHER = Fields(xla.GatherDimensionNumbers)
_SCATTER = Fields(xla.ScatterDimensionNumbers)
_DOT = Fields(xla.DotDimensionNumbers)
_RAGGED = Fields(xla.RaggedDotDimensionNumbers)
_INT32 = (-(1 << 31), (1 << 31) - 1)

Value = Callable[[HloCursor], bytes]


def parse_shape_proto(cursor: HloCursor) -> xla.ShapeProto:
    """A shape as its proto; what is wrong with it stands at its place in the text."""
    cursor.skip_space()
    at = cursor.at
    try:
        return parse_shape(cursor).to_proto()
    except XlashapeError as error:
        if hasattr(error, "line"):
            raise
        raise cursor.error(str(error), at=at) from error


def _ints(field: str) -> Value:
    return lambda cursor: _FIELDS.integers(field, cursor.parse_ints())


def _int(field: str) -> Value:
    return lambda cursor: _FIELDS.integer(field, cursor.parse_int())


def _int32(field: str) -> Value:
    return lambda cursor: _FIELDS.integer(field, cursor.parse_int_between(*_INT32, f"{field}, an int32"))


def _bool(field: str) -> Value:
    return lambda cursor: _FIELDS.integer(field, cursor.parse_bool())


def _part(field: str, fields: Fields, name: str) -> Value:
    # A piece of a submessage: protobuf merges the pieces.
    return lambda cursor: _FIELDS.message(field, fields.integers(name, cursor.parse_ints()))


def _dot_part(name: str) -> Value:
    return _part("dot_dimension_numbers", _DOT, name)


def _ragged_part(name: str) -> Value:
    # A ragged dot has its dot's dimension numbers one level down.
    def parse(cursor: HloCursor) -> bytes:
        inner = _RAGGED.message("dot_dimension_numbers", _DOT.integers(name, cursor.parse_ints()))
        return _FIELDS.message("ragged_dot_dimension_numbers", inner)

    return parse


def _bytes(field: str) -> Value:
    return lambda cursor: _FIELDS.string(field, cursor.parse_string(field))


def _word(field: str, words: dict[str, int], what: str) -> Value:
    return lambda cursor: _FIELDS.integer(field, cursor.parse_word_of(words, what))


def _any_case(field: str, words: dict[str, int], what: str) -> Value:
    lower = {word.lower(): number for word, number in words.items()}
    return lambda cursor: _FIELDS.integer(field, cursor.parse_word_of(lower, what, any_case=True))


def _text(field: str, words: tuple[str, ...], what: str) -> Value:
    known = {word: word for word in words}
    return lambda cursor: _FIELDS.string(field, cursor.parse_word_of(known, what))


def _named_sharding(cursor: HloCursor) -> bytes:
    return _FIELDS.message("sharding", parse_sharding(cursor))


def _origin(cursor: HloCursor) -> bytes:
    return _FIELDS.message("original_value", parse_origin(cursor))


def _frontend(cursor: HloCursor) -> bytes:
    return _FIELDS.message(
        "frontend_attributes", parse_frontend_attributes(cursor).SerializeToString(deterministic=True)
    )


def _replication(cursor: HloCursor) -> bytes:
    values = cursor.parse_list(cursor.parse_bool)
    return _FIELDS.message("parameter_replication", xla.ParameterReplication(replicated_at_leaf_buffers=values))


def _epsilon(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    at = cursor.at
    try:
        message = xla.HloInstructionProto(epsilon=cursor.parse_double("epsilon"))
    except (OverflowError, ValueError) as error:
        raise cursor.error(f"epsilon does not fit f32: {error}", at=at) from None
    return message.SerializeToString()


def _literal(cursor: HloCursor) -> bytes:
    return _FIELDS.message("literal", _shaped_literal(cursor, 0))


def _shaped_literal(cursor: HloCursor, depth: int) -> xla.LiteralProto:
    if depth > 60:
        raise cursor.error("literals nest deeper than 60 levels")
    if not cursor.looking_at("("):
        shape = parse_shape_proto(cursor)
        literal, cursor.at = parse_literal(cursor.source, cursor.at, shape)
        return literal
    parts = cursor.parse_list(lambda: _shaped_literal(cursor, depth + 1), "(", ")")
    shape = xla.ShapeProto(element_type=xla.TUPLE, tuple_shapes=[part.shape for part in parts])
    return xla.LiteralProto(shape=shape, tuple_literals=parts)


def _constrained(cursor: HloCursor) -> bytes:
    shapes = cursor.parse_list(lambda: parse_shape_proto(cursor))
    return b"".join(_FIELDS.message("operand_shapes_with_layout", shape) for shape in shapes) + _FIELDS.integer(
        "constrain_layout", 1
    )


def _outfeed_shape(cursor: HloCursor) -> bytes:
    return _FIELDS.message("outfeed_shape", parse_shape_proto(cursor))


def _accuracy(cursor: HloCursor) -> bytes:
    return parse_result_accuracy(cursor)


def _one_dimension(cursor: HloCursor) -> bytes:
    return _FIELDS.integers("dimensions", [cursor.parse_int("a dimension number")])


def _tri_state(cursor: HloCursor) -> bytes:
    return _FIELDS.integer("is_associative", xla.TRI_STATE_TRUE if cursor.parse_bool() else xla.TRI_STATE_FALSE)


def _prefetch(cursor: HloCursor) -> bytes:
    # Within a oneof: 0 is written too.
    index = cursor.parse_int_between(*_INT32, "cross_program_prefetch_index, an int32")
    return xla.HloInstructionProto(cross_program_prefetch_index=index).SerializeToString()


def _permute_sizes(cursor: HloCursor) -> bytes:
    # A list a slice, stored one behind the other.
    lists = cursor.parse_list(cursor.parse_ints)
    return _FIELDS.integers("dynamic_slice_sizes", [size for sizes in lists for size in sizes])


def _triangular(name: str) -> Value:
    fields = Fields(xla.TriangularSolveOptions)
    return lambda cursor: _FIELDS.message("triangular_solve_options", fields.integer(name, cursor.parse_bool()))


def _transpose_a(cursor: HloCursor) -> bytes:
    value = cursor.parse_word_of(dict(xla.TriangularSolveOptions.Transpose.items()), "a transposition")
    return _FIELDS.message("triangular_solve_options", xla.TriangularSolveOptions(transpose_a=value))


def _lower(cursor: HloCursor) -> bytes:
    return _FIELDS.message("cholesky_options", xla.CholeskyOptions(lower=cursor.parse_bool()))


def _gather_part(name: str) -> Value:
    return _part("gather_dimension_numbers", _GATHER, name)


def _scatter_part(name: str) -> Value:
    return _part("scatter_dimension_numbers", _SCATTER, name)


def _index_vector_dim(field: str, fields: Fields) -> Value:
    return lambda cursor: _FIELDS.message(field, fields.integer("index_vector_dim", cursor.parse_int()))


def _mode(cursor: HloCursor) -> bytes:
    cursor.parse_word_of(_GROUP_MODES, "a collective op group mode")
    return b""


_GROUP_MODES = {
    name.removeprefix("COLLECTIVE_OP_GROUP_MODE_").lower(): number for name, number in xla.CollectiveOpGroupMode.items()
}
_CONVOLUTION_KINDS = {
    name.removeprefix("CONVOLUTION_KIND_").lower(): number for name, number in xla.ConvolutionKind.items()
}
_DISTRIBUTIONS = {name.lower(): number for name, number in xla.RandomDistribution.items()}
_RANDOM_ALGORITHMS = {name.lower(): number for name, number in xla.RandomAlgorithm.items()}
_API_VERSIONS = {name: number for name, number in xla.CustomCallApiVersion.items() if number}

VALUES: dict[str, Value] = {
    "algorithm": parse_algorithm,
    "api_version": _any_case("custom_call_api_version", _API_VERSIONS, "an API version"),
    "backend_config": parse_backend_config,
    "batch_group_count": _int("batch_group_count"),
    "channel_id": _int("channel_id"),
    "collapsed_slice_dims": _gather_part("collapsed_slice_dims"),
    "constrain_layout": _bool("constrain_layout"),
    "convolution_kind": _word("conv_kind", _CONVOLUTION_KINDS, "a kind of convolution"),
    "cross_program_prefetch_index": _prefetch,
    "custom_call_has_side_effect": _bool("custom_call_has_side_effect"),
    "custom_call_target": lambda cursor: _FIELDS.string("custom_call_target", cursor.parse_text("custom_call_target")),
    "delta": _int("delta"),
    "dim_labels": parse_dim_labels,
    "dimensions": _ints("dimensions"),
    "direction": _text("comparison_direction", ("EQ", "NE", "GE", "GT", "LE", "LT"), "a direction of comparison"),
    "distribution": _any_case("distribution", _DISTRIBUTIONS, "a distribution"),
    "domain": parse_domain,
    "dynamic_slice_sizes": _ints("dynamic_slice_sizes"),
    "epsilon": _epsilon,
    "exponent_bits": _int32("exponent_bits"),
    "feature_group_count": _int("feature_group_count"),
    "feature_index": _int("feature_index"),
    "fft_length": _ints("fft_length"),
    "fft_type": _word("fft_type", dict(xla.FftType.items()), "a kind of Fourier transform"),
    "frontend_attributes": _frontend,
    "index": _int("tuple_index"),
    "index_vector_dim": _index_vector_dim("gather_dimension_numbers", _GATHER),
    "indices_are_sorted": _bool("indices_are_sorted"),
    "infeed_config": _bytes("infeed_config"),
    "inferred_dimension": _one_dimension,
    "input_batching_dims": _scatter_part("input_batching_dims"),
    "inserted_window_dims": _scatter_part("inserted_window_dims"),
    "iota_dimension": _one_dimension,
    "is_associative": _tri_state,
    "is_composite": _bool("is_composite"),
    "is_host_transfer": _bool("is_host_transfer"),
    "is_reverse": _bool("is_reverse"),
    "is_stable": _bool("is_stable"),
    "k": _int("k"),
    "kind": _text("fusion_kind", ("kLoop", "kInput", "kOutput", "kCustom"), "a kind of fusion"),
    "largest": _bool("largest"),
    "left_side": _triangular("left_side"),
    "lhs_batch_dims": _dot_part("lhs_batch_dimensions"),
    "lhs_contracting_dims": _dot_part("lhs_contracting_dimensions"),
    "lhs_ragged_dims": _part("ragged_dot_dimension_numbers", _RAGGED, "lhs_ragged_dimensions"),
    "literal": _literal,
    "lower": _lower,
    "mantissa_bits": _int32("mantissa_bits"),
    "mode": _mode,
    "num_carries": _int("num_carries"),
    "offset_dims": _gather_part("offset_dims"),
    "operand_batching_dims": _gather_part("operand_batching_dims"),
    "operand_layout_constraints": _constrained,
    "operand_precision": parse_precision,
    "origin": _origin,
    "outfeed_config": _bytes("outfeed_config"),
    "outfeed_shape": _outfeed_shape,
    "output_to_operand_aliasing": parse_aliasing,
    "padding": parse_padding,
    "padding_type": _word("padding_type", dict(xla.PaddingType.items()), "a padding type"),
    "parameter_replication": _replication,
    "replica_groups": parse_replica_groups,
    "result_accuracy": _accuracy,
    "rhs_batch_dims": _dot_part("rhs_batch_dimensions"),
    "rhs_contracting_dims": _dot_part("rhs_contracting_dimensions"),
    "rhs_group_dims": _part("ragged_dot_dimension_numbers", _RAGGED, "rhs_group_dimensions"),
    "scatter_dims_to_operand_dims": _scatter_part("scatter_dims_to_operand_dims"),
    "scatter_indices_batching_dims": _scatter_part("scatter_indices_batching_dims"),
    "schedule": _any_case("custom_call_schedule", dict(xla.CustomCallSchedule.items()), "a schedule"),
    "sharding": _named_sharding,
    "slice": parse_slice,
    "slice_sizes": _ints("gather_slice_sizes"),
    "source_target_pairs": parse_source_target_pairs,
    "sparsity_config": parse_sparsity,
    "start_index_map": _gather_part("start_index_map"),
    "start_indices_batching_dims": _gather_part("start_indices_batching_dims"),
    "statistics": parse_statistics,
    "transpose_a": _transpose_a,
    "type": _text("comparison_type", ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"), "a type of comparison"),
    "unique_indices": _bool("unique_indices"),
    "unit_diagonal": _triangular("unit_diagonal"),
    "update_window_dims": _scatter_part("update_window_dims"),
    "use_global_device_ids": _bool("use_global_device_ids"),
    "window": parse_window,
}
"""The reader of every attribute's value. Each answers bytes to be concatenated; protobuf merges them."""

VALUES_OF: dict[str, dict[str, Value]] = {
    "collective-permute": {"slice_sizes": _permute_sizes},
    "collective-permute-start": {"slice_sizes": _permute_sizes},
    "ragged-dot": {
        f"{side}_{kind}_dims": _ragged_part(f"{side}_{kind}_dimensions")
        for side in ("lhs", "rhs")
        for kind in ("batch", "contracting")
    },
    "rng-bit-generator": {"algorithm": _any_case("rng_algorithm", _RANDOM_ALGORITHMS, "an algorithm of random bits")},
    "scatter": {"index_vector_dim": _index_vector_dim("scatter_dimension_numbers", _SCATTER)},
    "triangular-solve": {"lower": _triangular("lower")},
}
"""Opcodes for which a name means another field."""
