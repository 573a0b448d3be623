"""Scenes (the content of pictures, `marks/cells.py`) as files and on the terminal.

- `panels`: the parts of a scene, which are grids, strips and lists, as SVG; the colours of pages, in light and dark,
  as a style sheet.
- `svg`: a scene as an SVG document, or as a PNG image.
- `html`: a scene as a page that shows index and position under the pointer.
- `memory_page`: a program's memory as a page that zooms and searches. It is made from a report, without a scene.
- `terminal`: a scene as text, with or without colours.
"""
