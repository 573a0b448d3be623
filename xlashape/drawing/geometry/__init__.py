"""The geometry of pictures: coordinates of cells, without colours or text.

- `axes`: an array as its first tile sees it, the two axes that are shown, and the position of any cell, padding
  included; the positions of a buffer, in rows of whole words.
- `grids`: which coordinates of a long axis are shown; their cells, and the tiles of an array.
- `reading`: the elements that part of an output reads.
"""
