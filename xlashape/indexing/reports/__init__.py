"""Uses of maps: how instructions read memory, and what their tiles read.

- `physical`: maps between positions of buffers, and a layout as a map.
- `tiles`: a tile pushed through a map; the tile of each operand that a tile of an output reads.
- `fusion_tiles`: the tile of every instruction of a fusion, for sizes that are chosen later.
- `counting`: how many points a map has and how many elements it reaches.
- `utilisation`: how much of an operand is read, and how often.
- `coalescing`: how far apart in memory the elements lie that neighbouring outputs read, and how many segments of memory
  these reads touch.
- `reads`: utilisation and coalescing of every operand, for one instruction or for all that a module executes.
"""
