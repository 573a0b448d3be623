"""hlo/ops."""
