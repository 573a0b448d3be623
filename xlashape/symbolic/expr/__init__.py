"""Expressions over bounded integer variables, without anything that belongs to a whole map.

- `interning`: the table that makes equal expressions the same object.
- `expression`: the classes of nodes, and XLA's order of terms.
- `folding`: builds expressions with constants folded; Python's operators use it.
- `interval`: closed integer intervals.
- `ranges`: the least and greatest value of an expression.
- `substitute`: replaces variables and lists those that expressions use.
- `text`: writes and reads expressions.
- `evaluate`: evaluates expressions at one point and, with NumPy, at many.
"""
