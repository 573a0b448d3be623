"""Pictures of layouts, of what operations read, and of layouts that change.

>>> import xlashape as xs
>>> xs.draw("bf16[20,300]{1,0:T(8,128)(2,1)}")
<Picture of bf16[20,300]{1,0:T(8,128)(2,1)}>

- `geometry`: where cells lie: axes, windows, tiles, memory.
- `marks`: the content of a picture: cells with labels and fills, in grids, strips and lists.
- `writers`: SVG, HTML, PNG, text.
- `memory_map`: the memory of a program over time. `profile_bars`: the time of its instructions.
- `picture`: the result of `draw`. `draw`: the function for all subjects. `notebook`: the HTML of the library's objects
  in notebooks.
"""

from __future__ import annotations

from xlashape.drawing.draw import draw
from xlashape.drawing.picture import Picture

__all__ = ["Picture", "draw"]
