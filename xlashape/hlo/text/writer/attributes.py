"""The attributes that belong to each opcode alone, in the order in which XLA writes them."""

from __future__ import annotations

from typing import Final

from xlashape.hlo.values.aliasing import OUTPUT_TO_OPERAND_ALIASING
from xlashape.hlo.values.attribute import Attribute
from xlashape.hlo.values.comparison import COMPARISON_TYPE, DIRECTION
from xlashape.hlo.values.convolution_numbers import DIM_LABELS, DIM_LABELS_IF_ANY
from xlashape.hlo.values.dot_numbers import (
    LHS_BATCH_DIMS,
    LHS_CONTRACTING_DIMS,
    LHS_RAGGED_DIMS,
    RAGGED_LHS_BATCH_DIMS,
    RAGGED_LHS_CONTRACTING_DIMS,
    RAGGED_RHS_BATCH_DIMS,
    RAGGED_RHS_CONTRACTING_DIMS,
    RHS_BATCH_DIMS,
    RHS_CONTRACTING_DIMS,
    RHS_GROUP_DIMS,
)
from xlashape.hlo.values.enums import (
    API_VERSION,
    CONVOLUTION_KIND,
    CUSTOM_CALL_SCHEDULE,
    DISTRIBUTION,
    FFT_TYPE,
    IS_ASSOCIATIVE,
    PADDING_TYPE,
    RNG_ALGORITHM,
)
from xlashape.hlo.values.gather_numbers import (
    COLLAPSED_SLICE_DIMS,
    GATHER_INDEX_VECTOR_DIM,
    OFFSET_DIMS,
    OPERAND_BATCHING_DIMS,
    START_INDEX_MAP,
    START_INDICES_BATCHING_DIMS,
)
from xlashape.hlo.values.linear_algebra import (
    CHOLESKY_LOWER,
    LEFT_SIDE,
    TRANSPOSE_A,
    TRIANGULAR_LOWER,
    UNIT_DIAGONAL,
)
from xlashape.hlo.values.padding import PADDING
from xlashape.hlo.values.plain import (
    BATCH_GROUP_COUNT,
    CHANNEL_ID,
    CONSTRAIN_LAYOUT,
    CROSS_PROGRAM_PREFETCH_INDEX,
    CUSTOM_CALL_HAS_SIDE_EFFECT,
    CUSTOM_CALL_TARGET,
    DELTA,
    DIMENSIONS,
    DIMENSIONS_IF_ANY,
    EPSILON,
    EXPONENT_BITS,
    FEATURE_GROUP_COUNT,
    FEATURE_INDEX,
    FFT_LENGTH,
    FUSION_KIND,
    INDEX,
    INDICES_ARE_SORTED,
    INFEED_CONFIG,
    INFERRED_DIMENSION,
    IOTA_DIMENSION,
    IS_HOST_TRANSFER,
    IS_REVERSE,
    IS_STABLE,
    LARGEST,
    MANTISSA_BITS,
    NUM_CARRIES,
    OUTFEED_CONFIG,
    PARAMETER_REPLICATION,
    SCAN_DIMENSION,
    UNIQUE_INDICES,
    USE_GLOBAL_DEVICE_IDS,
    K,
)
from xlashape.hlo.values.precision import DOT_ALGORITHM, OPERAND_PRECISION
from xlashape.hlo.values.replica_groups import REPLICA_GROUPS
from xlashape.hlo.values.result_accuracy import RESULT_ACCURACY
from xlashape.hlo.values.scatter_numbers import (
    INPUT_BATCHING_DIMS,
    INSERTED_WINDOW_DIMS,
    SCATTER_DIMS_TO_OPERAND_DIMS,
    SCATTER_INDEX_VECTOR_DIM,
    SCATTER_INDICES_BATCHING_DIMS,
    UPDATE_WINDOW_DIMS,
)
from xlashape.hlo.values.shapes import LITERAL, OPERAND_LAYOUT_CONSTRAINTS, OUTFEED_SHAPE
from xlashape.hlo.values.sharding import DOMAIN
from xlashape.hlo.values.slices import DYNAMIC_SLICE_SIZES, PERMUTE_SLICE_SIZES, SLICE, SLICE_SIZES
from xlashape.hlo.values.source_target_pairs import SOURCE_TARGET_PAIRS
from xlashape.hlo.values.window import WINDOW

__all__ = ["ATTRIBUTES"]

_COLLECTIVE = (CHANNEL_ID, REPLICA_GROUPS, CONSTRAIN_LAYOUT)
_GROUP_COUNTS = (FEATURE_GROUP_COUNT, BATCH_GROUP_COUNT)

ATTRIBUTES: Final[dict[str, tuple[Attribute, ...]]] = {
    **dict.fromkeys(("broadcast", "concatenate", "map", "reduce", "reverse", "transpose"), (DIMENSIONS,)),
    **dict.fromkeys(("get-dimension-size", "set-dimension-size"), (DIMENSIONS,)),
    **dict.fromkeys(("all-gather", "all-gather-start"), (*_COLLECTIVE, DIMENSIONS, USE_GLOBAL_DEVICE_IDS)),
    **dict.fromkeys(("all-reduce", "all-reduce-start"), (*_COLLECTIVE, USE_GLOBAL_DEVICE_IDS)),
    **dict.fromkeys(("ragged-all-to-all", "collective-broadcast"), _COLLECTIVE),
    **dict.fromkeys(
        ("collective-permute", "collective-permute-start"), (CHANNEL_ID, SOURCE_TARGET_PAIRS, PERMUTE_SLICE_SIZES)
    ),
    **dict.fromkeys(("send", "send-done", "recv", "recv-done"), (CHANNEL_ID, IS_HOST_TRANSFER)),
    **dict.fromkeys(("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), (EPSILON, FEATURE_INDEX)),
    **dict.fromkeys(("reduce-window", "select-and-scatter"), (WINDOW,)),
    **dict.fromkeys(
        "acos acosh asin asinh atanh cbrt cosh cosine erf exponential exponential-minus-one log log-plus-one logistic "
        "rsqrt sine sinh sqrt tan tanh".split(),
        (RESULT_ACCURACY,),
    ),
    **dict.fromkeys(
        ("dot", "scaled-dot"),
        (
            LHS_BATCH_DIMS,
            LHS_CONTRACTING_DIMS,
            RHS_BATCH_DIMS,
            RHS_CONTRACTING_DIMS,
            OPERAND_PRECISION,
            DOT_ALGORITHM,
        ),
    ),
    "reduce-scatter": (*_COLLECTIVE, USE_GLOBAL_DEVICE_IDS, DIMENSIONS),
    "all-to-all": (*_COLLECTIVE, DIMENSIONS_IF_ANY),
    "sort": (DIMENSIONS, IS_STABLE),
    "topk": (K, LARGEST),
    "iota": (IOTA_DIMENSION,),
    "reshape": (INFERRED_DIMENSION,),
    "get-tuple-element": (INDEX,),
    "compare": (DIRECTION, COMPARISON_TYPE),
    "slice": (SLICE,),
    "dynamic-slice": (DYNAMIC_SLICE_SIZES,),
    "pad": (PADDING,),
    "reduce-precision": (EXPONENT_BITS, MANTISSA_BITS),
    "fft": (FFT_TYPE, FFT_LENGTH),
    "triangular-solve": (LEFT_SIDE, TRIANGULAR_LOWER, UNIT_DIAGONAL, TRANSPOSE_A),
    "cholesky": (CHOLESKY_LOWER,),
    "rng": (DISTRIBUTION,),
    "rng-bit-generator": (RNG_ALGORITHM,),
    "rng-get-and-update-state": (DELTA,),
    "scan": (SCAN_DIMENSION, NUM_CARRIES, IS_REVERSE, IS_ASSOCIATIVE),
    "parameter": (PARAMETER_REPLICATION,),
    "infeed": (INFEED_CONFIG,),
    "outfeed": (OUTFEED_SHAPE, OUTFEED_CONFIG),
    "domain": (DOMAIN,),
    "copy-start": (CROSS_PROGRAM_PREFETCH_INDEX,),
    "fusion": (FUSION_KIND, OUTPUT_TO_OPERAND_ALIASING),
    "convolution": (
        WINDOW,
        DIM_LABELS,
        *_GROUP_COUNTS,
        OPERAND_PRECISION,
        DOT_ALGORITHM,
        CONVOLUTION_KIND,
    ),
    "ragged-dot": (
        RAGGED_LHS_BATCH_DIMS,
        RAGGED_LHS_CONTRACTING_DIMS,
        RAGGED_RHS_BATCH_DIMS,
        RAGGED_RHS_CONTRACTING_DIMS,
        LHS_RAGGED_DIMS,
        RHS_GROUP_DIMS,
        OPERAND_PRECISION,
        DOT_ALGORITHM,
    ),
    "gather": (
        OFFSET_DIMS,
        COLLAPSED_SLICE_DIMS,
        START_INDEX_MAP,
        OPERAND_BATCHING_DIMS,
        START_INDICES_BATCHING_DIMS,
        GATHER_INDEX_VECTOR_DIM,
        SLICE_SIZES,
        INDICES_ARE_SORTED,
    ),
    "scatter": (
        UPDATE_WINDOW_DIMS,
        INSERTED_WINDOW_DIMS,
        SCATTER_DIMS_TO_OPERAND_DIMS,
        INPUT_BATCHING_DIMS,
        SCATTER_INDICES_BATCHING_DIMS,
        SCATTER_INDEX_VECTOR_DIM,
        INDICES_ARE_SORTED,
        UNIQUE_INDICES,
    ),
    "custom-call": (
        WINDOW,
        DIM_LABELS_IF_ANY,
        *_GROUP_COUNTS,
        OPERAND_PRECISION,
        DOT_ALGORITHM,
        PADDING_TYPE,
        CUSTOM_CALL_TARGET,
        OPERAND_LAYOUT_CONSTRAINTS,
        CUSTOM_CALL_HAS_SIDE_EFFECT,
        LITERAL,
        OUTPUT_TO_OPERAND_ALIASING,
        CUSTOM_CALL_SCHEDULE,
        API_VERSION,
    ),
}
