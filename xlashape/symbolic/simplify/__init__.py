"""The simplifier: rewrites an expression over bounded variables into an equal one, in the form in which XLA writes it.

- `rules`: the laws by which expressions are rewritten, one function each.
- `simplifier`: walks over an expression and applies the laws that need no bounds, and those that use the bounds of
  variables.
- `constrained`: a simplifier that also uses the constraints of a domain.
- `domain`: simplifies a domain, and the results of a map under it.
"""
