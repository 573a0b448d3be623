"""hlo/text/writer."""
