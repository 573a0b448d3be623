"""Changes to modules that keep every reference consistent.

- `editor`: Editor, the methods that users call.
- `typed_edits`: edits by typed values: another opcode or attribute of an instruction, and new instructions.
- `fragment`: edits by HLO text: instructions and computations are read as parts of the module. Also edits of layouts.
- `draft`: the copy of the module that is edited. It finds, numbers, orders and removes instructions and computations.
"""
