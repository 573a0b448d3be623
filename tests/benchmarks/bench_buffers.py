"""pack and unpack of 64 MB, beside np.copyto of the same bytes and np.ascontiguousarray of the transposed view.

    python tests/benchmarks/bench_buffers.py [ROUNDS [SHAPE …]]

Ratios: ours ÷ peer, each the best of all rounds, peers measured in the same rounds. Both sides once into memory that is
there already (`out`), once into a new array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from turns import best

from xlashape.shape import Shape, tiling

SHAPES = [
    "f32[4096,4096]{1,0:T(8,128)}",
    "bf16[4096,8192]{1,0:T(8,128)(2,1)}",
    "f32[4090,4099]{1,0:T(8,128)}",
    "bf16[4091,8190]{1,0:T(8,128)(2,1)}",
    "s8[8192,8192]{1,0:T(8,128)(4,1)}",
    "s8[8192,8192]{1,0:T(32,128)(32,1)}",
    "s4[8192,8192]{1,0:T(8,128)(8,1)E(4)}",
    "s32[524288,8,4]{2,1,0:T(8,128)}",
    "f32[16777216]{0:T(1024)}",
    "f32[64,512,512]{2,1,0:T(*,8,128)}",
    "f32[4096,4096]{0,1}",
    "f32[4001,4100]{0,1}",
    "bf16[8192,4096]{0,1}",
    "f32[64,512,512]{1,2,0}",
    "f32[64,512,512]{0,2,1}",
    "f32[64,512,512]{0,1,2}",
    "f32[1024,4096]{1,0:T(6,6)(4,4)}",
]


def measure(text: str, rounds: int) -> str:
    """One line of the table."""
    shape = Shape.parse(text)
    assert shape.layout is not None
    dtype = shape.element_type.numpy_dtype()
    plain = np.dtype(f"u{dtype.itemsize}")
    values = np.random.default_rng(0).integers(0, 2, shape.dimensions, np.uint8).astype(plain).view(dtype)
    source = values.view(plain)
    buffer = tiling.pack(shape, values)
    assert (tiling.unpack(shape, buffer).view(plain) == source).all()
    target = np.empty_like(source)
    transposed = source.transpose(shape.layout.major_to_minor)
    steps: dict[str, Callable[[], Any]] = {
        "copyto": lambda: np.copyto(target, source),
        "fresh": lambda: np.copyto(np.empty_like(source), source),
        "out": lambda: tiling.pack(shape, values, out=buffer),
        "pack": lambda: tiling.pack(shape, values),
        "unpack": lambda: tiling.unpack(shape, buffer, copy=True),
    }
    if not shape.layout.tiles:
        steps["transpose"] = lambda: np.ascontiguousarray(transposed)
    times = best(rounds, steps, unit=1e-3)
    line = f"{text:42} {times['copyto']:7.1f} {times['fresh']:7.1f} {times['out'] / times['copyto']:8.2f}× "
    line += f"{times['pack'] / times['fresh']:5.2f}× {times['unpack'] / times['fresh']:6.2f}×"
    if "transpose" in times:
        line += f"   {times['transpose']:12.1f} {times['pack'] / times['transpose']:5.2f}×"
    return line


def main(rounds: int, shapes: list[str]) -> None:
    """Prints one line a shape."""
    print("ratios to np.copyto, and for untiled layouts to np.ascontiguousarray of the transposed view")
    print(
        f"{'shape':42} {'copyto':>7} {'+alloc':>7} {'pack out':>9} {'pack':>6} {'unpack':>7}   {'transpose ms':>12} "
        f"{'pack':>6}"
    )
    for text in shapes:
        print(measure(text, rounds), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7, sys.argv[2:] or SHAPES)
