"""Runs small HLO computations with NumPy, so that tests can compare indexing maps with what operations do. It shares no
code with the library's analysis.

Arrays are NumPy arrays of the element type's dtype, and tuples are Python tuples. A token is a number that depends on
the values of all operations before it. Each family of operations has a file; the decorator `interprets` registers the
function that runs an opcode.
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
