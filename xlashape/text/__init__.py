"""Source text with line and column, and a cursor over it. No grammar of its own: each floor above brings its own."""

from xlashape.text.cursor import Cursor
from xlashape.text.source import Source

__all__ = ["Cursor", "Source"]
