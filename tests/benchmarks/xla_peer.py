"""XLA's own indexing analysis and simplifier as the other side of a benchmark: a process that runs them and tells the
seconds.

It is the module `xla_oracle` in the folder of shared data, run by the interpreter that has the jaxlib it wants
(XLA_ORACLE_PYTHON). Without either there is no peer, and the benchmarks say so. Requests and answers are lines of JSON;
both sides of a ratio take turns in one run.

Run by that interpreter, this file serves; imported, `Peer` is its client.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("XLASHAPE_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle"

_FREE = "_ZNSt6vectorIN4absl{}13flat_hash_setIN3xla15OperandIndexingENS1_13hash_internal4HashIS4_EESt8equal_toIS4_ESaIS4_EEESaISB_EED2Ev"
"""Frees a result. The name has abseil's version, and jaxlib 0.12 has no such function of its own."""
_SIMPLIFY = "_ZN3xla11IndexingMap8SimplifyENS0_23SimplifyPointDimensionsE"
_COMPOSE = "_ZN3xla19ComposeIndexingMapsERKNS_11IndexingMapES2_"
_P, _I32 = ctypes.c_void_p, ctypes.c_int32


class Peer:
    """XLA in a process of its own. `load` a module, then ask for the seconds of single loops."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [os.environ["XLA_ORACLE_PYTHON"], str(Path(__file__)), str(ORACLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @classmethod
    def find(cls) -> Peer | None:
        """The peer, or None with a line that says what is missing."""
        if not (ORACLE / "xla_oracle.py").is_file() or "XLA_ORACLE_PYTHON" not in os.environ:
            print("without XLA: there is no oracle/xla_oracle.py in the folder of shared data, or no XLA_ORACLE_PYTHON")
            return None
        return cls()

    def ask(self, call: str, *args: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([call, *args]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"XLA ended at {call}, exit {self._process.wait()}")
        return json.loads(line)


class _Server:
    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.context = worker.context()
        self.analyse = worker._fn(worker._O2I, _P, _P, _P, _I32, _P)
        self.nothing = ctypes.CFUNCTYPE(_P, _P, _P, _I32, _P)(ctypes.cast(ctypes.CDLL(None).labs, _P).value)
        self.free = self._freeing()
        self.held: Any = None
        self.questions: list[tuple[int, int]] = []
        self.instructions: dict[tuple[str, str], Any] = {}
        self.maps: list[Any] = []

    def _freeing(self) -> Any:
        """What frees a result; where this jaxlib has no function for it, one that leaves results lying."""
        try:
            return self.worker._fn(_FREE.format(self.worker._absl), None, _P)
        except Exception as error:
            if type(error).__name__ != "NotInThisVersion":
                raise
            return ctypes.CFUNCTYPE(_P, _P)(ctypes.cast(ctypes.CDLL(None).labs, _P).value)

    def load(self, path: str) -> list[list[str]]:
        """(computation, instruction, opcode) of all instructions that XLA answers for: it logs an error for some
        opcodes, and aborts for some."""
        found = self.worker._instructions(Path(path).read_text())
        self.instructions = {(computation, one.name): one for computation, one in found}
        by_opcode: dict[str, list[tuple[str, Any]]] = {}
        for computation, one in found:
            if len(one.operands()):
                by_opcode.setdefault(str(one.opcode), []).append((computation, one))
        return [
            [computation, one.name, opcode]
            for opcode, group in by_opcode.items()
            if self._answers([(self.worker._instruction_pointer(one), 0) for _, one in group])
            for computation, one in group
        ]

    def _answers(self, questions: list[tuple[int, int]]) -> bool:
        out = self.worker._buffer(64)
        with tempfile.TemporaryFile() as errors:
            child = os.fork()
            if not child:
                os.dup2(errors.fileno(), 2)
                for pointer, output in questions:
                    self.analyse(ctypes.addressof(out), pointer, output, self.context)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            errors.seek(0)
            return status == 0 and b"not implemented" not in errors.read()

    def choose(self, questions: list[tuple[str, str, int]]) -> bool:
        """What the loops ask: (computation, instruction, output)."""
        self.questions = [
            (self.worker._instruction_pointer(self.instructions[computation, name]), output)
            for computation, name, output in questions
        ]
        return self._answers(self.questions)

    def kept(self) -> float:
        """One call a question, results left lying, as `time_indexing` of the oracle does."""
        out = self.worker._buffer(64)
        at, analyse, context = ctypes.addressof(out), self.analyse, self.context
        start = time.thread_time()
        for pointer, output in self.questions:
            analyse(at, pointer, output, context)
        return time.thread_time() - start

    def freed(self) -> float:
        """One call a question, and one that frees the result where this jaxlib can."""
        out = self.worker._buffer(64)
        at, analyse, context, free = ctypes.addressof(out), self.analyse, self.context, self.free
        start = time.thread_time()
        for pointer, output in self.questions:
            analyse(at, pointer, output, context)
            free(at)
        return time.thread_time() - start

    def calling(self) -> float:
        """As many calls of a function that does nothing: what ctypes takes of the others."""
        out = self.worker._buffer(64)
        at, nothing, context = ctypes.addressof(out), self.nothing, self.context
        start = time.thread_time()
        for pointer, output in self.questions:
            nothing(at, pointer, output, context)
        return time.thread_time() - start

    def one(self, number: int, repeat: int) -> float:
        """`time_indexing` for one of the questions: seconds a call."""
        out = self.worker._buffer(64)
        at, analyse, context, free = ctypes.addressof(out), self.analyse, self.context, self.free
        pointer, output = self.questions[number]
        start = time.thread_time()
        for _ in range(repeat):
            analyse(at, pointer, output, context)
            free(at)
        return (time.thread_time() - start) / repeat

    def choose_maps(self, texts: list[str]) -> None:
        self.maps = texts

    def maps_parsed(self) -> float:
        start = time.thread_time()
        for text in self.maps:
            self.worker._parse_map(text)
        return time.thread_time() - start

    def maps_simplified(self) -> float:
        """Seconds in Simplify alone: maps are parsed before the clock starts (as Simplify changes them)."""
        simplify = self.worker._fn(_SIMPLIFY, ctypes.c_bool, _P, _I32)
        parsed = [self.worker._parse_map(text) for text in self.maps]
        places = [ctypes.addressof(one) for one in parsed]
        start = time.thread_time()
        for place in places:
            simplify(place, 1)
        return time.thread_time() - start

    def maps_composed(self, pairs: list[tuple[str, str]]) -> float:
        """Seconds in ComposeIndexingMaps and Simplify of its result; maps are parsed before the clock starts."""
        simplify = self.worker._fn(_SIMPLIFY, ctypes.c_bool, _P, _I32)
        compose = self.worker._fn(_COMPOSE, _P, _P, _P, _P)
        parsed = [(self.worker._parse_map(first), self.worker._parse_map(second)) for first, second in pairs]
        places = [(ctypes.addressof(first), ctypes.addressof(second)) for first, second in parsed]
        out = ctypes.create_string_buffer(512)
        at = ctypes.addressof(out)
        start = time.thread_time()
        for first, second in places:
            compose(at, first, second)
            simplify(at, 1)
        return time.thread_time() - start


def _serve(folder: str) -> None:
    sys.path.insert(0, folder)
    from xla_oracle import Worker

    server = _Server(Worker())
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # XLA prints there too
    for line in sys.stdin:
        call, *args = json.loads(line)
        channel.write(json.dumps(getattr(server, call)(*args)) + "\n")


if __name__ == "__main__":
    _serve(sys.argv[1])
