"""Whether programs compute the same. It is called as `xs.equivalent(a, b)`, or with a directory of dumps.

- `find`: the function. `answer`: what it answers.
- `compare`: the verdict on two modules. `ledger`: their values, in which equal values are one. `draws`: the inputs.
"""

from xlashape.reports.equivalent.answer import Equivalent, PassStage
from xlashape.reports.equivalent.find import equivalent

__all__ = ["Equivalent", "PassStage", "equivalent"]
