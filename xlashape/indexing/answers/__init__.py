"""The answers of the analysis as values. They know instructions and maps, and nothing of how an answer is found.

- `operand_indexing`: one way in which an array is accessed; which instruction produces the value of a runtime variable;
  which replicas hold the elements of an access across replicas; all ways in which an array is accessed.
- `leaves`: the arrays within a shape, which the answers count depth first, and their sizes; how many bytes a map holds;
  the numbers that a constant instruction holds.
"""
