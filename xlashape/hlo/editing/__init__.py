"""Changes to modules that keep every reference consistent.

- `editor`: Editor, the methods that users call.
- `liveness`: which instructions and computations nothing needs.
- `typed_edits`: another opcode or attribute of an instruction, and new instructions, by typed values.
- `fragment`: instructions and computations that are written as HLO text, read as parts of a module.
- `references`: what instructions refer to, and what stays when one is rewritten.
- `layouts`: other layouts of shapes and literals.
- `draft`: the module that is being edited: finding, ids, order.
"""
