"""`why`: explains the memory of shapes, instructions, modules and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xlashape.base.whole_file import file_exists
from xlashape.errors import ParseError
from xlashape.hlo.module_proto.shown_frames import showing_frames
from xlashape.reports.why.shapes import shape_memory
from xlashape.shape import Shape, Target

if TYPE_CHECKING:
    from xlashape.reports.why.inputs import Memory

_MOST_NAME: Final = 4_096
"""The most characters of text that may be the name of a file."""


def why(
    x: Any,
    *args: Any,
    target: Target | str | None = None,
    instruction: str = "",
    frames: str | None = None,
    strict: bool = False,
    **kwargs: Any,
) -> Memory:
    """Why the buffers of `x` are as large as they are, and what would make them smaller.

    `x` is one of

    - a Shape, its text, or anything that `Shape.of` takes: arrays of NumPy and JAX, `(dtype, dimensions)`, …
    - an HloInstruction
    - an HloModule, its text or bytes, or anything that `HloModule.of` takes: a Lowered or Compiled of JAX, a path,
      `FILE#NAME`, …; a jitted function is lowered with the arguments that follow
    - the `memory_analysis()` of a Compiled of JAX
    - text that contains shapes, such as the report of a compiler that has run out of memory, or the path of a file with
      such text

    `target`: "cpu", "gpu", "tpu", "tpu-v5e" or another name in `xlashape.shape.parts.target.TARGETS`. It decides how
    sizes are counted, and a TPU gives layouts without tiles its own order and tiles. Without a target, sizes are those
    of the layouts.
    `instruction`: of a module, the name of the instruction to explain.
    `frames`: with "all", `source` names every frame that called an operation, and not the line of the user's own code
    alone.
    `strict`: refuse text with lines of HLO that is no module as it stands (`xlashape.hlo.files.forgiving`).

    Raises ParseError for text without a shape, an allocation or a module, NotFoundError for the path of a missing file
    and for an instruction that does not exist, InvalidArgumentError for a target that does not exist, and the errors
    that `Shape.of`, `HloModule.of` and `tiling.physical_bytes` raise.

    >>> print(why("f32[3,5]{1,0:T(2,2)}").causes[0])
    tile (2,2) pads dimension 0 from 3 to 4: 33.3% more (+20 bytes)
    >>> why("bf16[1000,3]", target="tpu").shape, why("bf16[1000,3]{1,0:T(8,128)(2,1)}").factor
    (Shape('bf16[1000,3]{0,1:T(4,128)(2,1)}'), 42.666666666666664)
    """
    device = None if target is None else Target.of(target)
    with showing_frames(frames):
        shape = None if instruction or args or kwargs else _shape(x)
        if shape is not None:
            return shape_memory(shape, device)
        # Start-up time: modules take longer to load than a question about a shape to answer.
        from xlashape.reports.why.inputs import explained

        return explained(x, args, kwargs, device, instruction, strict=strict)


def _shape(x: Any) -> Shape | None:
    """`x` if it is a shape, or the shape whose text it is; None for anything else."""
    if isinstance(x, Shape):
        return x
    if not isinstance(x, str) or "\n" in x or len(x) >= _MOST_NAME or file_exists(x.split("#", 1)[0]):
        return None
    try:
        return Shape.parse(x.strip())
    except ParseError:  # other content has errors of its own
        return None
