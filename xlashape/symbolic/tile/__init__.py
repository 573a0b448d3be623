"""Symbolic tiles: which box of the operand an output tile of any size reads, according to an indexing map.

- `digits`: sums of digits of a map's variables; the size and stride of such a sum for a tile of any size; maps that
  divide sums.
- `constraints`: conditions on tile sizes.
- `results`: writes the results of a map as sums of digits, and its domain as limits of these sums.
- `symbolic_tile`: symbolic tiles, and the boxes that tiles with numbers as sizes read.
"""
