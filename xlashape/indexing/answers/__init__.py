"""The answers of the analysis as values. They know instructions and maps, and nothing of how an answer is found.

- `operand_indexing`: the ways in which an array is accessed. Each is a map, with the instructions that produce its
  runtime variables, and the replicas that hold the elements.
- `leaves`: the arrays within a shape, by the numbers that answers give them; and the numbers that a constant holds.
"""
