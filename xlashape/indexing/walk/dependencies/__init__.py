"""Which leaves of a computation depend on which, without maps: quick, for computations of any size.

- `origins`: the leaf that a leaf is a copy of, through tuples and copies.
- `leaf_graph`: reachability in a graph whose nodes are leaves, with sets of leaves as the bits of an int.
- `instruction_order`: the instructions of a computation, operands before their users.
- `leaf_dependencies`: the leaves of its parameters that each leaf of a computation's result depends on.
"""
