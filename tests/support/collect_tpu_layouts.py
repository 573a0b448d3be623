"""Writes tests/vectors/tpu_layouts.jsonl: the layouts that libtpu's ahead-of-time compiler gives to the parameters of
programs.

It needs no TPU, but an environment of its own: `pip install 'jax[tpu]==0.10.2'`, then `python
tests/support/collect_tpu_layouts.py OUT`. Each program takes 200 arrays and returns a constant, so that only the
default layout decides how the arrays lie. The first line of the output names the versions that made it. Each other line
has layouts, and the generations of TPUs that gave the arrays exactly these layouts.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from pathlib import Path

TOPOLOGIES = {
    "v2": "v2:2x2",
    "v3": "v3:2x2",
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "7x": "tpu7x:2x2x1",
}
WIDTHS = "float32 bfloat16 int8 bool int4 int2 complex64 int64".split()
"""The element types of most arrays: one type of each width, and the types that TPUs store in a special way."""
OTHERS = """int16 uint16 float16 int32 uint32 uint8 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3 float8_e4m3fnuz float8_e5m2fnuz
float8_e3m4 float8_e8m0fnu uint4 float4_e2m1fn uint2 uint64 float64 complex128""".split()
SIZES = [
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    12,
    16,
    24,
    31,
    32,
    33,
    56,
    64,
    100,
    112,
    128,
    129,
    192,
    224,
    255,
    256,
    300,
    512,
    768,
    1000,
    1024,
    3072,
]
BATCH = 200


def arrays(count: int) -> list[tuple[int, ...]]:
    """Dimensions of arrays: small ranks at many sizes, then random ones of up to six dimensions and 4 million
    elements.
    """
    r = random.Random(20261122)
    found: dict[tuple[int, ...], None] = {(): None}
    found.update(
        {(size,): None for size in (0, 1, 2, 5, 127, 128, 129, 255, 256, 257, 513, 1000, 1024, 1025, 2049, 4096)}
    )
    found.update({(rows, 128): None for rows in (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 96, 128, 256)})
    found.update(
        dict.fromkeys(((0, 5), (5, 0), (128, 1), (1000, 1), (1024, 8, 4), (300, 7, 1), (1, 7, 300), (8, 224, 224, 3)))
    )
    while len(found) < count:
        dimensions = tuple(
            [
                r.choice([r.choice(SIZES), 2 ** r.randint(0, 12), r.randint(1, 300)])
                for _ in range(r.choice([2, 2, 3, 3, 4, 5, 6]))
            ]
        )
        elements = 1
        for size in dimensions:
            elements *= size
        if elements <= 1 << 22:
            found[dimensions] = None
    return list(found)


def main(path: str) -> None:
    """Compiles for all generations of TPUs, and writes the file."""
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    from importlib.metadata import version

    import jax
    import jax.numpy as jnp
    import ml_dtypes
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    many, few = arrays(330), arrays(70)
    answers: dict[tuple[str, ...], list[str]] = {}
    for name in (*WIDTHS, *OTHERS):
        jax.config.update("jax_enable_x64", name in ("int64", "uint64", "float64", "complex128"))
        dtype = getattr(jnp, name, None) or np.dtype(getattr(ml_dtypes, name))
        by_answer: dict[tuple[str, ...], list[str]] = {}
        for generation, topology in TOPOLOGIES.items():
            device = topologies.get_topology_desc(topology, platform="tpu").devices[0]
            sharding = SingleDeviceSharding(device)
            found: list[str] = []
            wanted = many if name in WIDTHS else few
            for start in range(0, len(wanted), BATCH):
                batch = wanted[start : start + BATCH]
                arguments = [jax.ShapeDtypeStruct(d, dtype, sharding=sharding) for d in batch]
                program = jax.jit(lambda *_: jnp.float32(1), keep_unused=True).lower(*arguments).compile()
                header = re.sub(r"/\*index=\d+\*/", "", program.as_text().split("\n", 1)[0])
                parameters = header.split("entry_computation_layout={(", 1)[1].split(")->", 1)[0]
                shapes = re.findall(r"[a-z]\w*\[[\d,]*\](?:\{[^}]*\})?", parameters)
                assert len(shapes) == len(batch), header[:500]
                found += shapes
            by_answer.setdefault(tuple(found), []).append(generation)
        for layouts, generations in by_answer.items():
            answers.setdefault(tuple(generations), []).extend(layouts)
    made_by = {"jax": version("jax"), "libtpu": version("libtpu"), "script": "tests/support/collect_tpu_layouts.py"}
    rows = [made_by, *[{"generations": key, "layouts": value} for key, value in answers.items()]]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
