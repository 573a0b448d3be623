"""Analyses of whole modules.

- `graph`: the instructions near an instruction, and the instructions on the paths between two.
- `text_lines`: the text as numbered lines, and the lines that define instructions and computations.
"""
