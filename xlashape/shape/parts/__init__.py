"""What shapes and layouts are made of. No file of this package imports `Shape` or `Layout`.

- `primitive_type`: element types, and how floats lie in bits
- `tile`: tiles and split configs
- `target`: kinds of devices, as far as the sizes of buffers depend on them
- `fields`: the attributes of shapes and layouts as protocols, for code that cannot import the classes
- `checks`: checks of arguments of constructors and functions, and shortened texts of values for error messages
"""
