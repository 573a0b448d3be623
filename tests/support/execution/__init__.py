"""Compares indexing maps with what running random operations shows.

A case is a random operation on parameters. Changing one element of a parameter shows which elements of the result
depend on it, and the maps must name the same pairs. `case` has the class of cases and the table of families of cases,
`families` the families. `predicted` turns maps into matrices of truth values. `judge` runs cases with NumPy and
compares; `by_xla` and `xla_process` run cases with XLA. `replicas` does the same for collectives.
"""
