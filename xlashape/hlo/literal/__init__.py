"""Literals: LiteralProto ↔ text, LiteralProto ↔ NumPy arrays. Matches XLA's Literal and what its printer and parser do with one.

    from xlashape.hlo.literal import from_numpy, literal_text, parse_literal, to_numpy

- `floats`: floating point formats.
- `element_types`: how the elements of each type are stored and written.
- `data`: the elements of a literal as bytes.
- `arrays`: the elements of a literal as a NumPy array.
- `number`, `parse`: reads one number; reads a literal.
- `format`: writes a literal.
"""

from xlashape.hlo.literal.arrays import from_numpy, to_numpy
from xlashape.hlo.literal.data import from_raw, raw
from xlashape.hlo.literal.format import literal_text
from xlashape.hlo.literal.parse import MAX_ELIDED_BYTES, Elided, parse_literal

__all__ = ["MAX_ELIDED_BYTES", "Elided", "from_numpy", "from_raw", "literal_text", "parse_literal", "raw", "to_numpy"]
