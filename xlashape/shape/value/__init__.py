"""The values that users work with. Element types and tiles, which they contain, are in `parts`.

- `shape`: `Shape` and `Layout`, each of which can contain the other; when XLA counts two as equal or compatible
- `program_shape`: the parameters and the result of a computation
- `shape_index`: which element of which tuple
"""
