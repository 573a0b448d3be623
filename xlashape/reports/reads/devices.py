"""The device that a module was compiled for, and the unit in which its memory is read.

- GPU: a warp of 32 neighbouring outputs reads segments of 128 bytes.
- CPU: a vector of 32 bytes of neighbouring outputs reads cache lines of 64 bytes.
- TPU: a tile of the output reads tiles of the operand, which are moved whole. A tile of 4 KiB has 8 sublanes of 128
  lanes, and a lane holds 4 bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.hlo import HloInstruction, HloModule, Opcode
from xlashape.hlo.kind import Kind
from xlashape.shape import Shape, Target, tpu_layout
from xlashape.shape.parts.target import CPU, GPU, TPU
from xlashape.shape.tiling.padding import stored_bits

_VECTOR_BITS: Final = 256
_LINE_BYTES: Final = 64
_WARP: Final = 32
_WAVEFRONT: Final = 64
"""What AMD calls a warp: the threads of its chips for data centers that run together."""
_SEGMENT_BYTES: Final = 128
_LANE_BYTES: Final = 4
_LANES: Final = 128

# Signs of a device: the target of a custom call, a backend config, and the name of a dump.
_CUSTOM_CALLS: Final = (
    (re.compile(r"tpu_custom_call|Mosaic|mosaic_tpu|tpu_"), TPU),
    (
        re.compile(
            r"__cu(blas|dnn|b|solver|fft)|cu(blas|dnn|solver|sparse|fft|tensor)|triton|mosaic_gpu|te_|hip|rocm|miopen|__gpu|xla\.gpu"
        ),
        GPU,
    ),
    (re.compile(r"__onednn|__ynn|__xla_cpu|xla\.cpu|eigen|lapack"), CPU),
)
_CONFIGS: Final = (
    (re.compile(rb"flag_configs|window_config|scoped_memory_configs|convolution_algorithm_config"), TPU),
    (re.compile(rb"fusion_backend_config|gemm_backend_config|cudnn|operation_queue_id|force_earliest_schedule|triton|"
                rb"reification_cost"), GPU),
    (re.compile(rb"outer_dimension_partitions|__ynn_fusion|onednn|intra_op_parallelism"), CPU),
)  # fmt: skip
_FILE: Final = re.compile(r"\.(cpu|gpu|tpu|sm_\d[\d.]*_gpu)_after_optimizations")


class Device(NamedTuple):
    """The device that a module runs on, and how much is read there at once."""

    target: Target
    evidence: str
    """The reason for the target: what in the module names it, that the caller chose it, or that nothing names one."""
    warp: int | None = None
    """How many neighbouring outputs read together; None for the target's own number."""
    segment_bytes: int | None = None
    """The bytes of a unit of memory; None for the target's own number."""

    @property
    def kind(self) -> str:
        """The kind of the device: gpu, tpu or cpu."""
        return self.target.kind

    @property
    def _threads(self) -> int:
        """The threads of a GPU that run together."""
        return _WAVEFRONT if self.target.name.startswith("mi") else _WARP

    def placed(self, shape: Shape) -> Shape:
        """The array with the layout that it has on the device. TPUs give tiles to a layout without them."""
        if not self.target.is_tpu or not (shape.is_array or shape.is_buffer) or shape.is_unbounded_dynamic:
            return shape
        return tpu_layout.default_shape(shape, self.target)

    def outputs(self, shape: Shape) -> int:
        """How many neighbouring outputs of this shape read together."""
        if self.warp is not None:
            return self.warp
        if self.target.is_tpu:
            return tile_elements(shape) or _LANES * 8
        return self._threads if self.kind == "gpu" else max(1, _VECTOR_BITS // stored_bits(shape))

    def unit_bytes(self, shape: Shape) -> int:
        """The bytes of the unit in which an operand of this shape is read."""
        if self.segment_bytes is not None:
            return self.segment_bytes
        if self.target.is_tpu:
            return max(1, (tile_elements(shape) or _LANES * 8) * stored_bits(shape) // 8)
        return _SEGMENT_BYTES if self.kind == "gpu" else _LINE_BYTES

    @property
    def unit(self) -> str:
        """The unit in words."""
        if self.kind == "tpu":
            together = f"{self.warp} outputs" if self.warp else "a tile of the output"
            return f"tiles of the operand that {together} read{'' if self.warp else 's'}"
        size = self.segment_bytes or (_SEGMENT_BYTES if self.kind == "gpu" else _LINE_BYTES)
        if self.kind == "gpu":
            return f"segments of {size} bytes that a warp of {self.warp or self._threads} outputs reads"
        together = (
            f"{self.warp} outputs read" if self.warp else f"a vector of {_VECTOR_BITS // 8} bytes of outputs reads"
        )
        return f"cache lines of {size} bytes that {together}"


def tile_elements(shape: Shape) -> int:
    """The elements of a tile of an array's layout; 0 without tiles."""
    array = shape.buffer_shape if shape.is_buffer else shape
    tiles = array.layout.tiles if array.layout is not None else ()
    return product(tiles[0].dimensions) if tiles and min(tiles[0].dimensions, default=0) > 0 else 0


def device_of(
    module: HloModule, file: str, target: Target | str | None, warp: int | None, segment_bytes: int | None
) -> Device:
    """The device of a module: the one that the caller names, else the one that fusions, layouts, custom calls, backend
    configs or the name of the file indicate, else a GPU.

    `file` is empty where the module comes from no file. `warp` and `segment_bytes` are None for those of the target.

    Raises InvalidArgumentError for a target that does not exist.
    """
    if target is not None:
        return Device(Target.of(target), "asked for", warp, segment_bytes)
    found, evidence = _named(module, file)
    return Device(found, evidence, warp, segment_bytes)


def _named(module: HloModule, file: str) -> tuple[Target, str]:
    """The device that the module or the file indicates, and by what."""
    has_fusions = False
    first: dict[Kind, HloInstruction] = {}
    for instruction in module.instructions():
        first.setdefault(instruction.kind, instruction)
    for kind, instruction in first.items():
        each = kind.message
        if kind.opcode == Opcode.FUSION:
            if each.fusion_kind == "kInput":
                return GPU, f"fusion {instruction.name} of kind kInput"
            has_fusions = True
        layout = instruction.shape.layout
        lanes = layout.tiles[0].dimensions[-1:] if layout is not None and layout.tiles else ()
        if lanes and lanes[0] > 0 and lanes[0] % _LANES == 0:
            return TPU, "layouts with tiles of 128 lanes"
        if each.backend_config:
            target = next((one for pattern, one in _CONFIGS if pattern.search(each.backend_config)), None)
            if target is not None:
                return target, f"backend_config of {instruction.name}"
        if kind.opcode == Opcode.CUSTOM_CALL:
            target = next((one for pattern, one in _CUSTOM_CALLS if pattern.match(each.custom_call_target)), None)
            if target is not None:
                return target, f"custom call {each.custom_call_target}"
    match = _FILE.search(Path(file).name) if file else None
    if match is not None:
        return (GPU if match[1].endswith("gpu") else Target.of(match[1])), "the name of the file"
    if has_fusions and module.head.HasField("schedule"):
        return CPU, "a schedule and fusions without the backend_configs of GPUs and TPUs"
    return GPU, "assumed: the module names no device"


def place_in_tile(position: object, bits: int) -> tuple[object, object]:
    """(sublane, lane) of positions in a buffer of tiles, whose elements have this many bits: arrays as NumPy has them,
    or ints.

    >>> place_in_tile(300, 32), place_in_tile(300, 16)
    ((2, 44), (1, 22))
    """
    word = position * bits // (8 * _LANE_BYTES)  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType] - of ints and arrays
    return word // _LANES % 8, word % _LANES  # pyright: ignore[reportUnknownVariableType]
