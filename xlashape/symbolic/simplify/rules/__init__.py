"""The simplifier's rules: one function each, in one file for each operator that they rewrite. They are tried in the
order of the lists.

- `rule`: Σ coefficient × atom + constant, the form that rules rewrite; what a rule is, and how its law and examples are
  stated.
- `sum` (and products, minima and maxima), `floordiv`, `mod`: the rules.
"""
