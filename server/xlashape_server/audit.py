"""A log line for each upload and each deletion that succeeded: who did it, from where, and with which module.

Where callers are authenticated these lines are written at every log level, unless `log_changes` is false. Otherwise
they are written at the levels debug and info.
"""

from __future__ import annotations

import logging
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from xlashape.proto import services
from xlashape_server.auth import writing_rpcs
from xlashape_server.calls import Call
from xlashape_server.config import Config

_log = logging.getLogger("xlashape_server.audit")


class AuditLog:
    """Writes the audit lines of one worker. `rpcs` are the RPCs that are logged, as SERVICE/METHOD."""

    def __init__(self, config: Config) -> None:
        self.rpcs = writing_rpcs()
        self._methods = {
            f"{service.name}/{method.name}": method for service in services() for method in service.methods
        }
        _log.setLevel(logging.INFO if config.auth and config.log_changes else logging.NOTSET)

    def log(self, call: Call, request: object, answer: bytes) -> None:
        """Logs a call that succeeded."""
        if not _log.isEnabledFor(logging.INFO):
            return
        method = self._methods[call.name]
        facts: dict[str, Any] = {
            "rpc": call.name,
            "identity": call.caller.identity,
            "peer": call.caller.connection,
        }
        if "module" in method.output_type.fields_by_name:
            found: Any = GetMessageClass(method.output_type).FromString(answer)
            facts |= {
                "module": found.module.name,
                "bytes": found.module.size_bytes,
                "was_present": found.already_present,
            }
        elif isinstance(request, bytes):
            asked: Any = GetMessageClass(method.input_type).FromString(request)
            facts["module"] = asked.name
        _log.info("changed the store", extra={"facts": facts})
