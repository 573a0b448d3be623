"""Google's well-known types as the schema imports them, package `google.protobuf`: Any, Duration, Timestamp, …

The names come from the schema when this module is imported; the build makes the stub beside this file.
"""

from xlashape.proto._pool import publish

publish("google.protobuf")
