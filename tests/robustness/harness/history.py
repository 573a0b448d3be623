"""The record of a run: the calls of all callers with times and outcomes, in one list and in a file as lines of JSON."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import NamedTuple

from harness.questions import Outcome

__all__ = ["Entry", "Fault", "History"]


class Entry(NamedTuple):
    """One call. Times are of time.monotonic(), which processes of a machine share.

    `what` is "question", "upload", "read", "delete", "health", "small" or "metrics". `subject` is the number of the
    question, or the name of the module or service. `rpc` is the RPC, such as "ShapeService/ByteSize", if the call was
    made by a caller whose calls the server must have counted. `expected` is the digest of the right outcome, if only
    one is right; `got` is the digest of the outcome.
    """

    caller: str
    what: str
    subject: str
    began: float
    ended: float
    code: str
    message: str
    expected: str
    got: str
    rpc: str = ""


class Fault(NamedTuple):
    """A fault of a run: when it began and ended, and when the server was back to normal (0 if it never was). `stops`:
    whether the fault stops processes.

    `held`: when the fault was complete, if making it took a while. `stops_main`: whether the fault stops the main
    process, which answers requests for metrics.
    """

    name: str
    began: float
    ended: float
    normal: float
    stops: bool
    is_attack: bool
    held: float = 0.0
    stops_main: bool = False


def digest_of(outcome: Outcome) -> str:
    """A digest that is equal for equal outcomes."""
    made = hashlib.sha256(f"{outcome.code}\0{outcome.message}\0".encode())
    for answer in outcome.answers:
        made.update(len(answer).to_bytes(8, "little") + answer)
    return made.hexdigest()[:16]


class History:
    """Entries in the order in which calls ended, and the modules whose uploads were acknowledged."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = path.open("w", encoding="utf-8") if path is not None else None
        self._lock = threading.Lock()
        self.entries: list[Entry] = []
        self.faults: list[Fault] = []

    def add(self, entry: Entry) -> None:
        """Records a call."""
        with self._lock:
            self.entries.append(entry)
            if self._file is not None:
                self._file.write(json.dumps(entry._asdict()) + "\n")

    def add_fault(self, fault: Fault) -> None:
        """Records a fault that has ended."""
        with self._lock:
            self.faults.append(fault)
            if self._file is not None:
                self._file.write(json.dumps({"fault": fault._asdict()}) + "\n")

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
