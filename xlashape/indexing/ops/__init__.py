"""The rules: for an opcode and a direction, a pure function from shapes and attributes to maps. Importing this package
registers them all in `OUTPUT_TO_INPUT` and `INPUT_TO_OUTPUT`. Opcodes whose maps come from the computations that they
call are in `CALLS` instead, opcodes without maps in `UNKNOWN`.

What rules are made of:

- `op`: what a rule takes and returns, and checks of operands and attributes. `register`: the decorators that register
  rules, and keys for caching answers. `rows`: maps made from sizes, and rows that many operations share.
- `windows`: the arithmetic of one dimension of a window.

The rules, in a file for each family of operations:

- `elementwise`, `movement` (broadcast, transpose, …), `slicing` (and gather, scatter), `reshape` (and bitcast),
  `reduction` (and windows, sort, batch norm).
- `contraction` (dot, convolution), `linear_algebra`.
- `collective`: operations across replicas. `control`: tuples, barriers, tokens, asynchronous pairs, calls, custom
  calls.
"""

from xlashape.indexing.ops import (
    collective,
    contraction,
    control,
    elementwise,
    linear_algebra,
    movement,
    reduction,
    reshape,
    slicing,
)
from xlashape.indexing.ops.register import CALLS, INPUT_TO_OUTPUT, OUTPUT_TO_INPUT, UNKNOWN, WITHOUT_BOUNDS

__all__ = [
    "CALLS", "INPUT_TO_OUTPUT", "OUTPUT_TO_INPUT", "UNKNOWN", "WITHOUT_BOUNDS", "collective", "contraction", "control",
    "elementwise", "linear_algebra", "movement", "reduction", "reshape", "slicing",
]  # fmt: skip
