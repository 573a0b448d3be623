"""What can be computed about whole modules.

- `buffers`: which results are buffers in memory of their own, and which outputs take over the memory of parameters.
"""
