"""Writes what libtpu says of programs that it compiles ahead of time: FLOPs, transcendentals and bytes.

    PYTHONPATH=tests/support python tests/support/collect_tpu_costs.py tests/vectors/costs

`tpu_programs.jsonl.gz` has the programs of jax_programs.py for a TPU v5e, and the memory of their arguments, outputs
and aliases; `tpu_generations.jsonl.gz` has attention, loops, kernels and collectives for three generations. It needs
JAX 0.12.0.1 and libtpu 0.0.52, and no TPU. Without `--all` it writes the second file alone.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

# libtpu does not look for a TPU: these variables describe one.
os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}

import jax
import jax.numpy as jnp
import jax_programs
import numpy as np
from collect_costs import NUMBERS, without_metadata, write
from jax import lax
from jax.experimental import pallas, topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

GENERATIONS = {"tpu-v5e": "v5e:2x2", "tpu-v6e": "v6e:2x2", "tpu-7x": "tpu7x:2x2x1"}


def row(name: str, executable: Any) -> dict[str, Any]:
    """What is kept of a program. Of backend configurations that is the cost that a kernel states."""

    def kept(config: re.Match[str]) -> str:
        stated = re.search(r'"cost_estimate":\{[^{}]*\}', config[0])
        return f", backend_config={{{stated[0]}}}" if stated else ""

    text = re.sub(r", backend_config=\{.*\}$", kept, without_metadata(executable.as_text()), flags=re.MULTILINE)
    found = executable.cost_analysis()
    return {"name": name, "hlo": text, "cost": [found.get(each, 0.0) for each in NUMBERS]}


def compiled(name: str, device: Any) -> dict[str, Any]:
    """The row of a program of jax_programs.py."""
    function, arrays = jax_programs.example(name)
    where = SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    executable = jax.jit(function, in_shardings=where, out_shardings=where).lower(*shapes).compile()
    stats = executable.memory_analysis()
    memory = [stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes]
    return {**row(name, executable), "memory": memory}


# -- programs for several generations -----------------------------------------------------------


def _loop(goes_on: Any, change: Any, *start: int) -> Any:
    """A loop over numbers, which multiplies a matrix by itself."""

    def function(x: Any) -> Any:
        state = (*[jnp.int32(number) for number in start], x)
        return lax.while_loop(lambda s: goes_on(*s[:-1]), lambda s: (*change(*s[:-1]), jnp.tanh(s[-1] @ s[-1])), state)[
            -1
        ]

    return function


def _kernel(estimate: pallas.CostEstimate | None) -> Any:
    def double(x: Any, result: Any) -> None:
        result[...] = x[...] * 2

    return lambda x: pallas.pallas_call(double, out_shape=x, cost_estimate=estimate)(x)


def _layers(w: Any, x: Any) -> Any:
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def _nested(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, x: lax.fori_loop(1, 4, lambda j, y: jnp.sin(y * (i + j)), x), x)


QUERIES, SQUARE, LAYERS = "bf16 2,{},4,64", "f32 128,128", "bf16 12,128,128"
ONE: dict[str, tuple[Any, str]] = {
    "attention_128": (jax.nn.dot_product_attention, " | ".join([QUERIES.format(128)] * 3)),
    "attention_2048": (jax.nn.dot_product_attention, " | ".join([QUERIES.format(2048)] * 3)),
    "softmax": (jax.nn.softmax, "f32 64,300"),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, axis=1), "bf16 4,96,64"),
    "up": (_loop(lambda i: i < 23, lambda i: (i + 4,), 1), SQUARE),
    "down": (_loop(lambda i: i > 0, lambda i: (i - 3,), 20), SQUARE),
    "both": (_loop(lambda i, j: i < j, lambda i, j: (i + 1, j - 1), 0, 13), SQUARE),
    "nested": (_nested, SQUARE),
    "layers": (_layers, f"{LAYERS} | bf16 64,128"),
    "layers_grad": (jax.grad(lambda w, x: _layers(w, x).astype(jnp.float32).sum()), f"{LAYERS} | bf16 64,128"),
    "kernel": (_kernel(pallas.CostEstimate(flops=12345, transcendentals=67, bytes_accessed=89)), SQUARE),
    "kernel_without_cost": (_kernel(None), SQUARE),
}
FOUR: dict[str, tuple[Any, str]] = {
    "all_reduce": (lambda a, b: a @ b, "bf16 256,512 @ -x | bf16 512,256 @ x- | --"),
    "reduce_scatter": (lambda a, b: a @ b, "bf16 256,512 @ -x | bf16 512,256 @ x- | x-"),
    "all_gather": (lambda a, b: a @ b, "bf16 256,512 @ x- | bf16 512,256 @ x- | x-"),
    "sharded_layers": (_layers, "bf16 6,256,256 @ -x- | bf16 64,256 @ x- | x-"),
}
TRIPS = {"up": [6], "down": [7], "both": [7], "nested": [3, 5], "layers": [12], "sharded_layers": [6]}
"""How often the loops of these programs run, as they are written."""


def on_generation(generation: str) -> list[dict[str, Any]]:
    devices = topologies.get_topology_desc(platform="tpu", topology_name=GENERATIONS[generation]).devices
    mesh = Mesh(np.array(devices[:4]), ("x",))

    def sharding(text: str) -> Any:
        return NamedSharding(mesh, PartitionSpec(*[None if each == "-" else each for each in text.strip()]))

    def shape(text: str) -> Any:
        array, _, spread = text.partition("@")
        kind, sizes = array.split()
        where = sharding(spread) if spread else SingleDeviceSharding(devices[0])
        dtype = {"bf16": jnp.bfloat16, "f32": jnp.float32}[kind]
        return jax.ShapeDtypeStruct([int(size) for size in sizes.split(",")], dtype, sharding=where)

    rows: list[dict[str, Any]] = []
    for name, (function, arguments) in {**ONE, **FOUR}.items():
        parts = arguments.split(" | ")
        result = sharding(parts.pop()) if name in FOUR else SingleDeviceSharding(devices[0])
        executable = jax.jit(function, out_shardings=result).lower(*map(shape, parts)).compile()
        rows.append({"target": generation, **row(name, executable), "trips": TRIPS.get(name)})
    return rows


def main(folder: Path) -> None:
    write(folder / "tpu_generations.jsonl.gz", [each for name in GENERATIONS for each in on_generation(name)])
    if "--all" in sys.argv:
        device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
        write(folder / "tpu_programs.jsonl.gz", [compiled(name, device) for name in jax_programs.PROGRAMS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
