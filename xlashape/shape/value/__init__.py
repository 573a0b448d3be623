"""The values that users meet, but for element types and tiles, which are parts of them.

- `shape`: `Shape` and `Layout`, each of which can contain the other
- `program_shape`: the parameters and the result of a computation
- `shape_index`: which element of which tuple
- `equality`: when XLA counts two shapes or layouts as equal or compatible
"""
