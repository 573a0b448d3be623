"""Maps of whole computations: the rules of `indexing.ops` applied to instructions, and composed along every path
through a computation.

Plain files first, the hard ones last:

- `instruction_answers`: the answer of an opcode's rule for one instruction, from the cache where an equal instruction
  has been asked about; the maps of a sort, whose comparator says which arrays decide the order; runtime variables whose
  producer is a constant or an iota.
- `asynchronous`: the maps of async-start, and of updates and ends that take further operands or add results.
- `dependencies`: which leaves depend on which, without maps.
- `coroutines`: how code asks for the maps of a called computation without recursion; how offsets within it are named
  by the arguments of the call. Read this before the files below.
- `analysis`: **hard.** `Analysis`, which answers every question; the walk through one computation; how many maps a walk
  keeps, and when it names every element instead; the stack of waiting computations.
- `repeated/`: **hardest.** While loops and scans: maps through a computation that runs again and again.
"""
