"""Values of random bits and scans, compared with execution by XLA."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
from execution.by_xla import xla_process
from execution.xla_process import Request, XlaProcess

from xlashape.evaluation import evaluate

DIMS = [(7,), (3, 4), (3, 5), (4, 6), (4, 2, 3), (5, 5, 3), (), (1,)]


@pytest.fixture(scope="module")
def process() -> Generator[XlaProcess]:
    with xla_process() as found:
        yield found


@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "u64"])
@pytest.mark.parametrize(
    ("algorithm", "size"), [("three_fry", 2), ("philox", 2), ("philox", 3), ("default", 2), ("default", 3)]
)
def test_random_bits_are_those_of_execution(process: XlaProcess, algorithm: str, size: int, kind: str) -> None:
    rng = np.random.default_rng(size)
    for dims in DIMS:
        text = (
            f"HloModule m\n\nENTRY e {{\n  s = u64[{size}] parameter(0)\n  ROOT r = (u64[{size}], "
            f"{kind}[{','.join(map(str, dims))}]) rng-bit-generator(s), algorithm=rng_{algorithm}\n}}\n"
        )
        state = rng.integers(0, 1 << 64, size, dtype=np.uint64)
        for counter in (state[1], np.uint64((1 << 64) - 2)):  # the other one overflows
            state[1] = counter
            (expected,) = process.ask(Request(text, 1, [state], []))
            for one, other in zip(evaluate(text, [state]), expected, strict=True):
                assert one.dtype == other.dtype and np.array_equal(one, other), dims


@pytest.mark.parametrize("reverse", ["", "is_reverse=true, "])
@pytest.mark.parametrize(("axis", "sizes"), [(0, "5,3"), (1, "3,5"), (0, "1,3")])
def test_scans_are_those_of_execution(process: XlaProcess, axis: int, sizes: str, reverse: str) -> None:
    text = f"""HloModule m

body {{
  x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  h = f32[] constant(0.5)
  b = f32[3] broadcast(h), dimensions={{}}
  m = f32[3] multiply(c, b)
  n = f32[3] add(x, m)
  o = f32[3] multiply(n, x)
  ROOT t = (f32[3], f32[3]) tuple(o, n)
}}

ENTRY e {{
  x = f32[{sizes}] parameter(0)
  c = f32[3] parameter(1)
  ROOT r = (f32[{sizes}], f32[3]) scan(x, c), dimensions={{{axis}}}, {reverse}num_carries=1, to_apply=body
}}
"""
    rng = np.random.default_rng(axis)
    inputs = [rng.normal(size=dims).astype(np.float32) for dims in (tuple(map(int, sizes.split(","))), (3,))]
    (expected,) = process.ask(Request(text, 1, inputs, []))
    for one, other in zip(evaluate(text, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
