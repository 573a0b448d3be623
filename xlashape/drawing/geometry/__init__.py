"""The geometry of pictures: coordinates of cells, without colours or text.

- `axes`: an array as its first tile sees it, the two axes that are shown, and the position of any cell, padding included.
- `windows`: which coordinates of a long axis are shown.
- `grids`: the cells of a window, and the tiles of an array.
- `memory`: the positions of a buffer, in rows of whole words.
- `reading`: the elements that part of an output reads.
"""
