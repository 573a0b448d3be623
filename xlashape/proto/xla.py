"""XLA's messages and enums, package `xla`: `xla.ShapeProto`, `xla.HloModuleProto`, `xla.PrimitiveType`, `xla.F32`, …

The names come from the schema when this module is imported; the stub beside it is made by the build.
"""

from xlashape.proto._pool import publish

publish("xla")
