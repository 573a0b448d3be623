"""The answers of the analysis as values. They know instructions and maps, and nothing of how an answer is found.

- `operand_indexing`: one way in which an array is accessed.
- `operand_indexing_set`: all ways in which an array is accessed.
- `runtime_variable`: the instruction that produces the value of a runtime variable.
- `replica_indexing`: the replicas that hold the elements of an access across replicas.
- `leaves`: the arrays within a shape, which the answers count depth first, and their sizes.
- `constant_values`: the numbers that a constant instruction holds.
- `weights`: estimates of how many bytes answers hold, for caches.
"""
