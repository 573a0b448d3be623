"""A process in which XLA compiles modules for the CPU and runs them; it needs jaxlib and not JAX. Run as a program,
this file is that process, which answers requests on its standard output.

XLA may end its process where it finds a mistake. `XlaProcess` then raises XlaFailedError, and starts another process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

Run = list[tuple[int, np.ndarray]]
"""A further run: the number and value of each parameter that differs from the first run."""


class Request(NamedTuple):
    text: str
    """The module as HLO text."""
    replicas: int
    parameters: list[np.ndarray]
    """The parameters of the first run; empty for a module of several replicas."""
    runs: list[Run]


class XlaFailedError(Exception):
    """XLA rejects the module, or fails to run it."""


class XlaProcess:
    """The client of the process. The first request starts the process, and so does the first one after it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None

    def ask(self, request: Request) -> list[Any]:
        """For the first run and each further one, the leaves of the result. With several replicas, each leaf is a list
        with an array for each replica.
        """
        if self._process is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process that writes to it
            command = [sys.executable, str(Path(__file__))]
            # One thread is faster for such small modules; only fatal errors are logged.
            environment = {**os.environ, "PJRT_NPROC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(tuple(request), process.stdin)
            process.stdin.flush()
            found, answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            raise XlaFailedError(f"XLA ended its process ({process.returncode}):\n{self._said()}") from None
        if found:
            return answer
        raise XlaFailedError(answer)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]


# -- in the process --------------------------------------------------------------------------------


class Compiled:
    """A module that XLA has compiled, on one device or for several replicas."""

    def __init__(self, text: str, replicas: int) -> None:
        from jaxlib import _jax, xla_client

        self.jax = _jax
        client = xla_client.make_cpu_client(num_devices=replicas)
        self.devices = client.devices()
        parsed = xla_client.hlo.hlo_module_from_text(text)
        # The client takes StableHLO only: XLA converts the HLO to StableHLO and back.
        portable = _jax.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
        options = xla_client.CompileOptions()
        options.executable_build_options.debug_options.xla_backend_optimization_level = 0
        if replicas > 1:
            options.num_replicas = options.executable_build_options.num_replicas = replicas
            options.device_assignment = xla_client.DeviceAssignment.create(np.arange(replicas).reshape(replicas, 1))
        self.executable = client.compile_and_load(portable, _jax.DeviceList(tuple(self.devices)), options)

    def answer(self, parameters: list[np.ndarray], runs: list[Run]) -> list[Any]:
        if len(self.devices) > 1:
            found = self.executable.execute_sharded([]).disassemble_into_single_device_arrays()
            return [[[np.asarray(one) for one in leaf] for leaf in found]]
        buffers = [self._buffer(array) for array in parameters]
        answers = [self._run(buffers)]
        for run in runs:
            moved = list(buffers)
            for number, array in run:
                moved[number] = self._buffer(array)
            answers.append(self._run(moved))
        return answers

    def _run(self, buffers: list[Any]) -> list[np.ndarray]:
        return [np.array(one) for one in self.executable.execute(buffers)]

    def _buffer(self, array: np.ndarray) -> Any:
        # A copy, because a read-only array cannot be passed.
        return self.jax.dlpack_managed_tensor_to_buffer(np.array(array, order="C").__dlpack__(), self.devices[0], None)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers each request, until there are no more."""
    last: tuple[str, int] | None = None
    compiled: Compiled | None = None
    while True:
        try:
            text, replicas, parameters, runs = pickle.load(requests)
        except EOFError:
            return
        try:
            if compiled is None or last != (text, replicas):
                compiled, last = Compiled(text, replicas), (text, replicas)
            answer = (True, compiled.answer(parameters, runs))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}"[:3000])
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
