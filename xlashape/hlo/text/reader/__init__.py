"""The reader of HLO text. It keeps each instruction as serialized fields of its proto as soon as it has read it, and at
the end puts these together to a serialized HloModuleProto.

module         `parse_text` and `parse_module`: the grammar of a module and its computations; gives the computations
               their order, ids and unique names
header         the name and the attributes of a module, and the tables of files, functions and stack frames
instruction    the grammar of instructions
attributes     the attributes of an instruction: which ones its opcode may have, and what XLA fills in for missing ones
asynchronous   the steps of asynchronous operations
state          the computations, instructions, shapes and errors that the reader has so far
scope          text of a single instruction, or of computations, that refers to parts of an existing module
"""
