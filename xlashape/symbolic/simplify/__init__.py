"""The simplifier: the same function of bounded variables, written as XLA writes it.

- `rules`: the laws, one function each.
- `canonicalizer`: the walk over an expression, and the laws that need no bounds.
- `simplifier`: simplifies by the bounds of variables.
- `constrained`: simplifies by the constraints of a domain as well.
- `domain`: simplifies a domain itself, and the domain and the results of a map.
"""
