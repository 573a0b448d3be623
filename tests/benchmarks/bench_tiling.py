"""linear_indices and multi_indices beside np.ravel_multi_index and np.unravel_index, and how they scale; single
questions.

    python tests/benchmarks/bench_tiling.py [ROUNDS]

Ratios: ours ÷ peer, each the best of all rounds, peers measured in the same rounds. The peers get what suits them best:
columns that lie one after the other, as a tuple, and give a tuple of columns; ours take and give rows of int64[n,
rank], checks included.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from turns import best

from xlashape.shape import Shape, tiling

DIMENSIONS = (7, 50, 300, 130)
LAYOUTS = {
    "untiled": "{3,2,1,0}",
    "untiled, transposed": "{0,2,1,3}",
    "T(8,128)": "{3,2,1,0:T(8,128)}",
    "T(8,128)(2,1)": "{3,2,1,0:T(8,128)(2,1)}",
    "T(*,8,128), combine": "{3,2,1,0:T(*,8,128)}",
    "T(*,7,100)(5,6), odd": "{2,3,1,0:T(*,7,100)(5,6)}",
}


def batches(rounds: int, count: int) -> None:
    """A million indices: ratios to the peers."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, d, count) for d in DIMENSIONS], 1)
    columns = tuple([np.ascontiguousarray(column) for column in rows.T])
    flat = np.ravel_multi_index(columns, DIMENSIONS)
    steps: dict[str, Callable[[], Any]] = {
        "ravel columns": lambda: np.ravel_multi_index(columns, DIMENSIONS),
        "ravel rows.T": lambda: np.ravel_multi_index(tuple(rows.T), DIMENSIONS),
        "unravel columns": lambda: np.unravel_index(flat, DIMENSIONS),
        "unravel rows": lambda: np.stack(np.unravel_index(flat, DIMENSIONS), 1),
    }
    for name, layout in LAYOUTS.items():
        shape = Shape.parse(f"f32[{','.join(map(str, DIMENSIONS))}]{layout}")
        positions = tiling.linear_indices(shape, rows)
        assert (tiling.multi_indices(shape, positions)[0] == rows).all()
        steps[f"linear {name}"] = lambda shape=shape: tiling.linear_indices(shape, rows)
        steps[f"multi {name}"] = lambda shape=shape, positions=positions: tiling.multi_indices(shape, positions)
    times = best(rounds, steps, unit=1e-6)
    print(f"{count:,} indices of rank {len(DIMENSIONS)}; ms, and ratios to the peer with columns and the one with rows")
    for name in ("ravel columns", "ravel rows.T", "unravel columns", "unravel rows"):
        print(f"  np.{name:26} {times[name] / 1e3:8.2f}")
    for kind, first, second in (
        ("linear", "ravel columns", "ravel rows.T"),
        ("multi", "unravel columns", "unravel rows"),
    ):
        for name in LAYOUTS:
            time_ours = times[f"{kind} {name}"]
            print(
                f"  {kind + '_indices ' + name:40} {time_ours / 1e3:8.2f} {time_ours / times[first]:7.2f}× "
                f"{time_ours / times[second]:6.2f}×"
            )


def scaling(rounds: int) -> None:
    """Nanoseconds an index from 10^3 to 10^7."""
    counts = [10**3, 10**4, 10**5, 10**6, 10**7]
    print("ns an index" + " " * 31 + "".join([f"{count:>12,}" for count in counts]))
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, d, counts[-1]) for d in DIMENSIONS], 1)
    for name, layout in LAYOUTS.items():
        shape = Shape.parse(f"f32[{','.join(map(str, DIMENSIONS))}]{layout}")
        positions = tiling.linear_indices(shape, rows)
        linear: list[float] = []
        multi: list[float] = []
        for count in counts:
            some, where = rows[:count], positions[:count]
            times = best(
                rounds if count > 10**5 else 10 * rounds,
                {
                    "linear": lambda shape=shape, some=some: tiling.linear_indices(shape, some),
                    "multi": lambda shape=shape, where=where: tiling.multi_indices(shape, where),
                },
                unit=1e-6,
            )
            linear.append(1e3 * times["linear"] / count)
            multi.append(1e3 * times["multi"] / count)
        print(f"  {'linear_indices ' + name:40}" + "".join([f"{ns:12.1f}" for ns in linear]))
        print(f"  {'multi_indices ' + name:40}" + "".join([f"{ns:12.1f}" for ns in multi]))


def single(rounds: int) -> None:
    """Microseconds of one question, beside the same question to NumPy."""
    repeats = 2000
    flat_index = (3, 20, 100, 50)
    steps: dict[str, Callable[[], Any]] = {
        "np.ravel_multi_index": lambda: [np.ravel_multi_index(flat_index, DIMENSIONS) for _ in range(repeats)]
    }
    for name, layout in LAYOUTS.items():
        shape = Shape.parse(f"f32[{','.join(map(str, DIMENSIONS))}]{layout}")
        where = tiling.linear_index(shape, flat_index)
        steps[f"linear_index {name}"] = lambda shape=shape: [
            tiling.linear_index(shape, flat_index) for _ in range(repeats)
        ]
        steps[f"multi_index {name}"] = lambda shape=shape, where=where: [
            tiling.multi_index(shape, where) for _ in range(repeats)
        ]
    print("µs a single question")
    for name, time_all in best(rounds, steps, unit=1e-6).items():
        print(f"  {name:40} {time_all / repeats:8.2f}")


if __name__ == "__main__":
    ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    batches(ROUNDS, 1_000_000)
    scaling(max(1, ROUNDS // 3))
    single(ROUNDS)
