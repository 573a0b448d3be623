"""What all parsers of the library are built on. The grammars are in the packages that use it.

- `source`: a text, and the line and column of an offset in it.
- `cursor`: an offset in a source that moves forward token by token.
"""

from xlashape.text.cursor import Cursor
from xlashape.text.source import Source

__all__ = ["Cursor", "Source"]
