"""The HLO modules that cases name. In a request `"$attention"` stands for the content of the module `attention`."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

__all__ = ["CONTENTS", "content", "resource_name"]

_ROOT = Path(__file__).resolve().parents[3]

_FUSED = """HloModule fused

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

scaled {
  p0 = f32[16,40]{1,0} parameter(0)
  p1 = f32[40]{0} parameter(1)
  b = f32[16,40]{1,0} broadcast(p1), dimensions={1}
  m = f32[16,40]{1,0} multiply(p0, b)
  t = f32[40,16]{1,0} transpose(m), dimensions={1,0}
  z = f32[] constant(0)
  ROOT r = f32[16]{0} reduce(t, z), dimensions={0}, to_apply=add
}

ENTRY main {
  a = f32[16,40]{1,0} parameter(0)
  c = f32[40]{0} parameter(1)
  i = s32[] parameter(2)
  f = f32[16]{0} fusion(a, c), kind=kLoop, calls=scaled
  s = f32[4]{0} dynamic-slice(f, i), dynamic_slice_sizes={4}
  g = f32[32,40]{1,0} all-gather(a), replica_groups={{0,1}}, dimensions={0}
  n = f32[16,40]{1,0:T(8,128)} negate(a)
  ROOT all = (f32[4]{0}, f32[32,40]{1,0}, f32[16,40]{1,0:T(8,128)}) tuple(s, g, n)
}
"""

CONTENTS = ("attention", "convnet", "fused", "large", "loops", "text", "two_parts")

_SIZES = {"large": 2_600_000, "two_parts": 2 << 20}  # bytes; clients send parts of 1 MiB


def _filled(size: int) -> bytes:
    """A module of `size` bytes."""
    from xlashape.hlo import HloModule

    proto = HloModule.parse(_FUSED).proto
    metadata = proto.computations[0].instructions[0].metadata
    metadata.op_name = "x" * (size - proto.ByteSize())
    metadata.op_name = metadata.op_name[proto.ByteSize() - size :]  # the lengths before it take bytes too
    return proto.SerializeToString(deterministic=True)


@cache
def content(name: str) -> bytes:
    """The content of a module."""
    if name == "attention":
        return (_ROOT / "xlashape" / "data" / "attention.hlo.pb").read_bytes()
    if name == "text":
        return _FUSED.encode()
    if name == "fused":
        from xlashape.hlo import HloModule

        return HloModule.parse(_FUSED).proto.SerializeToString(deterministic=True)
    if name in _SIZES:
        return _filled(_SIZES[name])
    return gzip.decompress((_ROOT / "tests" / "vectors" / "hlo" / f"{name}.before.hlo.pb.gz").read_bytes())


def resource_name(name: str) -> str:
    """The name of the module in the service."""
    return f"modules/{hashlib.sha256(content(name)).hexdigest()}"
