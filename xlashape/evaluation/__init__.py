"""The value of every instruction. What floats are is a parameter: NumPy's numbers, or elements of a finite field.

- `machine`: runs computations, on all devices in step. `run_module`: whole modules, with flat lists of arrays.
- `domains`: what floats are. `integers`: integers and predicates, which are the same in all domains.
- `elementwise`, `movement`, `indexed`, `reduction`, `sorting`, `contraction`, `linear_algebra`, `control`,
  `collective`, `random_numbers`, `custom_calls`: a function for each opcode, written once over the operations of a
  domain.
- `regions`: what the computation of a reduction does. `partial`: some elements of a value, from what they read alone.
"""

from xlashape.evaluation import (
    collective,
    contraction,
    control,
    custom_calls,
    elementwise,
    indexed,
    linear_algebra,
    movement,
    random_numbers,
    reduction,
    sorting,
)
from xlashape.evaluation.run_module import evaluate

__all__ = [
    "collective", "contraction", "control", "custom_calls", "elementwise", "evaluate", "indexed", "linear_algebra",
    "movement", "random_numbers", "reduction", "sorting",
]  # fmt: skip
