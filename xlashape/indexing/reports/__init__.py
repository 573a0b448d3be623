"""indexing/reports."""
