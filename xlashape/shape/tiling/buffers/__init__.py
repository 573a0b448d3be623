"""shape/tiling/buffers."""
