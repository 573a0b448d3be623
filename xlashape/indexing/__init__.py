"""The indexing analysis: which elements of its operands each element of an instruction's result is computed from, and the other way round.

Matches XLA's indexing analysis (`xla/hlo/analysis/indexing_analysis.h`).
"""

from xlashape.indexing.operand_indexing import (
    Knowledge,
    OperandIndexing,
    OperandIndexingSet,
    ReplicaIndexing,
    RuntimeVariable,
)
from xlashape.indexing.queries import (
    InstructionIndexing,
    input_to_output,
    module_indexing,
    output_to_ancestor,
    output_to_ancestors,
    output_to_input,
)

__all__ = [
    "InstructionIndexing",
    "Knowledge",
    "OperandIndexing",
    "OperandIndexingSet",
    "ReplicaIndexing",
    "RuntimeVariable",
    "input_to_output",
    "module_indexing",
    "output_to_ancestor",
    "output_to_ancestors",
    "output_to_input",
]
