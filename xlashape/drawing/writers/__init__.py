"""Scenes as files and on the terminal.

- `style`: the colours of pages, in light and dark, as a style sheet.
- `panels`: grids, strips and lists as SVG.
- `svg`: a scene as an SVG document.
- `html`: a scene as a page that shows index and position under the pointer.
- `memory_page`: a program's memory as a page that zooms and searches.
- `png`: a scene as an image.
- `terminal`: a scene as text, with or without colours.
"""
