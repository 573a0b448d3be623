"""gRPC's service config for clients: retries, and the distribution of calls over replicas."""

from __future__ import annotations

import json
from typing import Any

from xlashape.proto import services

_POLICY = {
    "initialBackoff": "0.1s",
    "maxBackoff": "2s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
_TRIED_ONCE = ("DeleteModule",)  # a second attempt could report that the module is missing


def service_config(attempts: int) -> str:
    """The config in JSON: each call with one answer is tried so often while the server is unavailable, and replicas answer in turn.

    Calls that are answered by a stream are tried once. With a policy for these, calls whose server was killed never ended in gRPC 1.85, not at
    their deadlines either: one of a thousand.

    >>> service_config(1)
    '{"loadBalancingConfig": [{"round_robin": {}}]}'
    """
    config: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
    if attempts > 1:
        names = [
            {"service": service.full_name, "method": method.name}
            for service in services()
            for method in service.methods
            if method.name not in _TRIED_ONCE and not method.server_streaming
        ]
        config["methodConfig"] = [{"name": names, "retryPolicy": {"maxAttempts": attempts, **_POLICY}}]
    return json.dumps(config)
