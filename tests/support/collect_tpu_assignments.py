"""Writes tests/vectors/memory/tpu/: programs with the buffer assignments that libtpu's ahead-of-time compiler makes.

It needs no TPU, but an environment of its own: `pip install 'jax[tpu]==0.12.0.1'`, then `python
tests/support/collect_tpu_assignments.py FOLDER`. Each program is compiled for each generation of TPUs, into a file
`PROGRAM_GENERATION.hlo.pb`. Stack frames and other metadata are removed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "7x": "tpu7x:2x2x1"}


def programs() -> dict[str, tuple[Any, list[tuple[tuple[int, ...], str]]]]:
    """Functions of JAX by name, each with the dimensions and element types of its arguments."""
    import jax
    import jax.numpy as jnp

    def loop(*arrays: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, state: tuple([array * 2 + 1 for array in state]), arrays)

    def grad(w1: Any, w2: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda w: jnp.mean((jax.nn.gelu(x @ w[0]) @ w[1]) ** 2))((w1, w2))

    def scan(carry: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (jnp.tanh(c @ x), (c.sum(), x[0])), carry, xs)

    def branches(first: Any, x: Any, y: Any) -> Any:
        return jax.lax.cond(first, lambda a, b: a @ b, lambda a, b: (b.T @ a.T).T * 2, x, y)

    def sort(x: Any) -> Any:
        return jax.lax.sort_key_val(x, jnp.arange(x.shape[0]))

    return {
        "loop": (loop, [((2, 8, 2, 100), "uint8"), ((256, 31, 7), "bfloat16"), ((1, 31, 31), "float32")]),
        "grad": (grad, [((300, 1200), "float32"), ((1200, 300), "float32"), ((33, 300), "float32")]),
        "scan": (scan, [((300, 300), "bfloat16"), ((5, 300, 300), "bfloat16")]),
        "branches": (branches, [((), "bool"), ((300, 300), "float32"), ((300, 300), "float32")]),
        "sort": (sort, [((5000,), "float32")]),
    }


def main(folder: str) -> None:
    """Compiles all programs for all generations, and writes the files."""
    dumps = tempfile.mkdtemp()
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={dumps} --xla_dump_hlo_as_proto"
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from xlashape.proto import xla

    for generation, topology in TOPOLOGIES.items():
        sharding = SingleDeviceSharding(topologies.get_topology_desc(topology, platform="tpu").devices[0])
        for name, (function, arguments) in programs().items():
            function.__name__ = f"{name}_{generation}"
            given = [jax.ShapeDtypeStruct(dimensions, kind, sharding=sharding) for dimensions, kind in arguments]
            jax.jit(function).trace(*given).lower(lowering_platforms=("tpu",)).compile()
            [found] = Path(dumps).glob(f"*.jit_{name}_{generation}.*.after_optimizations.hlo.pb")
            proto = xla.HloProto.FromString(found.read_bytes())
            proto.hlo_module.ClearField("stack_frame_index")
            for computation in proto.hlo_module.computations:
                for instruction in computation.instructions:
                    instruction.ClearField("metadata")
            Path(folder, f"{name}_{generation}.hlo.pb").write_bytes(proto.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(sys.argv[1])
