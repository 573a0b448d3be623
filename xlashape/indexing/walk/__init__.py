"""indexing/walk."""
