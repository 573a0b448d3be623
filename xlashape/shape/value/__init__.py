"""shape/value."""
