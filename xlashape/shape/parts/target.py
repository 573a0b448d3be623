"""Kinds of devices, described by what the size of a buffer depends on."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.base.similar import did_you_mean
from xlashape.base.vocabulary import Vocabulary
from xlashape.errors import InvalidArgumentError, is_a


class Target(NamedTuple):
    """A kind of device, described by what decides how many bytes a buffer takes.

    >>> Target.of("tpu") is TPU, Target.of(TPU) is TPU
    (True, True)
    >>> Target.of("tpu-v5e").generation, Target.of("h100").kind
    ('v5e', 'gpu')
    """

    name: str
    pointer_size: int = 8
    """The bytes of a pointer. The buffer of a tuple is a table of pointers, and the buffer of an opaque is a pointer.
    """
    counts_padding: bool = False
    """Whether tiles and tail padding count. CPUs and GPUs have layouts without tiles."""
    table_alignment: int = 1
    """The size of a tuple's table is rounded up to a multiple of this number of bytes. An empty tuple's table has 0."""
    scalar_elements: int = 0
    """A scalar without tiles takes the bytes of this number of elements, and a small array without tiles those of a
    multiple of it. 0 means that they take the bytes of their own elements."""
    semaphore_spaces: tuple[int, ...] = ()
    """The memory spaces of semaphores, which are scalars of 4 bytes whatever their tiles are."""
    small_spaces: tuple[int, ...] = ()
    """The memory spaces of small arrays, which the compiler lays out without tiles, or with its own."""
    dynamic_size_bytes: int = 0
    """The bytes for each dimension of an array that has a dynamic dimension. They hold the actual sizes, behind the
    elements.
    """
    generation: str = ""
    """The generation of a TPU, on which the default layouts depend. Empty for "tpu", which has the default layouts of
    v4 and later.
    """

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        """`cpu`, `gpu` or `tpu`."""
        return "tpu" if self.is_tpu else "cpu" if self.name == "cpu" else "gpu"

    @property
    def is_tpu(self) -> bool:
        """Whether the target is a TPU of any generation."""
        return self.counts_padding

    @staticmethod
    def of(value: Target | str) -> Target:
        """`value` itself if it is a target, or the target of that name. InvalidArgumentError for another name."""
        if isinstance(value, Target):
            return value
        if is_a(value, str):
            target = TARGETS.get(value.lower())
            if target is not None:
                return target
        hint = did_you_mean(value.lower(), TARGETS) if is_a(value, str) else ""
        raise InvalidArgumentError(
            f"no target is called {value!r:.60}; there are {', '.join(TARGETS)}{hint}", field="target"
        )


CPU = Target("cpu", dynamic_size_bytes=4)
"""XLA's CPU backend. Source: buffer assignments of TensorFlow 2.21, in which s64[<=4,1] takes 40 bytes, 8 of them for
two actual sizes.
"""
GPU = Target("gpu", dynamic_size_bytes=4)
"""XLA's GPU backend, which counts as the CPU backend does."""
TPU = Target(
    "tpu",
    pointer_size=4,
    counts_padding=True,
    table_alignment=512,
    scalar_elements=1024,
    semaphore_spaces=(2, 8),
    small_spaces=(4,),
)
"""TPUs with libtpu. A scalar without tiles takes the bytes of 1,024 elements, as does s32[2] in memory space 4, a
semaphore takes 4 bytes, and other arrays take the bytes of their tiles.

The table of a tuple of n elements takes 4 × n bytes, rounded up to a multiple of 512, or of 32 from v5p on. The actual
sizes of dynamic dimensions stand in the prefix that the layout states, `M(n)`. Source: the buffer assignments of libtpu
0.0.52 for 60 programs.
"""

TPU_GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "7x")
"""The generations of TPUs whose default layouts are known (`xlashape.shape.tpu_layout`)."""

_TABLE_ALIGNMENT = {"v5p": 32, "v6e": 32, "7x": 32}


def _generation(name: str) -> Target:
    alignment = _TABLE_ALIGNMENT.get(name, TPU.table_alignment)
    return TPU._replace(name=f"tpu-{name}", generation=name, table_alignment=alignment)


_GPU_CHIPS = {
    "a100": "NVIDIA A100",
    "h100": "NVIDIA H100",
    "h200": "NVIDIA H200",
    "b200": "NVIDIA B200",
    "mi250": "AMD Instinct MI250, one of its two devices",
    "mi300x": "AMD Instinct MI300X",
    "mi355x": "AMD Instinct MI355X",
}

TARGETS = {
    target.name: target
    for target in (CPU, GPU, TPU, *map(_generation, TPU_GENERATIONS), *[GPU._replace(name=name) for name in _GPU_CHIPS])
}
"""The targets by name. A chip of a GPU counts bytes as every GPU does."""

TARGET_NAMES = Vocabulary(
    "Target",
    "A device",
    {
        "cpu": "any CPU",
        "gpu": "any GPU",
        "tpu": "any TPU, with the default layouts of v4 and later",
        **{f"tpu-{name}": f"TPU {name}" for name in TPU_GENERATIONS},
        **_GPU_CHIPS,
    },
)
