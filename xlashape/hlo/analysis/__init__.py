"""Analyses of whole modules.

- `buffers`: which results are buffers in memory of their own, and which outputs take over the memory of parameters.
- `graph`: the instructions near an instruction, and the instructions on the paths between two.
- `text_lines`: the text as numbered lines, and the lines that define instructions and computations.
"""
