"""Runs small HLO computations with NumPy, so that maps can be judged by what the operations do. Shares no code with the
library's analysis.

Arrays are NumPy arrays of the element type's dtype, tuples are Python tuples, a token is a number that stands for all
that came before it. A family of operations a file; `interprets` registers what runs an opcode.
"""

from numpy_interpreter import contraction, control, elementwise, indexed, linear_algebra, movement, reduction
from numpy_interpreter.core import INTERPRETERS, dtype_of, interprets, leaves, result, run

__all__ = [
    "INTERPRETERS",
    "contraction",
    "control",
    "dtype_of",
    "elementwise",
    "indexed",
    "interprets",
    "leaves",
    "linear_algebra",
    "movement",
    "reduction",
    "result",
    "run",
]
