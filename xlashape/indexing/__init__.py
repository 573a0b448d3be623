"""The indexing analysis: which elements of its operands each element of an instruction's result is computed from, and the other way round.

    maps = output_to_input(root)          one OperandIndexingSet an operand
    maps[0].map, maps[0].runtime          of an operand that is read in one way
    [one.map for one in maps[0]]          of any

Matches XLA's indexing analysis (`xla/hlo/analysis/indexing_analysis.h`), and answers where that gives up. Where both answer, they are the same
functions but for these, judged by running the operations:

- convolution: XLA's map of the input forgets that a window may lie in the padding, wherever that bounds an output dimension alone (a window of
  one element, or a stride that leaves whole windows outside), and then leads to elements that are not there, or once simplified to others that
  are. Ours end at the input.
- convolution with batch groups: XLA's map of the input names every group, ours the one that the output feature belongs to.
- clamp, select: from a scalar operand XLA leads back by the identity of the result, though a scalar has no dimensions. Ours leads to every element.
- bitcast-convert to another width: XLA's is the identity although the ranks differ. Ours drops or takes in the last dimension.
- bitcast of tiled layouts: XLA looks at the order of dimensions alone, ours at the places in memory.
- compositions of two accesses with runtime variables: XLA lists the producers in another order than the variables, and loses those that a producer
  depends on itself. Ours stand in order.
- offsets that are constants beyond their bounds, and constant arrays of equally spaced values: ours are folded, clamped as the operation does it.

An offset is known by the instruction that computes it. Within a computation that is called from several places that is one instruction with
several values: what calls read at such offsets counts as one access, though they may differ; offsets that are handed in are told apart.

Where values decide what is read (the order of a sort, the sizes of groups, how often a loop runs and at which offsets it reads), maps name what
some values lead to. A while loop and a scan have the maps of their computations, followed from step to step until they repeat; where they do not
within a bound, or what is called is very large, every element is named of those arrays that matter at all, and marked.

As in XLA, the map of a dynamic-update-slice's update leads outside of the update where nothing of it is read, and range variables name sets: those
of a convolution's two operands do not pair what is multiplied if the window is reversed. From the output to the kernel of a convolution, elements
that meet nothing but padding are named too; from the kernel to the output they are not.
"""

from xlashape.indexing.answers.operand_indexing import Knowledge, OperandIndexing, OperandIndexingSet
from xlashape.indexing.answers.sources import ReplicaIndexing, RuntimeVariable
from xlashape.indexing.queries import (
    InstructionIndexing,
    input_to_output,
    module_indexing,
    output_to_ancestor,
    output_to_ancestors,
    output_to_input,
)
from xlashape.indexing.reports.operand_tiles import OperandTile, operand_tiles
from xlashape.indexing.reports.physical import logical_to_physical, output_to_input_physical, physical_to_logical
from xlashape.indexing.reports.reads import InstructionReads, OperandReads, module_reads, operand_reads
from xlashape.indexing.reports.tiles import SymbolicTile, TileBox, push_tile, symbolic_tile
from xlashape.indexing.reports.transactions import OperandCoalescing, coalescing
from xlashape.indexing.reports.utilisation import OperandUtilisation, operand_utilisation
from xlashape.indexing.walk.computations import Analysis

__all__ = [
    "Analysis",
    "InstructionIndexing",
    "InstructionReads",
    "Knowledge",
    "OperandCoalescing",
    "OperandIndexing",
    "OperandIndexingSet",
    "OperandReads",
    "OperandTile",
    "OperandUtilisation",
    "ReplicaIndexing",
    "RuntimeVariable",
    "SymbolicTile",
    "TileBox",
    "coalescing",
    "input_to_output",
    "logical_to_physical",
    "module_indexing",
    "module_reads",
    "operand_reads",
    "operand_tiles",
    "operand_utilisation",
    "output_to_ancestor",
    "output_to_ancestors",
    "output_to_input",
    "output_to_input_physical",
    "physical_to_logical",
    "push_tile",
    "symbolic_tile",
]
