"""Changes to modules that keep every reference consistent.

- `editor`: Editor, the methods that users call.
- `typed_edits`: another opcode or attribute of an instruction, and new instructions, by typed values.
- `fragment`: instructions and computations that are written as HLO text, read as parts of a module; other layouts.
- `draft`: the module that is being edited: finding, ids, order; what instructions refer to, and what nothing needs.
"""
