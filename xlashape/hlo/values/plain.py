"""Attributes that are a number, a flag, a string or a list of numbers."""

from __future__ import annotations

from typing import Any, Final

from xlashape.hlo.formatting import escape, ints, number
from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values.attribute import (
    ABSENT,
    FIELDS,
    Attribute,
    Context,
    always_written,
    flag,
    int32,
    integer,
    integers,
    not_written,
)
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla

__all__ = [
    "BATCH_GROUP_COUNT",
    "CHANNEL_ID",
    "CONSTRAIN_LAYOUT",
    "CROSS_PROGRAM_PREFETCH_INDEX",
    "CUSTOM_CALL_HAS_SIDE_EFFECT",
    "CUSTOM_CALL_TARGET",
    "DELTA",
    "DIMENSIONS",
    "DIMENSIONS_IF_ANY",
    "DIMENSIONS_READ_ONLY",
    "EPSILON",
    "EXPONENT_BITS",
    "FEATURE_GROUP_COUNT",
    "FEATURE_INDEX",
    "FFT_LENGTH",
    "FUSION_KIND",
    "HAS_DYNAMIC_ROOT",
    "INDEX",
    "INDICES_ARE_SORTED",
    "INFEED_CONFIG",
    "INFERRED_DIMENSION",
    "IOTA_DIMENSION",
    "IS_COMPOSITE",
    "IS_HOST_TRANSFER",
    "IS_REVERSE",
    "IS_STABLE",
    "LARGEST",
    "MANTISSA_BITS",
    "NUM_CARRIES",
    "OUTFEED_CONFIG",
    "PARAMETER_REPLICATION",
    "SCAN_DIMENSION",
    "TOPK_IS_STABLE",
    "UNIQUE_INDICES",
    "USE_GLOBAL_DEVICE_IDS",
    "K",
]

# -- integers --------------------------------------------------------------------------------

BATCH_GROUP_COUNT: Final = integer("batch_group_count", defaults=(0, 1))
DELTA: Final = integer("delta")
EXPONENT_BITS: Final = int32("exponent_bits")
FEATURE_GROUP_COUNT: Final = integer("feature_group_count", defaults=(0, 1))
FEATURE_INDEX: Final = integer("feature_index")
INDEX: Final = integer("index", "tuple_index")
K: Final = integer("k")
MANTISSA_BITS: Final = int32("mantissa_bits")
NUM_CARRIES: Final = integer("num_carries")


def _write_channel_id(message: Any, _context: Context) -> str:
    return f", channel_id={message.channel_id}" if message.channel_id > 0 else ""


CHANNEL_ID: Final = integer("channel_id")._replace(write=_write_channel_id)
"""The channel of a collective; numbers from 1. XLA writes no other."""


def _read_prefetch_index(cursor: HloCursor) -> bytes:
    # The field is in a oneof, where 0 is written too; FIELDS.integer would leave it out.
    index = cursor.parse_int_between(INT32_MIN, INT32_MAX, "cross_program_prefetch_index, an int32")
    return xla.HloInstructionProto(cross_program_prefetch_index=index).SerializeToString()


def _write_prefetch_index(message: Any, _context: Context) -> str:
    if message.HasField("cross_program_prefetch_index"):
        return f", cross_program_prefetch_index={message.cross_program_prefetch_index}"
    # What protos had before there was an index.
    return ", cross_program_prefetch_index=0" if message.is_cross_program_prefetch else ""


CROSS_PROGRAM_PREFETCH_INDEX: Final = Attribute(
    "cross_program_prefetch_index", _read_prefetch_index, _write_prefetch_index
)


def _read_epsilon(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    at = cursor.at
    try:
        message = xla.HloInstructionProto(epsilon=cursor.parse_double("epsilon"))
    except (OverflowError, ValueError) as error:
        raise cursor.error(f"epsilon does not fit f32: {error}", at=at) from None
    return message.SerializeToString()


EPSILON: Final = Attribute("epsilon", _read_epsilon, always_written("epsilon", "epsilon", number))

# -- flags -----------------------------------------------------------------------------------

CONSTRAIN_LAYOUT: Final = flag("constrain_layout")
CUSTOM_CALL_HAS_SIDE_EFFECT: Final = flag("custom_call_has_side_effect")
INDICES_ARE_SORTED: Final = flag("indices_are_sorted")
IS_COMPOSITE: Final = flag("is_composite")
IS_HOST_TRANSFER: Final = flag("is_host_transfer")
IS_REVERSE: Final = flag("is_reverse")
HAS_DYNAMIC_ROOT: Final = flag("has_dynamic_root", write_false=True)
IS_STABLE: Final = flag("is_stable")
TOPK_IS_STABLE: Final = flag("is_stable", write_false=True)
LARGEST: Final = flag("largest", write_false=True)
UNIQUE_INDICES: Final = flag("unique_indices")
USE_GLOBAL_DEVICE_IDS: Final = flag("use_global_device_ids")


def _read_replication(cursor: HloCursor) -> bytes:
    values = cursor.parse_list(cursor.parse_bool)
    return FIELDS.message("parameter_replication", xla.ParameterReplication(replicated_at_leaf_buffers=values))


def _write_replication(message: Any, context: Context) -> str:
    data = message.parameter_replication
    if data == ABSENT or not data or not context.show_ids:
        return ""
    flags = xla.ParameterReplication.FromString(data).replicated_at_leaf_buffers
    return f", parameter_replication={{{','.join(['true' if flag else 'false' for flag in flags])}}}" if flags else ""


PARAMETER_REPLICATION: Final = Attribute("parameter_replication", _read_replication, _write_replication)
"""Whether a parameter is the same on all replicas, a flag for each leaf of its shape: `{true,false}`."""

# -- lists of integers -----------------------------------------------------------------------

DIMENSIONS: Final = integers("dimensions")
DIMENSIONS_IF_ANY: Final = integers("dimensions", write_empty=False)
DIMENSIONS_READ_ONLY: Final = DIMENSIONS._replace(write=not_written)
FFT_LENGTH: Final = integers("fft_length")


def _write_scan_dimension(message: Any, _context: Context) -> str:
    return f", dimensions={ints(message.dimensions[:1] or (0,))}"


SCAN_DIMENSION: Final = DIMENSIONS._replace(write=_write_scan_dimension)
"""The dimension of a scan: a list of one number."""


def _read_one_dimension(cursor: HloCursor) -> bytes:
    return FIELDS.integers("dimensions", [cursor.parse_int("a dimension number")])


def _write_iota_dimension(message: Any, _context: Context) -> str:
    return f", iota_dimension={message.dimensions[0] if message.dimensions else 0}"


def _write_inferred_dimension(message: Any, _context: Context) -> str:
    return f", inferred_dimension={message.dimensions[0]}" if message.dimensions else ""


IOTA_DIMENSION: Final = Attribute("iota_dimension", _read_one_dimension, _write_iota_dimension)
INFERRED_DIMENSION: Final = Attribute("inferred_dimension", _read_one_dimension, _write_inferred_dimension)

# -- strings ---------------------------------------------------------------------------------


def _read_custom_call_target(cursor: HloCursor) -> bytes:
    return FIELDS.string("custom_call_target", cursor.parse_text("custom_call_target"))


def _write_custom_call_target(message: Any, _context: Context) -> str:
    return f', custom_call_target="{escape(message.custom_call_target)}"'


CUSTOM_CALL_TARGET: Final = Attribute("custom_call_target", _read_custom_call_target, _write_custom_call_target)


def _config(name: str) -> Attribute:
    """The configuration of an infeed or outfeed: any bytes, which do not belong to a fingerprint."""

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.string(name, cursor.parse_string(name))

    def write(message: Any, context: Context) -> str:
        value = getattr(message, name)
        return f', {name}="{escape(value)}"' if value and not context.is_fingerprint else ""

    return Attribute(name, read, write)


INFEED_CONFIG: Final = _config("infeed_config")
OUTFEED_CONFIG: Final = _config("outfeed_config")

_FUSION_KINDS: Final = {kind: kind for kind in ("kLoop", "kInput", "kOutput", "kCustom")}


def _read_fusion_kind(cursor: HloCursor) -> bytes:
    return FIELDS.string("fusion_kind", cursor.parse_word_of(_FUSION_KINDS, "a kind of fusion"))


FUSION_KIND: Final = Attribute("kind", _read_fusion_kind, always_written("kind", "fusion_kind"))
