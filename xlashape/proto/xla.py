"""XLA's messages and enums, package `xla`: `xla.ShapeProto`, `xla.HloModuleProto`, `xla.PrimitiveType`, `xla.F32`, …

The names come from the schema when this module is imported; the build makes the stub beside this file.
"""

from xlashape.proto._pool import publish

publish("xla")
