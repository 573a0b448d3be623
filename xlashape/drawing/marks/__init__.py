"""The content of a picture, independent of its format: cells with labels and fills, grids, strips of memory, lists.

- `scene`: the marks themselves.
- `colours`: the fills, their colours, and the text that can be read on them.
- `options`: the options of `draw`.
- `cells`: cells of arrays: labels, fills, hover text.
- `arrays`: the scene of an array; `panels`: its parts.
- `relayout`: an array in two layouts; `tuples`: the arrays of a tuple; `reads`: what an output reads.
"""
