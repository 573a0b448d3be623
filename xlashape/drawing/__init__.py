"""Pictures: layouts, before and after a change too; what operations read; the memory and the time of programs.

>>> import xlashape as xs
>>> xs.draw("bf16[20,300]{1,0:T(8,128)(2,1)}")
<Picture of bf16[20,300]{1,0:T(8,128)(2,1)}>

A cell is a place of an array that a picture shows: an element, or padding.

- `geometry`: the coordinates of cells, the windows and tiles that are shown, and positions in memory.
- `marks`: the scene of a picture, which is its content in no format yet: cells with labels and fills (numbers of
  colours), in grids, strips and lists.
- `writers`: scenes as SVG, HTML, PNG and text.
- `memory_map`: the memory of a program over time. `profile_bars`: the time of its instructions. `layers`: its layers.
- `draw`: the function for all subjects. `picture`: the `Picture` that it returns. `notebook`: the HTML of the library's
  objects in notebooks.
"""

from __future__ import annotations

from xlashape.drawing.draw import draw
from xlashape.drawing.picture import Picture

__all__ = ["Picture", "draw"]
