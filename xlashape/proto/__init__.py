"""The compiled schema: XLA's messages on XLA's own names and numbers, and the service's.

    from xlashape.proto import coerce, v1, xla

    shape = xla.ShapeProto(element_type=xla.F32, dimensions=[3, 5])
    xla.PrimitiveType.Name(shape.element_type)          # "F32"
    xla.OpMetadata.ProfileInfo                          # nested types and enums stand where generated code has them
    coerce(xla.ShapeProto, data_or_message)             # bytes, one of ours, or TensorFlow's xla.ShapeProto

The classes live in a descriptor pool of their own. Generated code would register `xla/xla_data.proto` in protobuf's default
pool, where TensorFlow registers its copy, and whichever of the two is imported second fails. Full names, wire format, JSON,
text format, unknown fields, copy and pickle are as usual; two things know the default pool only and need `pool` passed:
json_format's and text_format's treatment of `google.protobuf.Any` (`descriptor_pool=pool`).
"""

from __future__ import annotations

from xlashape.proto import v1, well_known, xla
from xlashape.proto._pool import coerce, is_repeated, message_class, pool, service, services

__all__ = ["coerce", "is_repeated", "message_class", "pool", "service", "services", "v1", "well_known", "xla"]
