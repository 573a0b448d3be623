"""What shapes and layouts are made of. Nothing here knows either of them.

- `primitive_type`: element types
- `tile`: tiles and split configs
- `target`: kinds of devices, as far as the sizes of buffers depend on them
- `fields`: the attributes of shapes and layouts, for code that only reads them
- `checks`: checks of what constructors and functions are given
- `constructor_checks`: those of `Shape` and `Layout` alone
- `weights`: how many bytes shapes take, for the bounds of caches
- `error_text`: values and shapes as error messages show them
"""
