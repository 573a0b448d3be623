"""Attributes whose value is a number, a flag, a string or a list of numbers. Also `backend_config={"a":1}` and
`frontend_attributes={k="v",j={"a":1}}`, whose values are strings or JSON objects.

config      := string | object
attributes  := '{' (name '=' (string | object) (',' …)*)? '}'
object      := '{' … '}'            usually JSON; the reader only finds where it ends, and keeps its text unchanged

A value that is enclosed in balanced braces is written without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from xlashape.hlo.tokens import HloCursor, escape, ints, is_json_dict, number
from xlashape.hlo.values import attribute
from xlashape.hlo.values.attribute import FIELDS, Attribute, Codec, Context
from xlashape.hlo.values.metadata import payload_bytes
from xlashape.limits import INT32_MAX, INT32_MIN
from xlashape.proto import xla

# -- integers --------------------------------------------------------------------------------

BATCH_GROUP_COUNT: Final = attribute.integer("batch_group_count", defaults=(0, 1))
DELTA: Final = attribute.integer("delta")
EXPONENT_BITS: Final = attribute.int32("exponent_bits")
FEATURE_GROUP_COUNT: Final = attribute.integer("feature_group_count", defaults=(0, 1))
FEATURE_INDEX: Final = attribute.integer("feature_index")
INDEX: Final = attribute.integer("index", "tuple_index")
K: Final = attribute.integer("k")
MANTISSA_BITS: Final = attribute.int32("mantissa_bits")
NUM_CARRIES: Final = attribute.integer("num_carries")


def _write_channel_id(message: xla.HloInstructionProto, _context: Context) -> str:
    return f", channel_id={message.channel_id}" if message.channel_id > 0 else ""


def _is_channel(number: int) -> bool:
    return number > 0


CHANNEL_ID: Final = Attribute(
    "channel_id",
    attribute.integer("channel_id").read,
    _write_channel_id,
    attribute.scalar_value("channel_id", "an integer")._replace(is_said=_is_channel),
)
"""The channel of a collective, a number from 1. XLA does not write any other number."""


def _read_prefetch_index(cursor: HloCursor) -> bytes:
    # The field is in a oneof, so 0 must be serialized; FIELDS.integer leaves out a 0.
    index = cursor.parse_int_between(INT32_MIN, INT32_MAX, "cross_program_prefetch_index, an int32")
    return xla.HloInstructionProto(cross_program_prefetch_index=index).SerializeToString()


def _write_prefetch_index(message: xla.HloInstructionProto, _context: Context) -> str:
    if message.HasField("cross_program_prefetch_index"):
        return f", cross_program_prefetch_index={message.cross_program_prefetch_index}"
    # Older protos have this flag instead of an index.
    return ", cross_program_prefetch_index=0" if message.is_cross_program_prefetch else ""


def _get_prefetch_index(instruction: xla.HloInstructionProto) -> int | None:
    if instruction.HasField("cross_program_prefetch_index"):
        return instruction.cross_program_prefetch_index
    return 0 if instruction.is_cross_program_prefetch else None


def _put_prefetch_index(instruction: xla.HloInstructionProto, value: Any) -> None:
    if value is None:
        instruction.ClearField("cross_program_prefetch_index")
    else:
        instruction.cross_program_prefetch_index = value
    instruction.ClearField("is_cross_program_prefetch")


CROSS_PROGRAM_PREFETCH_INDEX: Final = Attribute(
    "cross_program_prefetch_index",
    _read_prefetch_index,
    _write_prefetch_index,
    Codec(_get_prefetch_index, _put_prefetch_index, "an integer of 32 bits"),
)


def _read_epsilon(cursor: HloCursor) -> bytes:
    cursor.skip_space()
    at = cursor.at
    try:
        message = xla.HloInstructionProto(epsilon=cursor.parse_double("epsilon"))
    except (OverflowError, ValueError) as error:
        raise cursor.error(f"epsilon does not fit f32: {error}", at=at) from None
    return message.SerializeToString()


EPSILON: Final = Attribute(
    "epsilon",
    _read_epsilon,
    attribute.always_written("epsilon", "epsilon", number),
    attribute.scalar_value("epsilon", "a number"),
)

# -- flags -----------------------------------------------------------------------------------

CONSTRAIN_LAYOUT: Final = attribute.flag("constrain_layout")
CUSTOM_CALL_HAS_SIDE_EFFECT: Final = attribute.flag("custom_call_has_side_effect")
INDICES_ARE_SORTED: Final = attribute.flag("indices_are_sorted")
IS_COMPOSITE: Final = attribute.flag("is_composite")
IS_HOST_TRANSFER: Final = attribute.flag("is_host_transfer")
IS_REVERSE: Final = attribute.flag("is_reverse")
HAS_DYNAMIC_ROOT: Final = attribute.flag("has_dynamic_root", write_false=True)
IS_STABLE: Final = attribute.flag("is_stable")
TOPK_IS_STABLE: Final = attribute.flag("is_stable", write_false=True)
LARGEST: Final = attribute.flag("largest", write_false=True)
UNIQUE_INDICES: Final = attribute.flag("unique_indices")
USE_GLOBAL_DEVICE_IDS: Final = attribute.flag("use_global_device_ids")


def _read_replication(cursor: HloCursor) -> bytes:
    values = cursor.parse_list(cursor.parse_bool)
    return FIELDS.message("parameter_replication", xla.ParameterReplication(replicated_at_leaf_buffers=values))


def _write_replication(message: xla.HloInstructionProto, context: Context) -> str:
    flags = message.parameter_replication.replicated_at_leaf_buffers
    if not flags or not context.show_ids:
        return ""
    return f", parameter_replication={{{','.join(['true' if each else 'false' for each in flags])}}}"


PARAMETER_REPLICATION: Final = Attribute(
    "parameter_replication",
    _read_replication,
    _write_replication,
    attribute.list_value("replicated_at_leaf_buffers", "a list of True and False", owners=("parameter_replication",)),
)
"""Whether a parameter has the same value on all replicas: a flag for each leaf of its shape, `{true,false}`."""

# -- lists of integers -----------------------------------------------------------------------

DIMENSIONS: Final = attribute.integers("dimensions")
DIMENSIONS_IF_ANY: Final = attribute.integers("dimensions", write_empty=False)
DIMENSIONS_READ_ONLY: Final = DIMENSIONS._replace(write=attribute.not_written)
FFT_LENGTH: Final = attribute.integers("fft_length")


def _write_scan_dimension(message: xla.HloInstructionProto, _context: Context) -> str:
    return f", dimensions={ints(message.dimensions[:1] or (0,))}"


SCAN_DIMENSION: Final = DIMENSIONS._replace(write=_write_scan_dimension)
"""The attribute `dimensions` of a scan, which is written with one dimension only."""


def _read_one_dimension(cursor: HloCursor) -> bytes:
    return FIELDS.integers("dimensions", [cursor.parse_int("a dimension number")])


def _write_iota_dimension(message: xla.HloInstructionProto, _context: Context) -> str:
    return f", iota_dimension={message.dimensions[0] if message.dimensions else 0}"


def _write_inferred_dimension(message: xla.HloInstructionProto, _context: Context) -> str:
    return f", inferred_dimension={message.dimensions[0]}" if message.dimensions else ""


def _one_dimension(absent: int | None) -> Codec:
    """The Codec of an attribute that is the first number in the field `dimensions`; `absent` if the field is empty."""

    def get(instruction: xla.HloInstructionProto) -> int | None:
        return instruction.dimensions[0] if instruction.dimensions else absent

    def put(instruction: xla.HloInstructionProto, value: Any) -> None:
        instruction.dimensions[:] = [] if value is None else [value]

    return Codec(get, put, "a dimension number")


IOTA_DIMENSION: Final = Attribute("iota_dimension", _read_one_dimension, _write_iota_dimension, _one_dimension(0))
INFERRED_DIMENSION: Final = Attribute(
    "inferred_dimension", _read_one_dimension, _write_inferred_dimension, _one_dimension(None)
)

# -- strings ---------------------------------------------------------------------------------


def _read_custom_call_target(cursor: HloCursor) -> bytes:
    return FIELDS.string("custom_call_target", cursor.parse_text("custom_call_target"))


def _write_custom_call_target(message: xla.HloInstructionProto, _context: Context) -> str:
    return f', custom_call_target="{escape(message.custom_call_target)}"'


CUSTOM_CALL_TARGET: Final = Attribute(
    "custom_call_target",
    _read_custom_call_target,
    _write_custom_call_target,
    attribute.scalar_value("custom_call_target", "text"),
)


def _config(name: str) -> Attribute:
    """The configuration of an infeed or outfeed: any bytes. It is not written in the text of a fingerprint."""

    def read(cursor: HloCursor) -> bytes:
        return FIELDS.string(name, cursor.parse_string(name))

    def write(message: xla.HloInstructionProto, context: Context) -> str:
        value = getattr(message, name)
        return f', {name}="{escape(value)}"' if value and not context.is_fingerprint else ""

    return Attribute(name, read, write, attribute.scalar_value(name, "bytes"))


INFEED_CONFIG: Final = _config("infeed_config")
OUTFEED_CONFIG: Final = _config("outfeed_config")

FUSION_KIND: Final = attribute.word_attribute(
    "kind",
    "fusion_kind",
    ("kLoop", "kInput", "kOutput", "kCustom"),
    "a kind of fusion",
    attribute.always_written("kind", "fusion_kind"),
)


# -- JSON --------------------------------------------------------------------------------------


_BRACE_OR_QUOTE = re.compile(r'[{}"]')


def _parse_object(cursor: HloCursor) -> bytes:
    """The text from the '{' at the cursor to the '}' that closes it, both included."""
    cursor.skip_space()
    start = cursor.at
    text = cursor.text
    if not text.startswith("{", start):
        cursor.fail("a string or an object in braces")
    at, depth = start, 0
    while True:
        match = _BRACE_OR_QUOTE.search(text, at)
        if match is None:
            raise cursor.error("this object is never closed", at=start, expected="'}'")
        at = match.end()
        char = match.group()
        if char == '"':
            at = cursor.string_end(at - 1)
        else:
            depth += 1 if char == "{" else -1
            if depth == 0:
                break
    cursor.at = at
    try:
        return text[start:at].encode()
    except UnicodeEncodeError:
        raise cursor.error("half of a surrogate pair is not text", at=start, expected="text") from None


# -- frontend_attributes ---------------------------------------------------------------------


def parse_frontend_attributes(cursor: HloCursor) -> xla.FrontendAttributes:
    """Reads names and their values, strings or objects, in braces. If a name is given twice, the last value counts."""
    attributes = xla.FrontendAttributes()

    def entry() -> None:
        name = cursor.parse_attribute_name()
        value = _parse_object(cursor) if cursor.looking_at("{") else cursor.parse_text(f"the value of {name}")
        attributes.map[name] = value.decode()

    cursor.parse_list(entry)
    return attributes


def frontend_attributes_text(attributes: xla.FrontendAttributes) -> str:
    """The text of frontend attributes, `{a="x",b={…}}`, sorted by name; "" if there are none."""
    entries = attributes.map
    if not entries:
        return ""
    # XLA sorts names by their bytes; the order of code points is the same.
    parts = [
        f"{key}={value}" if is_json_dict(value) else f'{key}="{escape(value)}"'
        for key, value in sorted(entries.items())
    ]
    return f"{{{','.join(parts)}}}"


def _read_frontend_attributes(cursor: HloCursor) -> bytes:
    data = parse_frontend_attributes(cursor).SerializeToString(deterministic=True)
    return FIELDS.message("frontend_attributes", data)


def _write_frontend_attributes(message: xla.HloInstructionProto, _context: Context) -> str:
    text = frontend_attributes_text(message.frontend_attributes)
    return f", frontend_attributes={text}" if text else ""


# -- backend_config --------------------------------------------------------------------------


def _read_backend_config(cursor: HloCursor) -> bytes:
    value = _parse_object(cursor) if cursor.looking_at("{") else cursor.parse_string("a backend config")
    return FIELDS.string("backend_config", value)


def _write_backend_config(message: xla.HloInstructionProto, context: Context) -> str:
    data = message.backend_config
    if message.HasField("backend_config_payload"):
        data = payload_bytes(message.backend_config_payload, context.payloads) or data
    if not data:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f', backend_config="{escape(data)}"'
    return f", backend_config={text}" if is_json_dict(text) else f', backend_config="{escape(text)}"'


_NO_ENTRIES: Final[Mapping[str, str]] = MappingProxyType({})


def _get_frontend_attributes(instruction: xla.HloInstructionProto) -> Mapping[str, str]:
    entries = instruction.frontend_attributes.map
    return MappingProxyType(dict(sorted(entries.items()))) if entries else _NO_ENTRIES


def _put_frontend_attributes(instruction: xla.HloInstructionProto, value: Any) -> None:
    entries = dict(value or {})
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in entries.items()):
        raise TypeError("not texts by name")
    if entries or instruction.HasField("frontend_attributes"):
        instruction.frontend_attributes.map.clear()
        instruction.frontend_attributes.map.update(entries)


def _get_backend_config(instruction: xla.HloInstructionProto) -> str | bytes | None:
    payload = instruction.backend_config_payload
    return config_value(payload.value or instruction.backend_config)


def _put_backend_config(instruction: xla.HloInstructionProto, value: Any) -> None:
    data = value.encode() if isinstance(value, str) else b"" if value is None else value
    if not isinstance(data, bytes):
        raise TypeError("not text")
    instruction.backend_config = data
    instruction.ClearField("backend_config_payload")


def config_value(data: bytes) -> str | bytes | None:
    """A backend configuration as text; as bytes if it is not UTF-8; None if it is empty."""
    if not data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


BACKEND_CONFIG: Final = Attribute(
    "backend_config",
    _read_backend_config,
    _write_backend_config,
    Codec(_get_backend_config, _put_backend_config, "text or bytes"),
)
FRONTEND_ATTRIBUTES: Final = Attribute(
    "frontend_attributes",
    _read_frontend_attributes,
    _write_frontend_attributes,
    Codec(_get_frontend_attributes, _put_frontend_attributes, "texts by name"),
)
