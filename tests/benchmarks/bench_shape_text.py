"""Reading and printing shapes: the first time, again, and beside jaxlib's Shape where it is installed.

    python tests/benchmarks/bench_shape_text.py [ROUNDS]

The first time: the text was never seen, so every round takes sizes of its own. Ratios are within one run; the best of
all rounds.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from xlashape.shape import Shape

try:
    from jaxlib._hlo import Shape as Peer  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
except ImportError:
    try:
        from jaxlib.xla_client import Shape as Peer  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        Peer = None

BATCH = 500
TEXTS = {
    "plain": "f32[{0},128]{{1,0}}",
    "no layout": "f32[{0},128]",
    "tiled": "bf16[{0},128]{{1,0:T(8,128)(2,1)S(1)}}",
    "every part": "s4[{0},<=7]{{0,1:T(*,4)(2,1)L(16)E(4)S(5)M(8)}}",
    "spaces": "f32 [{0}, 128] {{1, 0 : T(8, 128)}}",
    "tuple of 3": "(f32[{0},128]{{1,0}}, s32[], (bf16[{0}]{{0}}, token[]))",
    "tuple of 100": "(" + ", ".join(["f32[{0},128]{{1,0:T(8,128)}}"] * 100) + ")",
}
_fresh = itertools.count(1_000)


def batch(template: str) -> list[str]:
    """Texts never seen before; together no more than what is remembered."""
    return [template.format(next(_fresh)) for _ in range(min(BATCH, 1 + 200_000 // len(template)))]


def microseconds(step: Callable[[Any], Any], items: list[Any]) -> float:
    """The mean of one pass over the items."""
    start = time.perf_counter()
    for item in items:
        step(item)
    return 1e6 * (time.perf_counter() - start) / len(items)


def measured(template: str, rounds: int) -> dict[str, float]:
    """Microseconds of each step, the best of all rounds; the steps take turns."""
    best: dict[str, float] = {}

    def keep(name: str, value: float) -> None:
        best[name] = min(best.get(name, value), value)

    for _ in range(rounds):
        texts = batch(template)
        keep("first", microseconds(Shape.parse, texts))
        again = ["".join([*text]) for text in texts]  # equal text, other objects: no hash is known yet
        keep("again", microseconds(Shape.parse, again))
        shapes = [Shape.parse(text) for text in texts]
        keep("str", microseconds(str, shapes))
        keep("str again", microseconds(str, shapes))
        if Peer is not None:
            keep("jaxlib", microseconds(Peer, texts))
            keep("jaxlib str", microseconds(str, [Peer(text) for text in texts]))
    return best


def lines(rounds: int) -> Iterator[str]:
    """The table."""
    columns = ["first", "again", "first÷again", "str", "str again"] + (
        ["jaxlib", "first÷jaxlib", "str÷jaxlib"] if Peer else []
    )
    yield f"{'µs':14}" + "".join([f"{name:>14}" for name in columns])
    for name, template in TEXTS.items():
        best = measured(template, rounds)
        best["first÷again"] = best["first"] / best["again"]
        if Peer is not None:
            best["first÷jaxlib"] = best["first"] / best["jaxlib"]
            best["str÷jaxlib"] = best["str"] / best["jaxlib str"]
        yield f"{name:14}" + "".join([f"{best[column]:14.2f}" for column in columns])
    if Peer is None:
        yield "jaxlib is not installed: no peer"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        print(line)
