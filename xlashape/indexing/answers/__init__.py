"""The answers of the indexing analysis, as values made of instructions and maps. `xlashape.indexing.walk` finds them.

- `operand_indexing`: the ways in which an array is accessed. Each is a map, with the instructions that produce its
  runtime variables, and the replicas that hold the elements.
- `leaves`: the arrays within a shape, which answers name by their number; and the integers that a constant holds.
"""
