"""A running testee: a process that receives requests and answers them."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from types import TracebackType
from typing import Any

from suite import protocol
from suite.languages import Language
from suite.protocol import testee

__all__ = ["Testee", "TesteeEnded"]


class TesteeEnded(Exception):
    """The testee ended, or did not answer in time and was killed."""


class Testee:
    """The testee of a language. Use it in a `with` block."""

    def __init__(self, language: Language) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        self._process = subprocess.Popen(
            language.run,
            cwd=language.directory,
            env=language.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def __enter__(self) -> Testee:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        self._errors.close()

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    @property
    def _stdout(self) -> Any:
        return self._process.stdout

    def ask(self, request: Any, seconds: float) -> Any:
        """The Response to a Request. TesteeEnded without a response within `seconds`."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            protocol.write(self._stdin, request)
            response = protocol.read(self._stdout, testee.Response)
        except (OSError, EOFError) as error:
            raise TesteeEnded(self._how(late, seconds)) from error
        finally:
            timer.cancel()
        if response is None:
            raise TesteeEnded(self._how(late, seconds))
        return response

    def _how(self, late: threading.Event, seconds: float) -> str:
        if late.is_set():
            return f"the testee did not answer within {seconds:g} s{self.complaints()}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return f"the testee ended with exit code {self._process.poll()}{self.complaints()}"

    def complaints(self) -> str:
        """The last lines of its standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        return "".join(f"\n      {line}" for line in lines[-12:])
