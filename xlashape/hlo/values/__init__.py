"""hlo/values."""
