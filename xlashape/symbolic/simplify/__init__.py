"""The simplifier: the same function of bounded variables, written as XLA writes it.

- `rules`: the laws, one function each.
- `simplifier`: the walk over an expression; simplifies by the laws that need no bounds, and by the bounds of variables.
- `constrained`: simplifies by the constraints of a domain as well.
- `domain`: simplifies a domain itself, and the domain and the results of a map.
"""
