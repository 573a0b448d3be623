"""The indexing analysis: which elements of its operands each element of an instruction's result is computed from, and
the other way round.

    maps = output_to_input(root)                   # one OperandIndexingSet for each operand
    print(maps[0].map)                             # the operand's map; SeveralMaps if it is read in several ways
    [access.map for access in maps[0]]             # the operand's maps, as a list

- Maps: `output_to_input`, `input_to_output`, `output_to_ancestor`, `output_to_ancestors`, `module_indexing`; `Analysis`
  for many questions.
- Answers: `OperandIndexingSet` of `OperandIndexing`, `SeveralMaps`, with `RuntimeVariable`, `ReplicaIndexing` and
  `Knowledge`.
- Positions in memory: `logical_to_physical`, `physical_to_logical`, `output_to_input_physical`.
- Reports: `operand_utilisation` (how much of an operand is read), `coalescing` (how far apart in memory neighbouring
  reads lie), and both together for an instruction (`operand_reads`) or a module (`module_reads`, on which
  `xlashape.reports.reads` builds).
- Tiles: the tile of an operand that a tile of the output reads (`operand_tiles`, `push_tile`, `symbolic_tile`), and the
  tiles of all instructions of a fusion (`tile_fusion`).
- Shardings as maps, and what it takes to go from one to another: `xlashape.indexing.sharding`.

The parts of this package, each built on those before: `answers` (what an answer is), `ops` (the rules of opcodes),
`walk` (maps through whole computations), `queries` (the functions for the questions), `reports` (what maps are used
for), `sharding` (which device holds what).

Differences from XLA
--------------------
The analysis matches XLA's (`xla/hlo/analysis/indexing_analysis.h`), and also answers where XLA's gives up. Where both
answer, maps are the same functions, except in the following cases. In each case running the operation confirmed the map
given here.

- convolution in XLA of jaxlib 0.10.2 and older: a window may lie in the padding. Where the padding bounds an output
  dimension alone (a window of one element, or a stride that leaves whole windows in the padding), that XLA's map of the
  input lacks the bound: it leads to elements that do not exist, or once simplified to wrong elements. The map here has
  the bound, as that of jaxlib 0.12.0.1.
- convolution with a reversed window in XLA of jaxlib 0.10.2 and older: the range variables of the two operands' maps do
  not pair the elements that are multiplied. Here they do, as in jaxlib 0.12.0.1.
- convolution with batch groups: XLA's map of the input names all groups; the map here names the group that the output
  feature belongs to.
- clamp, select: XLA's map from a scalar operand to the result is the identity of the result, though a scalar has no
  dimensions. The map here leads to every element of the result.
- bitcast-convert to another width: XLA's map is the identity although the ranks differ. The map here drops the last
  dimension, or names all of it.
- gather with operand_batching_dims: XLA's map of the operand leaves them out and takes the first dimensions of the
  output for offsets. The map here leads to the operand's batch of the same index.
- scan: XLA's map from element i of an output leads to element i of the scanned array alone. The map here leads to all
  elements up to i, where the carried value depends on them.
- dimensions without a bound: where a map depends on their size (reversed, padded at the end, an array behind them in a
  concatenation), XLA takes the largest int64 for it. The answer here is `Knowledge.UNKNOWN`. XLA's maps of a reshape
  or bitcast with such a dimension lead to index 0 or to wrong elements; the maps here hold for every size, if the
  dimension stays as it is or is the first.
- bitcast of tiled layouts: XLA uses the order of dimensions alone; the map here uses positions in memory.
- compositions of two accesses with runtime variables: XLA lists the producers in another order than the variables, and
  loses the producers that another producer depends on. Here they are all listed, in the order of the variables.
- fusion with one instruction as several operands: XLA gives each of these operands the maps of all. Here each has the
  maps of its own parameter, and an operand beyond the parameters is not read.
- constant offsets beyond their bounds, and constant arrays of equally spaced values, are replaced by their values here,
  clamped as the operation clamps them.

Limits of what a map says
-------------------------
- An offset is named by the instruction that computes it. In a computation that is called from several places, one
  instruction computes several values. Reads at such offsets count as one access, though the values may differ. Offsets
  that are arguments of the call are different accesses.
- In a branch of a conditional or a called computation, an array that is reached in more than 32 ways (in more than one,
  where so many paths lead through the computation that following them takes too long) is named in every element, and
  the access is marked `Knowledge.EVERY_ELEMENT`. Fusions are followed exactly, up to 1,024 ways; a fusion in a branch
  or called computation that has more ways is followed like a called computation.
- Where values decide what is read (the order of a sort, the sizes of groups, how often a loop runs and at which offsets
  it reads), maps name every element that is read for some values.
- The maps of a while loop or scan follow the maps of its computation from iteration to iteration until they repeat.
  Where iterations read or write at offsets that follow from a counter, the number of the iteration is a variable of the
  map. Where offsets follow from something else, or from a counter by more than sums, comparisons and choices, or the
  question is about an operand, the maps name what is read at any offset. Where maps do not repeat within a bound, or
  the computation is very large, the answer names every element of each array that the result depends on. In both cases
  the access is marked EVERY_ELEMENT.
- The map of a dynamic-update-slice's update leads outside the update where the result does not come from it, as in XLA.
  It is marked EVERY_ELEMENT. Maps that lead on from there name no such place.
- Range variables name sets of elements, as in XLA. From the output to the kernel of a convolution, kernel elements that
  are multiplied with padding only are named too; from the kernel to the output they are not.
"""

from xlashape.indexing.answers.operand_indexing import (
    Knowledge,
    OperandIndexing,
    OperandIndexingSet,
    ReplicaIndexing,
    RuntimeVariable,
    SeveralMaps,
)
from xlashape.indexing.queries import (
    InstructionIndexing,
    input_to_output,
    module_indexing,
    output_to_ancestor,
    output_to_ancestors,
    output_to_input,
)
from xlashape.indexing.reports.coalescing import OperandCoalescing, coalescing
from xlashape.indexing.reports.fusion_tiles import FusionTiling, InstructionTile, PlacedTile, TileParameter, tile_fusion
from xlashape.indexing.reports.physical import logical_to_physical, output_to_input_physical, physical_to_logical
from xlashape.indexing.reports.reads import InstructionReads, OperandReads, OutputReads, module_reads, operand_reads
from xlashape.indexing.reports.tiles import OperandTile, operand_tiles, push_tile
from xlashape.indexing.reports.utilisation import OperandUtilisation, operand_utilisation
from xlashape.indexing.walk.analysis import Analysis
from xlashape.symbolic import SymbolicTile, TileBox, symbolic_tile

__all__ = [
    "Analysis", "FusionTiling", "InstructionIndexing", "InstructionReads", "InstructionTile", "Knowledge",
    "OperandCoalescing", "OperandIndexing", "OperandIndexingSet", "OperandReads", "OperandTile", "OperandUtilisation",
    "OutputReads", "PlacedTile", "ReplicaIndexing", "RuntimeVariable", "SeveralMaps", "SymbolicTile", "TileBox",
    "TileParameter", "coalescing", "input_to_output", "logical_to_physical", "module_indexing", "module_reads",
    "operand_reads", "operand_tiles", "operand_utilisation", "output_to_ancestor", "output_to_ancestors",
    "output_to_input", "output_to_input_physical", "physical_to_logical", "push_tile", "symbolic_tile", "tile_fusion",
]  # fmt: skip
