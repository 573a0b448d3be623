"""The scene of a picture, which is its content independent of a format: cells with labels and fills, grids, strips of
memory, lists.

- `colours`: the fills, which are numbers of colours.
- `cells`: the marks themselves, the options of `draw`, and cells of arrays: labels, fills, hover text.
- `arrays`: the scene of an array, of one in two layouts, and of the arrays of a tuple; `panels`: the parts of a scene.
- `reads`: the scene of the elements that an output reads. `shardings`: that of the blocks of an array on devices.
"""
