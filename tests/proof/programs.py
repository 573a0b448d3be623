"""Programs of many kinds in plain JAX, from which XLA's stages are made: `python programs.py FOLDER [NAME …]`.

Run by a Python that has JAX, of any version since 0.4.31. Each program is compiled for the CPU in a process of its own,
and FOLDER/NAME gets the text after each pass. With `--tpu`, libtpu compiles it ahead of time for a TPU v5e. A program
that this version of JAX cannot express is named and left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from declared import PROGRAMS

for declaring in ("large", "networks", "operations"):
    import_module(declaring)

DUMPS = {"xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_text": True, "xla_dump_large_constants": True}


def compile_one(into: str, name: str, *, for_tpu: bool) -> None:
    import jax

    function, arguments = PROGRAMS[name]()
    if for_tpu:
        from jax.experimental import topologies

        device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
        placed = jax.sharding.SingleDeviceSharding(device)
        arguments = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=placed), arguments)
    jax.jit(function).lower(*arguments).compile(compiler_options=DUMPS | {"xla_dump_to": into} if for_tpu else None)


def main() -> int:
    names = [word for word in sys.argv[1:] if word != "--tpu"]
    for_tpu, folder, chosen = "--tpu" in sys.argv, Path(names[0]), names[1:]
    if os.environ.get("ONE_PROGRAM"):
        compile_one(str(folder / chosen[0]), chosen[0], for_tpu=for_tpu)
        return 0
    for name in chosen or PROGRAMS:
        shutil.rmtree(folder / name, ignore_errors=True)
        flags = "".join(f" --{flag}={str(value).lower()}" for flag, value in DUMPS.items())
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "ONE_PROGRAM": "1"}
        if not for_tpu:
            environment["XLA_FLAGS"] = f"--xla_dump_to={folder / name}{flags}"
        command = [sys.executable, __file__, *["--tpu"] * for_tpu, str(folder), name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            shutil.rmtree(folder / name, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
