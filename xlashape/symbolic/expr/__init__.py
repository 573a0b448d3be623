"""Expressions over bounded integer variables, without anything that belongs to a whole map.

- `expression`: the classes of nodes, XLA's order of terms, and the table that makes equal expressions the same object.
- `folding`: builds expressions with constants folded; Python's operators use it.
- `ranges`: closed integer intervals; the least and greatest value of an expression.
- `substitute`: replaces variables and lists those that expressions use.
- `text`: writes and reads expressions.
- `evaluate`: evaluates expressions at one point and, with NumPy, at many.
"""
