"""Starts the prober and the scraper, which make requests during the whole run, and collects what they find."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bound_processes import start_script

from harness.history import Entry, History

__all__ = ["Observers", "Scrape"]

# The time after the last call in which its end is counted and scraped.
_LAST_SCRAPES_SECONDS = 1.5


class Scrape(NamedTuple):
    """One answer of /metrics: how many calls the server had counted, by method and code. `began` is the time of
    time.monotonic() at which the request was sent.

    `server`: when the server was started, which tells the servers of one run apart.
    """

    began: float
    ended: float
    server: float
    calls: dict[str, float]


class Observers(contextlib.ExitStack):
    """The two processes. What they find is added to `history` and to `scrapes`."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self.scrapes: list[Scrape] = []
        """The first and the last answer of each server."""

    def probe(self, address: str, root: str, right: str) -> None:
        """Starts the prober. `right`: the answer to its small calls, in hex."""

        def read(told: dict[str, Any]) -> None:
            expected = right if told["what"] == "small" else ""
            self._history.add(Entry(caller="prober", message="", expected=expected, **told))

        self._start("prober", read, address, root)

    def scrape(self, address: str) -> None:
        """Starts the scraper."""

        def read(told: dict[str, Any]) -> None:
            began, ended, code = told["began"], told["ended"], told["code"]
            self._history.add(Entry("scraper", "metrics", address, began, ended, code, told["message"], "", ""))
            if "server" in told:
                if [each.server for each in self.scrapes[-2:]] == [told["server"]] * 2:
                    self.scrapes.pop()
                self.scrapes.append(Scrape(began, ended, told["server"], told["calls"]))

        self._start("scraper", read, address)

    def _start(self, name: str, read: Callable[[dict[str, Any]], None], *arguments: str) -> None:
        script = Path(__file__).with_name(f"{name}.py")
        process = start_script(script, *arguments, stdout=subprocess.PIPE)
        self.callback(process.wait)
        self.callback(process.kill)

        def follow() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.endswith("\n"):
                    break  # it was ended
                read(json.loads(line))

        thread = threading.Thread(target=follow, name=name, daemon=True)
        thread.start()
        self._processes[name] = process
        self._threads.append(thread)

    def check(self) -> None:
        """Raises RuntimeError if one of the processes has ended by itself."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"the {name} ended by itself with code {process.returncode}")

    def finish(self) -> None:
        """Ends the processes. All calls have ended before; the scraper gets the time to read their counts."""
        time.sleep(_LAST_SCRAPES_SECONDS)
        self.check()
        self.close()
        for thread in self._threads:
            thread.join()
