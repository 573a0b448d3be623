"""What the size of a buffer depends on besides the shape: the device."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidArgumentError

__all__ = ["CPU", "GPU", "TARGETS", "TPU", "TPU_GENERATIONS", "Target"]


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
    """The bytes of a tuple's table are a multiple of this, and not 0."""
    nested_scalar_bytes: int = 0
    """The bytes of a scalar that is an element of a tuple; 0 where it takes what any scalar takes."""
    dynamic_size_bytes: int = 0
    """The bytes for each dimension of an array some of whose dimensions are dynamic: the actual sizes stand behind the elements."""
    generation: str = ""
    """Of a TPU its generation, on which the default layouts depend; empty for "tpu", which has those of v4 and later."""

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU of any generation."""
        return self.counts_padding

    @staticmethod
    def of(value: Target | str) -> Target:
        """`value` itself, or the target of that name; of a TPU the generation alone is a name too. InvalidArgumentError for another name."""
        if isinstance(value, Target):
            return value
        # The check is for callers without types.
        if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = value.lower()
            target = TARGETS.get(name) or TARGETS.get(f"tpu-{name}")
            if target is not None:
                return target
        names = ", ".join(sorted(TARGETS))
        raise InvalidArgumentError(f"no target is called {value!r:.60}; there are {names}", field="target")


CPU = Target("cpu", dynamic_size_bytes=4)
"""XLA's CPU backend. TensorFlow 2.21's buffer assignments: s64[<=4,1] takes 40 bytes, 8 of them for two actual sizes."""
GPU = Target("gpu", dynamic_size_bytes=4)
"""XLA's GPU backend, which counts as the CPU backend does."""
TPU = Target("tpu", counts_padding=True, table_alignment=512, nested_scalar_bytes=4096)
"""libtpu: the table of a tuple takes 512 bytes, a scalar inside a tuple 4,096, and other arrays what their tiles take.

Tables of more than 64 pointers were not measured: they are rounded up to a multiple of 512. The actual sizes of dynamic dimensions stand
in the prefix that the layout states, `M(n)`.
"""

TPU_GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "7x")
"""The generations of TPUs whose default layouts are known (`xlashape.shape.tpu_layout`)."""

TARGETS = {
    target.name: target
    for target in (CPU, GPU, TPU, *[TPU._replace(name=f"tpu-{name}", generation=name) for name in TPU_GENERATIONS])
}
"""The targets by name."""
