"""The writer of HLO text. The text is byte for byte what XLA's printer writes.

templates         a module in the form that the writer reads, in which equal instructions share a template
printed_module    XLA's print options and styles; the names, the order and the texts that all lines of a module need
line              writes one instruction, with the value of a constant
module            `module_text`: writes a computation and a module
"""
