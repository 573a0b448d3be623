"""StableHLO, as text or as bytecode of MLIR, made HLO by jaxlib.

jaxlib runs in a process of its own: its parser ends the process for some texts, such as one with 300,000 brackets. It
takes half a second to load.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from xlashape.errors import DecodeError, LimitExceededError

_MOST_SECONDS: Final = 300
_BYTECODE: Final = b"ML\xefR"
_TEXT: Final = re.compile(
    rb"(?:\s|//[^\n]*\n|[#!]\w+\s*=[^\n]*\n)*"
    rb"(?:module(?:\s+@|\s+attributes|\s*\{)|func\.func\s|\"?builtin\.module)"
)
UNBOUNDED: Final = b"\x80" * 9 + b"\x01"
"""How a serialized module has a size that is not known, `?`: as INT64_MIN."""
_CONVERT: Final = """
import sys
try:
    from jaxlib import _jax as xla
except ImportError:  # before jaxlib 0.6
    from jaxlib import xla_extension as xla
def hlo(given):
    made = xla.mlir.mlir_module_to_xla_computation(given, use_tuple_args=False, return_tuple=False)
    return made.as_serialized_hlo_module_proto()
given = sys.stdin.buffer.read()
try:
    made = hlo(given)
except Exception as error:
    sys.exit(str(error))
if b"\\x80" * 9 + b"\\x01" in made:  # sizes that are not known may follow from those of the arguments
    try:
        made = hlo(xla.mlir.refine_polymorphic_shapes(
            given, enable_shape_assertions=False, validate_static_shapes=False))
    except Exception:
        pass
sys.stdout.buffer.write(made)
"""
_BY_HAND: Final = (
    "pip install jaxlib, and pass it again; or, where jaxlib is installed, `from jaxlib import _jax` and "
    "`_jax.mlir.mlir_module_to_xla_computation(stablehlo).as_serialized_hlo_module_proto()`"
)


def stablehlo_in(data: bytes) -> bytes | None:
    """The text or the bytecode of MLIR in the content of a file: the content itself, or what an Exported of JAX holds
    that was serialized. None for other content.

    >>> stablehlo_in(b"module @jit_f { }") is None, stablehlo_in(b"HloModule m") is None
    (False, True)
    """
    if data.startswith(_BYTECODE) or _TEXT.match(data):
        return data
    at = data.find(_BYTECODE) if data[1:4] == b"\0\0\0" else -1  # a FlatBuffer, with its length before each vector
    if at < 4:
        return None
    return data[at : at + int.from_bytes(data[at - 4 : at], "little")]


def converted(stablehlo: bytes, name: str | None = None) -> tuple[bytes, str]:
    """A serialized HloModuleProto of text or bytecode, and a sentence that says who made it. `name` names the file.

    Raises DecodeError where jaxlib is not installed, and says how to convert it, and for what jaxlib does not convert;
    LimitExceededError for what takes more than five minutes.
    """
    what = "this" if name is None else name
    try:
        by = f"jaxlib {version('jaxlib')}"
    except PackageNotFoundError:
        raise DecodeError(
            f"{what} is StableHLO, which jaxlib makes HLO, and jaxlib is not installed: {_BY_HAND}"
        ) from None
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path for path in sys.path if path])}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CONVERT],
            input=stablehlo, capture_output=True, timeout=_MOST_SECONDS, env=environment, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        message = f"{by} takes more than {_MOST_SECONDS} s to make HLO of {what}"
        raise LimitExceededError(message, limit="seconds", maximum=_MOST_SECONDS) from None
    if done.returncode:
        said = [line for line in done.stderr.decode("utf-8", "replace").split("\n") if line.strip()]
        reason = next((line for line in said if "error:" in line), f"it ended with exit code {done.returncode}")
        raise DecodeError(
            f"{what} is MLIR that {by} does not make HLO: {reason.partition('error:')[2].strip() or reason}"
        )
    return done.stdout, f"The module is what {by} makes of StableHLO."
