"""The indexing analysis: which elements of its operands each element of an instruction's result is computed from, and the other way round.

Matches XLA's indexing analysis (`xla/hlo/analysis/indexing_analysis.h`).
"""

from xlashape.indexing.computations import Analysis
from xlashape.indexing.operand_indexing import Knowledge, OperandIndexing, OperandIndexingSet
from xlashape.indexing.physical import logical_to_physical, output_to_input_physical, physical_to_logical
from xlashape.indexing.queries import (
    InstructionIndexing,
    input_to_output,
    module_indexing,
    output_to_ancestor,
    output_to_ancestors,
    output_to_input,
)
from xlashape.indexing.sources import ReplicaIndexing, RuntimeVariable
from xlashape.indexing.tiles import TileBox, push_tile
from xlashape.indexing.transactions import OperandCoalescing, coalescing
from xlashape.indexing.utilisation import OperandUtilisation, operand_utilisation

__all__ = [
    "Analysis",
    "InstructionIndexing",
    "Knowledge",
    "OperandCoalescing",
    "OperandIndexing",
    "OperandIndexingSet",
    "OperandUtilisation",
    "ReplicaIndexing",
    "RuntimeVariable",
    "TileBox",
    "coalescing",
    "input_to_output",
    "logical_to_physical",
    "module_indexing",
    "operand_utilisation",
    "output_to_ancestor",
    "output_to_ancestors",
    "output_to_input",
    "output_to_input_physical",
    "physical_to_logical",
    "push_tile",
]
