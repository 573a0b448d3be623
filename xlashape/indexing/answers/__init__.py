"""The answers of the analysis as values, made of instructions and maps. How an answer is found is in `walk`.

- `operand_indexing`: the ways in which an array is accessed. Each is a map, with the instructions that produce its
  runtime variables, and the replicas that hold the elements.
- `leaves`: the arrays within a shape, by the numbers that answers give them; and the numbers that a constant holds.
"""
