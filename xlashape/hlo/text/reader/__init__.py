"""The reader of HLO text, which fills an empty module.

module         `parse_text` and `parse_module`: the grammar of a module and its computations; gives the computations
               their order, ids and unique names
header         the name and the attributes of a module, and the tables of files, functions and stack frames
body           the instructions of a computation, most of them by a regular expression a line
instruction    the grammar of an instruction
attributes     the attributes of an instruction: which ones its opcode may have, and what XLA fills in for missing ones
asynchronous   the steps of asynchronous operations
state          the computations, instructions, shapes and errors that the reader has so far
"""
