"""hlo/text/reader."""
