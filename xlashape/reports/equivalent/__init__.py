"""Whether programs compute the same. It is called as `xs.equivalent(a, b)`, or with a directory of dumps.

- `find`: the function. `answer`: what it answers.
- `compare`: the verdict on two modules. `draws`: the inputs. `terms`: the values of instructions by what computes them.
- `ledger`: evaluated values, in which equal values are one. `outline`: large programs, evaluated in parts.
- `program`: a module with what it takes and gives. `parts`: a part of an outline, and its elements from what they need
  alone. `sampled`: some elements of the outputs, computed from the parameters.
- `partners`: the first instructions whose values the other program does not have, and constants that make a difference.
"""

from xlashape.reports.equivalent.answer import REPORT, Equivalent, PassStage
from xlashape.reports.equivalent.find import equivalent

__all__ = ["REPORT", "Equivalent", "PassStage", "equivalent"]
