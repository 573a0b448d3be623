"""Expressions over bounded integer variables, without anything that belongs to a whole map.

- `expression`: the classes of nodes; building expressions with constants folded, which Python's operators do; replacing
  variables and listing those that expressions use; XLA's order of terms.
- `interning`: the table that makes equal expressions the same object.
- `ranges`: closed integer intervals; the least and greatest value of an expression.
- `text`: writes and reads expressions.
- `evaluate`: evaluates expressions at one point and, with NumPy, at many.
"""
