"""hlo/text."""
