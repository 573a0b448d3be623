"""Whether a module follows XLA's rules.

- `module_verifier`: `check`, `verify` and `Problem`; the rules of single instructions and of computations.
- `module_rules`: rules that several instructions keep together, and rules of shardings and origins.
- `async_rules`: rules of asynchronous operations and transfers.
- `buffer_rules`: rules of buffers.
"""

from xlashape.hlo.verifier.module_rules import Problem
from xlashape.hlo.verifier.module_verifier import check, verify

__all__ = ["Problem", "check", "verify"]
