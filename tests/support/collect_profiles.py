"""Writes tests/vectors/profiles: profiles of small JAX programs on a CPU, and beside each the sums of its events by
`jax.profiler.ProfileData`.

Run `PYTHONPATH=tests/support python tests/support/collect_profiles.py tests/vectors/profiles`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax_programs

KEPT = ("scan_grad", "conv_grad", "nested_loops")


def profiled(calls: list[tuple[Any, list[Any]]], folder: str, *, times: int = 3, steps: bool = False) -> Path:
    """The folder with the profile of some jitted functions, each called `times` times after it has been compiled."""
    for function, arrays in calls:
        jax.block_until_ready(function(*arrays))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    jax.profiler.start_trace(folder, profiler_options=options)
    for number in range(times):
        for function, arrays in calls:
            if steps:
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    jax.block_until_ready(function(*arrays))
            else:
                jax.block_until_ready(function(*arrays))
    jax.profiler.stop_trace()
    return next(Path(folder).rglob("*.xplane.pb")).parent


def sums(path: Path) -> dict[str, list[float]]:
    """`name|module|program id` of each instruction → the number of its events and their nanoseconds, by ProfileData."""
    found: dict[str, list[float]] = {}
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                if "hlo_op" in stats:
                    of = found.setdefault(f"{stats['hlo_op']}|{stats['hlo_module']}|{stats['program_id']}", [0, 0.0])
                    of[0] += 1
                    of[1] += event.duration_ns
    return found


def same_names() -> list[tuple[Any, list[Any]]]:
    """Two functions whose modules have the same name."""
    array = jax.numpy.ones((30, 20))
    return [(jax.jit(function), [array]) for function in (lambda x: jax.numpy.sin(x).sum(), lambda x: (x @ x.T).max())]


def main(folder: Path) -> None:
    for name in (*KEPT, "same_names"):
        if name == "same_names":
            calls = same_names()
        else:
            function, arrays = jax_programs.example(name)
            calls = [(jax.jit(function), arrays)]
        with tempfile.TemporaryDirectory() as directory:
            run = profiled(calls, directory, steps=name == "conv_grad")
            (planes,) = run.glob("*.xplane.pb")
            (folder / f"{name}.xplane.pb").write_bytes(planes.read_bytes())
            (trace,) = run.glob("*.trace.json.gz")
            (folder / f"{name}.trace.json.gz").write_bytes(trace.read_bytes())
            (folder / f"{name}.json").write_text(json.dumps(sums(planes), indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
