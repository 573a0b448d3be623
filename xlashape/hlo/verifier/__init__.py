"""The verifier: checks whether a module follows XLA's rules.

- `module_verifier`: `check` and `verify`, and the rules for computations, the entry and the schedule.
- `instruction_rules`: the rules for single instructions.
- `module_rules`: `Problem`, rules that involve several instructions, and rules for shardings and origins.
- `async_rules`: rules of asynchronous operations and transfers.
- `buffer_rules`: rules of buffers.
"""

from xlashape.hlo.verifier.module_rules import Problem
from xlashape.hlo.verifier.module_verifier import check, verify

__all__ = ["Problem", "check", "verify"]
