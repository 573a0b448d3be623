"""The simplifier's rules: one function each, in one file for each operator that they rewrite. They are tried in the order of the lists.

- `rule`: what a rule is, and how its law and examples are stated.
- `sum`, `product`, `floordiv`, `mod`, `minmax`: the rules.
"""
