"""The health names for liveness and readiness probes, served by grpc.health.v1:

    live                              this process runs; SERVING until it begins to stop
    ready, ""                         calls can be answered; follows the directory of the store
    xlashape.v1.HloService, …         calls of this service can be answered; follows the directory and the bucket of
                                      the store if the service reads modules

Kubernetes' gRPC probes ask for a name: use `live` for livenessProbe and `ready` for readinessProbe. A full disk makes a
server not ready, but does not restart its container. A bucket that does not answer affects all servers that share it,
so `ready` ignores it: otherwise a load balancer would have no server left for the calls that need no bucket.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from grpc_health.v1 import health_pb2

from xlashape.errors import XlashapeError
from xlashape_server.store import Store

_log = logging.getLogger("xlashape_server.readiness")

LIVE, READY = "live", "ready"
NAMES = ("", LIVE, READY)
"""The health names that are not names of services."""

_NEED_THE_STORE = tuple(f"xlashape.v1.{name}Service" for name in ("Hlo", "Indexing", "Report", "View"))
_FOLLOW_THE_DIRECTORY = ("", READY, *_NEED_THE_STORE)
_LOG_SECONDS = 60.0  # seconds between log lines about one lasting fault whose text changes
_CHECK_SECONDS = 1.0  # seconds between checks of the store
_HANGING_SECONDS = 5.0  # a check that takes longer counts as a fault: a network file system may not answer


def follow(store: Store, set_status: Callable[[str, int], None]) -> None:
    """Sets the status of the names that follow the store, in a thread, as long as this process runs."""
    threading.Thread(target=_Watch(store, set_status).run, name="readiness", daemon=True).start()


class _Watch:
    """Sets the status of names by the faults that the checks find, and logs the faults."""

    def __init__(self, store: Store, set_status: Callable[[str, int], None]) -> None:
        self._set_status = set_status
        self._logged = float("-inf")
        self._checks = (
            _StoreCheck("the store", store.check, _FOLLOW_THE_DIRECTORY),
            _StoreCheck("the bucket", store.check_shared, _NEED_THE_STORE),
        )

    def run(self) -> None:
        previous = ["", ""]
        while True:
            faults = [check.fault() for check in self._checks]
            down = {
                name for check, fault in zip(self._checks, faults, strict=True) if fault for name in check.followers
            }
            if faults != previous:
                response = health_pb2.HealthCheckResponse
                for name in _FOLLOW_THE_DIRECTORY:
                    self._set_status(name, int(response.NOT_SERVING if name in down else response.SERVING))
            for check, fault, before in zip(self._checks, faults, previous, strict=True):
                # The text of a bucket's fault may differ each time.
                if fault and (not before or (fault != before and time.monotonic() - self._logged >= _LOG_SECONDS)):
                    self._logged = time.monotonic()
                    _log.error("not ready: %s", fault)
                elif before and not fault:
                    _log.warning("ready again: %s takes modules", check.subject)
            previous = faults
            time.sleep(_CHECK_SECONDS / 2)


class _StoreCheck:
    """A check of the store, repeated in a thread of its own, since a file system that does not answer blocks the
    thread. `subject` is the name of the checked thing in logs, `followers` are the health names whose status follows
    the check.
    """

    def __init__(self, subject: str, check: Callable[[], None], followers: tuple[str, ...]) -> None:
        self.subject = subject
        self.followers = followers
        self._check = check
        self._fault = ""
        self._began: float | None = None  # when the check in progress began
        threading.Thread(target=self._run, name="readiness", daemon=True).start()

    def fault(self) -> str:
        """The fault that the last check found; empty without a fault."""
        began = self._began
        if began is not None and time.monotonic() - began > _HANGING_SECONDS:
            return f"{self.subject} does not answer"
        return self._fault

    def _run(self) -> None:
        while True:
            self._began = time.monotonic()
            try:
                self._check()
                self._fault = ""
            except XlashapeError as error:
                self._fault = error.message
            except Exception as error:
                self._fault = f"{type(error).__name__}: {error}"
            self._began = None
            time.sleep(_CHECK_SECONDS)
