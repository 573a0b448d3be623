"""Devices, as far as the size of a buffer depends on them."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidArgumentError, is_a


class Target(NamedTuple):
    """A kind of device, as far as it decides how many bytes a buffer takes.

    >>> Target.of("tpu") is TPU, Target.of(TPU) is TPU
    (True, True)
    >>> Target.of("tpu-v5e").generation, Target.of("v5e").name
    ('v5e', 'tpu-v5e')
    """

    name: str
    pointer_size: int = 8
    """The bytes of a pointer; the buffer of a tuple is a table of pointers, and so is an opaque."""
    counts_padding: bool = False
    """Whether tiles and tail padding count. CPUs and GPUs have layouts without tiles."""
    table_alignment: int = 1
    """The bytes of a tuple's table are a multiple of this; 0 of a tuple without elements."""
    scalar_elements: int = 0
    """How many elements have the room that a scalar without tiles takes; 0 where it takes that of one."""
    semaphore_spaces: tuple[int, ...] = ()
    """The memory spaces of semaphores, scalars of 4 bytes whatever their tiles are."""
    dynamic_size_bytes: int = 0
    """The bytes for each dimension of an array some of whose dimensions are dynamic: the actual sizes stand behind the
    elements.
    """
    generation: str = ""
    """Of a TPU its generation, on which the default layouts depend; empty for "tpu", which has those of v4 and later.
    """

    def __str__(self) -> str:
        return self.name

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU of any generation."""
        return self.counts_padding

    @staticmethod
    def of(value: Target | str) -> Target:
        """`value` itself, or the target of that name; of a TPU the generation alone is a name too. InvalidArgumentError
        for another name.
        """
        if isinstance(value, Target):
            return value
        if is_a(value, str):
            name = value.lower()
            target = TARGETS.get(name) or TARGETS.get(f"tpu-{name}")
            if target is not None:
                return target
        names = ", ".join(sorted(TARGETS))
        raise InvalidArgumentError(f"no target is called {value!r:.60}; there are {names}", field="target")


CPU = Target("cpu", dynamic_size_bytes=4)
"""XLA's CPU backend. TensorFlow 2.21's buffer assignments: s64[<=4,1] takes 40 bytes, 8 of them for two actual sizes.
"""
GPU = Target("gpu", dynamic_size_bytes=4)
"""XLA's GPU backend, which counts as the CPU backend does."""
TPU = Target(
    "tpu", pointer_size=4, counts_padding=True, table_alignment=512, scalar_elements=1024, semaphore_spaces=(2, 8)
)
"""libtpu: a scalar without tiles takes what 1,024 elements take, a semaphore 4 bytes, and other arrays what their tiles
take.

The table of a tuple of n elements takes 4 × n bytes, rounded up to a multiple of 512, from v5p on of 32. The actual
sizes of dynamic dimensions stand in the prefix that the layout states, `M(n)`. Source: the buffer assignments of libtpu
0.0.52 for 60 programs.
"""

TPU_GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "7x")
"""The generations of TPUs whose default layouts are known (`xlashape.shape.tpu_layout`)."""

_TABLE_ALIGNMENT = {"v5p": 32, "v6e": 32, "7x": 32}


def _generation(name: str) -> Target:
    alignment = _TABLE_ALIGNMENT.get(name, TPU.table_alignment)
    return TPU._replace(name=f"tpu-{name}", generation=name, table_alignment=alignment)


TARGETS = {target.name: target for target in (CPU, GPU, TPU, *map(_generation, TPU_GENERATIONS))}
TARGETS["tpu-v7"] = TARGETS["tpu-7x"]
"""The targets by name."""
