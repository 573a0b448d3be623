"""The writer of HLO text. The text is byte for byte what XLA's printer writes.

templates         decodes a module: instructions that differ only in name, id, operands and metadata share a template
printed_module    XLA's print options and styles; the names, the order and the texts of shapes that a module's lines use
line              writes instructions and the values of constants
module            `module_text`: writes a computation and a module
"""
