"""Tiles pushed through maps: which box of the operand a box of output elements of any size reads.

- `digits`: the results of a map as sums of digits of its variables; the size and stride of such a sum for a tile of any
  size; maps that divide sums.
- `constraints`: conditions on tile sizes.
- `results`: reads the domain and the results of a map in these terms.
- `symbolic_tile`: the tile itself, and tiles whose sizes are numbers.
"""
