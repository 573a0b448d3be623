"""What can be computed about whole modules.

- `buffers`: which results are buffers in memory of their own, and which outputs take over the memory of parameters.
- `graph`: the instructions around one, and those on the ways between two.
- `text_lines`: the text as numbered lines, and where things are defined.
"""
