"""The shapes and layouts that users work with. The element types and tiles of which they are made are in `parts`.

- `shape`: `Shape` and `Layout`, each of which can contain the other; when two of them are equal or compatible to XLA
- `program_shape`: the shapes of the parameters and the result of a computation
- `shape_index`: the path to a shape inside nested tuples
"""
