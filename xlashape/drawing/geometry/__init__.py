"""The geometry of pictures: coordinates of cells, without colours or text. A cell is an element of an array or padding.

- `axes`: an array with the axes that the first tile of its layout cuts, the two of them that are shown, and the
  position of any cell; the positions of a buffer, in rows of whole words.
- `grids`: which coordinates of a long axis are shown; their cells, and the tiles of an array.
- `reading`: the elements that part of an output reads.
"""
