"""Literals, the values of constants: LiteralProto ↔ text, LiteralProto ↔ NumPy arrays. Matches XLA's Literal, and how
XLA's printer and parser treat literals.

    from xlashape.hlo.literal import from_numpy, literal_text, parse_literal, to_numpy

- `number`: how the elements of each type are stored, read and written.
- `data`: the elements of a literal as bytes, as a NumPy array, and as text.
- `parse`: reads the text of a literal.
"""

from xlashape.hlo.literal.data import from_numpy, from_raw, literal_text, raw, to_numpy
from xlashape.hlo.literal.parse import MAX_ELIDED_BYTES, Elided, parse_literal

__all__ = ["MAX_ELIDED_BYTES", "Elided", "from_numpy", "from_raw", "literal_text", "parse_literal", "raw", "to_numpy"]
