"""XLA's own HloVerifier, for tests that compare this library's verifier with it: `XlaVerifier` gives the answer of the
verifier of jaxlib 0.12.0.1 about HLO text.

jaxlib has no binding of the verifier, but its library has a symbol table with the verifier's address. The verifier runs
with the options that hold for any target, in a process of its own, because XLA ends the process on some modules and
never answers on others. It needs an interpreter that has this jaxlib, on Linux with x86-64.

Run by that interpreter, this file is the program of the process, which answers requests, one JSON text a line. The
process that has loaded XLA verifies nothing itself. It forks a child that does, and forks another when XLA has ended
the child or a request has taken too long.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TextIO

JAXLIB = "0.12.0.1"
"""The version whose memory layout of options and verifier this file knows."""

_SECONDS = 10.0
"""How long XLA may take for a text. Most take less than a hundredth of a second."""


class Said(NamedTuple):
    """XLA's answer about a text."""

    by: str
    """What refuses the text: "reader" or "verifier"; "" where XLA accepts it. "process" where XLA ended its process,
    "time" where it took too long.
    """
    message: str

    @property
    def is_answer(self) -> bool:
        """Whether XLA accepts or refuses the text."""
        return self.by not in ("process", "time")


class XlaVerifier:
    """The client of a process that verifies. `python` is the interpreter of the process."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> XlaVerifier:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def verify(self, text: str) -> Said:
        """XLA's answer about a text."""
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(text) + "\n")
        process.stdin.flush()
        return Said(*json.loads(process.stdout.readline()))

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()
            self._process = None


# -- the process ----------------------------------------------------------------------------

_P = ctypes.c_void_p
_OK = 1
"""The value of an absl::Status without an error."""


class _Library:
    """Addresses of functions in the library of jaxlib, by the name that the compiler gives them."""

    def __init__(self) -> None:
        jaxlib: Any = importlib.import_module("jaxlib")
        if jaxlib.__version__ != JAXLIB:
            raise SystemExit(f"needs jaxlib {JAXLIB}, found {jaxlib.__version__}")
        self.hlo: Any = importlib.import_module("jaxlib._hlo")
        path = Path(str(jaxlib.__file__)).parent / "libjax_common.so"
        self._values = self._symbols(path)
        anchor = "Wrapped_PyInit__hlo"
        at = ctypes.cast(getattr(ctypes.CDLL(str(path)), anchor), _P).value
        assert at is not None
        self._base = at - self._values[anchor.encode()]

    @staticmethod
    def _symbols(path: Path) -> dict[bytes, int]:
        """The addresses of the symbols that this file may ask for."""
        with path.open("rb") as file:

            def read(offset: int, size: int) -> bytes:
                file.seek(offset)
                return file.read(size)

            header = read(0, 0x40)
            offset = struct.unpack_from("<Q", header, 0x28)[0]
            size, count = struct.unpack_from("<HH", header, 0x3A)
            table = read(offset, size * count)
            sections = [struct.unpack_from("<IIQQQQIIQQ", table, index * size) for index in range(count)]
            symbols = next(section for section in sections if section[1] == 2)
            strings = sections[symbols[6]]
            names = read(strings[4], strings[5])
            wanted: dict[int, bytes] = {}
            for found in re.finditer(rb"\0([^\0]*(?:Verifier|StatusToString|Wrapped_PyInit__hlo)[^\0]*)(?=\0)", names):
                wanted[found.start(1)] = found[1]
            data = read(symbols[4], symbols[5])
        values: dict[bytes, int] = {}
        for name, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data):
            if name in wanted:
                values[wanted[name]] = value
        return values

    def address(self, pattern: str) -> int:
        """The address of the only symbol whose name matches."""
        matching = {value for name, value in self._values.items() if re.fullmatch(pattern, name.decode())}
        assert len(matching) == 1, f"{pattern}: {len(matching)} symbols"
        return self._base + matching.pop()


class _Verifier:
    """Objects of XLA's classes in memory that this file allocates: the options, the metadata of a target, the
    verifier."""

    def __init__(self, library: _Library) -> None:
        self._hlo = library.hlo
        options = ctypes.create_string_buffer(0x80)
        options[0x05] = 1  # the two options that are on by default
        options[0x2B] = 1
        manager = library.address(r"_ZNSt14_Function_base13_Base_manager.*HloVerifierOpts.*_M_manager.*")
        invoker = library.address(r"_ZNSt17_Function_handler.*HloVerifierOpts.*_M_invoke.*")
        struct.pack_into("<QQ", options, 0x60, manager, invoker)  # the function for sizes of shapes
        target = ctypes.create_string_buffer(0x80)
        make = library.address(r"_ZN3xla22TargetVerifierMetadataC2EONS_15HloVerifierOptsE")
        ctypes.CFUNCTYPE(None, _P, _P)(make)(ctypes.addressof(target), ctypes.addressof(options))
        # A table of virtual functions begins 16 bytes after its symbol.
        struct.pack_into("<Q", target, 0, library.address("_ZTVN3xla23DefaultVerifierMetadataE") + 16)
        verifier = ctypes.create_string_buffer(0x40)
        self._verifier = ctypes.addressof(verifier)
        tables = library.address("_ZTVN3xla11HloVerifierE") + 16
        # The last two are an empty string: where its characters are, in the object itself, and their number.
        struct.pack_into("<QQQQ", verifier, 0, tables, ctypes.addressof(target), self._verifier + 0x20, 0)
        all_threads = ctypes.create_string_buffer(0x40)
        self._threads = ctypes.addressof(all_threads)
        self._kept = options, target, verifier, all_threads
        self._run = ctypes.CFUNCTYPE(_P, _P, _P, _P, _P)(
            library.address(r"_ZN3xla11HloVerifier7RunImplEPNS_9HloModule.*")
        )
        self._message = ctypes.CFUNCTYPE(_P, _P, ctypes.c_size_t, ctypes.c_int32)(
            library.address(r"_ZN4absl\w*6Status12ToStringSlow\w*StatusToStringModeE")
        )

    def verify(self, text: str) -> Said:
        try:
            module = self._hlo.hlo_module_from_text(text)
        except Exception as error:
            return Said("reader", str(error))
        out = ctypes.create_string_buffer(64)
        self._run(ctypes.addressof(out), self._verifier, _held(module), self._threads)
        status = struct.unpack_from("<Q", out)[0]
        if status == _OK:
            return Said("", "")
        shown = ctypes.create_string_buffer(64)
        self._message(ctypes.addressof(shown), status, 0)
        at, size = struct.unpack_from("<QQ", shown)
        return Said("verifier", ctypes.string_at(at, size).decode("utf-8", "replace"))


def _held(module: object) -> int:
    """The address of the C++ object that an object of nanobind holds."""
    at = id(module)
    place = at + ctypes.c_int32.from_address(at + 16).value
    is_direct = (ctypes.c_uint32.from_address(at + 20).value >> 2) & 1
    held = place if is_direct else ctypes.c_void_p.from_address(place).value
    assert held is not None
    return held


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    verifier = _Verifier(_Library())
    while True:
        with tempfile.TemporaryFile() as printed:
            child = os.fork()
            if not child:
                os.dup2(printed.fileno(), 1)  # XLA writes to standard output, too
                os.dup2(printed.fileno(), 2)
                # When XLA ends the process, it looks up the names of all functions in its library, which takes long.
                # Without open files it cannot.
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
                _answer(verifier, answers)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if not status:
                return
            printed.seek(0)
            by = "time" if os.WTERMSIG(status) == signal.SIGALRM else "process"
            answers.write(json.dumps(Said(by, printed.read()[-2_000:].decode("utf-8", "replace"))) + "\n")


def _answer(verifier: _Verifier, answers: TextIO) -> None:
    """Answers requests until the input ends. A request that takes too long ends the process, by the timer's signal."""
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        said = verifier.verify(json.loads(line))
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    _serve()
