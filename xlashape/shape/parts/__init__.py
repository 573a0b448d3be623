"""What shapes and layouts are made of. Nothing here knows either of them.

- `primitive_type`: element types, and how floats lie in bits
- `tile`: tiles and split configs
- `target`: kinds of devices, as far as the sizes of buffers depend on them
- `fields`: the attributes of shapes and layouts, for code that cannot import the classes
- `checks`: checks of what constructors and functions are given, and how error messages show it
"""
