"""Whether calls can be answered, told by grpc.health.v1 under these names:

    live                              this process runs; SERVING as long as it answers at all
    ready, ""                         all calls can be answered; follows the store
    xlashape.v1.HloService, …         calls of this service can be answered; those that need no store do not follow it

Kubernetes' probes of the kind grpc ask for a name: `live` is for livenessProbe, `ready` for readinessProbe. A full disk is no reason to
start a container again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from grpc_health.v1 import health_pb2

from xlashape.errors import XlashapeError
from xlashape_server.store import Store

__all__ = ["LIVE", "NAMES", "READY", "follow"]

_log = logging.getLogger("xlashape_server.readiness")

LIVE, READY = "live", "ready"
NAMES = ("", LIVE, READY)
"""The names beside those of the services."""

_FOLLOWERS = ("", READY, "xlashape.v1.HloService", "xlashape.v1.IndexingService")
_LOOK_SECONDS = 1.0  # between two looks at the store
_HANGING_SECONDS = 5.0  # a look that takes longer counts as a fault: a file system on a network may not answer


def follow(store: Store, set_status: Callable[[str, int], None]) -> None:
    """Sets the status of the names that follow the store, as long as this process runs."""
    watch = _Watch(store, set_status)
    for run in (watch.look_regularly, watch.tell_regularly):
        threading.Thread(target=run, name="readiness", daemon=True).start()


class _Watch:
    def __init__(self, store: Store, set_status: Callable[[str, int], None]) -> None:
        self._store = store
        self._set_status = set_status
        self._fault = ""
        self._began: float | None = None  # the look that has not ended
        self._looked = threading.Event()

    def look_regularly(self) -> None:
        while True:
            self._began = time.monotonic()
            try:
                self._store.check()
                self._fault = ""
            except XlashapeError as error:
                self._fault = str(error)
            except Exception as error:
                self._fault = f"{type(error).__name__}: {error}"
            self._began = None
            self._looked.set()
            time.sleep(_LOOK_SECONDS)

    def tell_regularly(self) -> None:
        told = ""
        while True:
            self._looked.wait(_LOOK_SECONDS)
            self._looked.clear()
            fault, began = self._fault, self._began
            if began is not None and time.monotonic() - began > _HANGING_SECONDS:
                fault = "the store does not answer"
            if bool(fault) != bool(told):
                response = health_pb2.HealthCheckResponse
                status = response.NOT_SERVING if fault else response.SERVING
                for name in _FOLLOWERS:
                    self._set_status(name, int(status))
            if fault != told:
                if fault:
                    _log.error("not ready: %s", fault)
                else:
                    _log.warning("ready again: the store takes modules")
                told = fault
