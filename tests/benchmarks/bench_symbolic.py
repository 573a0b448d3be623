"""evaluate_batch beside the same arithmetic written by hand in NumPy; simplify and compose beside XLA's own over the
same maps.

    python tests/benchmarks/bench_symbolic.py [ROUNDS]

Ratios: ours ÷ peer, each the best of all rounds, taken in turns. The hand-written peers take a row-major table of
points, as ours does, check the bounds of the domain once per column and give a table of results; `trusting` ones leave
out the check.

*Cold* is with no answer remembered and the maps read already, on both sides (see `xla_peer`); XLA keeps no answers, so
nothing of it stands beside the rest.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import turns
from xla_peer import Peer

from xlashape.symbolic import IndexingMap

VECTORS = Path(__file__).parents[1] / "vectors" / "maps.jsonl"
Step = Callable[[], Any]
best = partial(turns.best, unit=1e-6, clock=time.thread_time)  # microseconds

RESHAPE = "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 1024, (d0 * 600 + d1 * 30 + d2) mod 1024), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29]"
ODD = "(d0, d1, d2) -> ((d0 * 600 + d1 * 30 + d2) / 77, (d0 * 600 + d1 * 30 + d2) mod 77), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29]"
WINDOW = (
    "(d0, d1, d2) -> (d0, d1 * 2 + d2 - 3), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29], d1 * 2 + d2 in [3, 58]"
)
TRANSPOSE = "(d0, d1, d2) -> (d2, d0, -d1 + 19), domain: d0 in [0, 99], d1 in [0, 19], d2 in [0, 29]"


def by_hand(body: Callable[[Any, Any, Any], tuple[Any, ...]], points: Any, check: bool) -> Any:
    a, b, c = points[:, 0], points[:, 1], points[:, 2]
    results = np.stack(body(a, b, c), axis=1)
    if not check:
        return results
    inside = (a >= 0) & (a <= 99) & (b >= 0) & (b <= 19) & (c >= 0) & (c <= 29)
    return results, inside


def window_by_hand(points: Any) -> Any:
    a, b, c = points[:, 0], points[:, 1], points[:, 2]
    line = b * 2 + c
    inside = (a >= 0) & (a <= 99) & (b >= 0) & (b <= 19) & (c >= 0) & (c <= 29) & (line >= 3) & (line <= 58)
    return np.where(inside[:, None], np.stack([a, line - 3], axis=1), 0), inside


def by_number(divisor: int) -> Callable[[Any, Any, Any], tuple[Any, ...]]:
    def body(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
        line = a * 600 + b * 30 + c
        return line // divisor, line % divisor

    return body


def evaluation(rounds: int, count: int) -> None:
    draw = np.random.default_rng(0)
    points = np.stack([draw.integers(0, size, count) for size in (100, 20, 30)], axis=1)
    print(f"evaluate_batch of {count} points: ratio to NumPy by hand, with the domain checked and trusted")
    for name, text, body in (
        ("reshape by 1024", RESHAPE, by_number(1024)),
        ("reshape by 77", ODD, by_number(77)),
        ("transpose and reverse", TRANSPOSE, lambda a, b, c: (c, a, 19 - b)),
    ):
        m = IndexingMap.parse(text)
        results, inside = m.evaluate_batch(points)
        assert inside.all() and (results == by_hand(body, points, check=False)).all()
        times = best(
            rounds,
            {
                "ours": lambda m=m: m.evaluate_batch(points),
                "checked": lambda body=body: by_hand(body, points, check=True),
                "trusting": lambda body=body: by_hand(body, points, check=False),
            },
        )
        ours = times["ours"]
        print(f"  {name:<24} {ours / times['checked']:6.2f} {ours / times['trusting']:6.2f}   ours {ours / 1e3:.1f} ms")
    m = IndexingMap.parse(WINDOW)
    results, inside = m.evaluate_batch(points)
    expected, expected_inside = window_by_hand(points)
    assert (results == expected).all()
    assert (inside == expected_inside).all()
    assert not inside.all()
    times = best(rounds, {"ours": lambda: m.evaluate_batch(points), "checked": lambda: window_by_hand(points)})
    print(
        f"  {'window, some outside':<24} {times['ours'] / times['checked']:6.2f}      –   ours "
        f"{times['ours'] / 1e3:.1f} ms"
    )


def simplification(rounds: int) -> None:
    rows = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    texts = [row["map"] for row in rows if row["call"] == "simplify"]
    pair_texts = [(row["first"], row["second"]) for row in rows if row["call"] == "compose"]
    single = [IndexingMap.parse(text) for text in texts]
    pairs = [(IndexingMap.parse(first), IndexingMap.parse(second)) for first, second in pair_texts]
    cold = _uncached()
    steps: dict[str, Step] = {
        "parse": lambda: [IndexingMap.parse(text) for text in texts],
        "simplify, cold": lambda: [cold(m) for m in single],
        "simplify, equal map again": lambda: [
            IndexingMap(m.dims, m.ranges, m.runtime, m.results, m.constraints).simplify() for m in single
        ],
        "simplify, same map again": lambda: [m.simplify() for m in single],
        "compose, cold": lambda: [cold(a.compose_unsimplified(b)) for a, b in pairs],
        "compose, again": lambda: [a.compose(b) for a, b in pairs],
    }
    peer = Peer.find()
    xla: dict[str, float] = {}
    times = dict.fromkeys(steps, float("inf"))
    if peer is not None:
        peer.ask("choose_maps", texts)
    for _ in range(rounds):
        for name, taken in best(1, steps).items():
            times[name] = min(times[name], taken)
        if peer is not None:
            for name, call in (
                ("parse", ["maps_parsed"]),
                ("simplify, cold", ["maps_simplified"]),
                ("compose, cold", ["maps_composed", pair_texts]),
            ):
                xla[name] = min(xla.get(name, float("inf")), 1e6 * peer.ask(*call))
    print("microseconds a map over the vectors, XLA's and the ratio to it")
    for name, total in times.items():
        count = len(pairs) if name.startswith("compose") else len(single)
        theirs = f"{xla[name] / count:8.1f} {total / xla[name]:8.1f}" if name in xla else ""
        print(f"  {name:<28} {total / count:8.1f} {theirs}")


def _uncached() -> Callable[[IndexingMap], IndexingMap]:
    from xlashape.symbolic.map import indexing_map

    return indexing_map._simplified.__wrapped__


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    evaluation(asked, 1_000_000)
    simplification(asked)
