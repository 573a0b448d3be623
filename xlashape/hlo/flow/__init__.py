"""Which array of a program is which, who uses it, and which arrays share memory. The rows of the opcodes
(`Operation.source`, `same`, `repeated_operand`, `in_place`) and the aliases that a module declares say it; this package
follows them through instructions and computations.

An array is a `Value`: an instruction, and the index of the array in the result. Tuples, their elements, bitcasts,
barriers, parameters, calls and the ends of asynchronous operations hand arrays on. `handed_on_from` goes back one step,
`Flow.definition` goes back to the instruction that makes the array, and `Flow.uses` goes forward to the instructions
that use it. A loop merges the initial state and what its body returns, a conditional what its branches return: the
result is an array of its own, unless a body returns an element of the state unchanged. `Flow.memory` goes on where
different arrays share memory by declaration, and `in_place` says which results are computed in the memory of operands.

- `steps`: one step within a computation, and the results that are in the memory of operands.
- `walk`: `Flow`, which follows values through a whole module.
- `buffers`: which results are buffers in memory of their own, and which outputs take over the memory of parameters.

`tests/unit/hlo/test_flow_like_xla.py` compares it with XLA's own buffer assignments.
"""

from xlashape.hlo.flow.buffers import (
    Buffers,
    DonatedBuffer,
    InstructionBuffer,
    ModuleBuffers,
    donated_buffers,
    joins_parts,
    module_buffers,
)
from xlashape.hlo.flow.steps import (
    Index,
    Overwrite,
    Value,
    behind_bitcasts,
    handed_on_from,
    handed_on_to,
    in_place,
    replaces_a_part,
)
from xlashape.hlo.flow.walk import MOST_USES, Flow, Role, ValueUse, executed_computations

__all__ = [
    "MOST_USES", "Buffers", "DonatedBuffer", "Flow", "Index", "InstructionBuffer", "ModuleBuffers", "Overwrite", "Role",
    "Value", "ValueUse", "behind_bitcasts", "donated_buffers", "executed_computations", "handed_on_from",
    "handed_on_to", "in_place", "joins_parts", "module_buffers", "replaces_a_part",
]  # fmt: skip
