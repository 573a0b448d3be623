"""The service's messages and enums, package `xlashape.v1`.

The names come from the schema when this module is imported; the build makes the stub beside this file.
"""

from xlashape.proto._pool import publish

publish("xlashape.v1")
