"""The rules of the simplifier: one function each, in one file for each operator that they rewrite. The list `RULES` of
a file gives the order in which its rules are tried.

- `rule`: linear forms, Σ coefficient × atom + constant, which rules rewrite; what a rule is, and how its law and
  examples are stated.
- `sum`: the rules for sums, products, minima and maxima.
- `floordiv`, `mod`: the rules for floor division and for mod.
"""
