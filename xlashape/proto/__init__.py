"""The message classes of the protobuf schema: XLA's messages, with XLA's names and numbers, and those of the service.

    from xlashape.proto import coerce, v1, xla

    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5])
    xla.PrimitiveType.Name(shape.element_type)          # "F32"
    xla.OpMetadata.ProfileInfo                          # nested types and enums, as in generated code
    coerce(xla.ShapeProto, data_or_message)             # from bytes, or from a message of this package or TensorFlow

The classes are made at import from `schema.binpb`, the compiled schema, in a separate descriptor pool. Generated code
would register `xla/xla_data.proto` in protobuf's default pool, where TensorFlow registers its copy, and importing the
second one would fail. Full names, wire format, JSON, text format, unknown fields, copy and pickle are as usual. For
messages with a `google.protobuf.Any`, json_format and text_format need the pool as an argument: `descriptor_pool=pool`.

- `xla`, `v1`, `well_known`: the messages and enums of each package of the schema, filled in at import.
- `_pool`: the descriptor pool and the message classes made from it.
- `wire`: reads and writes the wire format without messages.
- `packed`: reads and writes arrays of numbers in messages without a Python object for each number.
"""

from __future__ import annotations

from xlashape.proto import v1, well_known, xla
from xlashape.proto._pool import coerce, is_repeated, message_class, parse, pool, service, services

__all__ = ["coerce", "is_repeated", "message_class", "parse", "pool", "service", "services", "v1", "well_known", "xla"]
