"""indexing/answers."""
