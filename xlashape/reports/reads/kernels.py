"""How a Pallas kernel for TPUs reads an operand: block by block, and all blocks again for each step along a dimension
of its grid that the operand does not depend on. Larger blocks are fewer steps, and so fewer times.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xlashape.base.math import ceil_div, product
from xlashape.hlo import HloInstruction
from xlashape.reports.cost.kernel_blocks import KernelBlocks
from xlashape.reports.reads.answer import Measured, Read
from xlashape.reports.text import short_bytes

_FIRST: Final = Read._fields.index("access")
_VMEM: Final = 16 << 20
"""The bytes of VMEM that XLA gives a kernel, unless it is told otherwise (`vmem_limit_bytes`)."""


class LargerBlocks(NamedTuple):
    """A change of a kernel that has an operand moved fewer times."""

    times: float
    """How often each element is moved now."""
    dimension: int
    """The dimension of the grid along which all blocks are moved again."""
    steps: int
    """How many steps the grid has along it."""
    held: int
    """The bytes of VMEM that the blocks take."""

    @property
    def part(self) -> float:
        """The fraction of the operand's moved bytes, 0.0 to 0.5, that is saved if the grid has half as many steps along
        `dimension`."""
        return 1 - ceil_div(self.steps, 2) / self.steps

    def text(self, instruction: HloInstruction, operand: HloInstruction, output: int) -> str:
        """What to change in the kernel, in words. It is called as `Mend.text` of `mends.py` is."""
        del instruction, output
        return f"{self.held_now()}: {self.fewer_steps(operand.name)}"

    def fits(self, dimensions: int = 1) -> bool:
        """Whether blocks of twice the size along so many dimensions of the grid are sure to be within the VMEM that XLA
        gives a kernel."""
        return self.held << dimensions <= _VMEM

    def held_now(self, dimensions: int = 1) -> str:
        """What limits the change: the memory that blocks take."""
        text = f"larger blocks, which take {short_bytes(self.held)} of VMEM now"
        more = f", and may need more than the {short_bytes(_VMEM)} that XLA gives a kernel without vmem_limit_bytes"
        return text if self.fits(dimensions) else text + more

    def fewer_steps(self, operand: str) -> str:
        """What half as many steps are worth."""
        half = ceil_div(self.steps, 2)
        return (
            f"{half:,} instead of {self.steps:,} steps along dimension {self.dimension} of the kernel's grid move "
            f"{operand} {self.times * half / self.steps:.4g} times instead of {self.times:.4g}"
        )


def read_by_kernel(kernel: KernelBlocks, number: int, operand: HloInstruction, measured: Measured) -> Measured:
    """How a kernel reads its operand of this number. `measured` is what is known of any custom call."""
    columns = dict(zip(Read._fields[_FIRST:], measured.columns, strict=False))
    size, distinct = columns["bytes"], columns["distinct_bytes"]
    elements = product(operand.shape.dimensions) if operand.shape.is_array else 0
    if size is None or distinct is None or not elements:
        return measured
    times = kernel.moved[number] / elements
    moved = round(size * times)
    again = max(0, moved - size)
    columns |= {
        "access": ("blocks",), "times": times, "part_read": min(1.0, times), "distinct_bytes": min(distinct, moved),
        "least_bytes": min(size, moved), "most_bytes": moved, "wasted_bytes": 0, "again_bytes": again,
    }  # fmt: skip
    dimensions = sorted(kernel.repeated[number], key=lambda each: -kernel.grid[each])
    mend = LargerBlocks(times, dimensions[0], kernel.grid[dimensions[0]], kernel.size) if again and dimensions else None
    return measured._replace(columns=tuple(columns.values()), lost=again, distinct=columns["distinct_bytes"], mend=mend)
