"""What the size of a buffer depends on besides the shape: the device."""

from __future__ import annotations

from typing import NamedTuple

from xlashape.errors import InvalidArgumentError

__all__ = ["CPU", "GPU", "TARGETS", "TPU", "Target"]


class Target(NamedTuple):
    """A kind of device, as far as it decides how many bytes a buffer takes.

    >>> Target.of("tpu") is TPU, Target.of(TPU) is TPU
    (True, True)
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

    @staticmethod
    def of(value: Target | str) -> Target:
        """`value` itself, or the target of that name. InvalidArgumentError for another name."""
        if isinstance(value, Target):
            return value
        if value not in TARGETS:
            names = ", ".join(sorted(TARGETS))
            raise InvalidArgumentError(f"no target is called {value!r:.60}; there are {names}", field="target")
        return TARGETS[value]


CPU = Target("cpu", dynamic_size_bytes=4)
"""XLA's CPU backend. TensorFlow 2.21's buffer assignments: s64[<=4,1] takes 40 bytes, 8 of them for two actual sizes."""
GPU = Target("gpu", dynamic_size_bytes=4)
"""XLA's GPU backend, which counts as the CPU backend does."""
TPU = Target("tpu", counts_padding=True, table_alignment=512, nested_scalar_bytes=4096)
"""libtpu: the table of a tuple takes 512 bytes, a scalar inside a tuple 4,096, and other arrays what their tiles take.

Tables of more than 64 pointers were not measured: they are rounded up to a multiple of 512. The actual sizes of dynamic dimensions stand
in the prefix that the layout states, `M(n)`.
"""

TARGETS = {target.name: target for target in (CPU, GPU, TPU)}
"""The targets by name."""
