"""XLA's utilities for shapes, under XLA's names in snake_case. Public as `xlashape.shape.shape_util` and so on.

- `shape_util`, `layout_util`, `index_util`: the functions of XLA's ShapeUtil, LayoutUtil and IndexUtil.
- `primitive_util`: which values floating-point types can hold, and which conversions keep every value.
"""
