"""Writes tests/vectors/costs/tpu_programs.jsonl.gz: the programs of jax_programs.py as libtpu compiles them for a TPU
v5e, ahead of time, and what their executables say of FLOPs, transcendentals and bytes, and of the memory of arguments,
outputs and aliases.

    PYTHONPATH=tests/support python tests/support/collect_tpu_costs.py tests/vectors/costs/tpu_programs.jsonl.gz

It needs JAX 0.12.0.1 and libtpu 0.0.52, and no TPU.
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
import jax_programs
from collect_costs import NUMBERS, without_metadata, write
from jax.experimental import topologies


def compiled(name: str, device: Any) -> dict[str, Any]:
    """The row of a program: the module that libtpu compiles it to, and the numbers that its executable reports."""
    function, arrays = jax_programs.example(name)
    where = jax.sharding.SingleDeviceSharding(device)
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    executable = jax.jit(function, in_shardings=where, out_shardings=where).lower(*shapes).compile()
    found = executable.cost_analysis()
    text = re.sub(r", backend_config=\{.*\}$", "", without_metadata(executable.as_text()), flags=re.MULTILINE)
    stats = executable.memory_analysis()
    memory = [stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes]
    return {"name": name, "hlo": text, "cost": [found.get(each, 0.0) for each in NUMBERS], "memory": memory}


def main(path: Path) -> None:
    device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
    write(path, [compiled(name, device) for name in jax_programs.PROGRAMS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
