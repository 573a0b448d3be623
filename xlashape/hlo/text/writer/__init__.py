"""HLO text from protos, byte for byte what XLA's printer writes.

templates         a module as the writer reads it: instructions that are alike share a template
printed_module    XLA's print options and styles; names, order and texts that all lines of a module share; stack frames
line              one instruction, with the value of a constant
module            a computation, and a module: `module_text`
"""
