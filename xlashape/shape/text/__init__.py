"""The text of shapes and layouts, read and written. The classes to make are arguments, so nothing here imports them.

- `layout`: the part between braces
- `shape`: arrays, tuples and buffers
"""
