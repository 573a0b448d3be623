"""Tiles pushed through maps: which box of the operand a box of output elements of any size reads.

- `digits`: the results of a map as sums of digits of its variables.
- `sums`: the size and stride of such a sum for a tile of any size, and the tile sizes for which it has them.
- `constraints`: conditions on tile sizes.
- `results`: reads the domain and the results of a map in these terms.
- `box`: tiles whose sizes are numbers.
- `stages`: maps that divide sums, as two maps one after the other.
- `symbolic_tile`: the tile itself.
"""
