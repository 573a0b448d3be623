"""HLO text from protos, byte for byte what XLA's printer writes.

options           what is written of a module: XLA's print options and styles
templates         a module as the writer reads it: instructions that are alike share a template
frames            the tables of stack frames in a module's head
printed_module    names, order and texts that all lines of a module share
line              one instruction, with the value of a constant
computation       one computation
module            a module: `module_text`
"""
