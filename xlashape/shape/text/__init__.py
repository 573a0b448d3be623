"""shape/text."""
