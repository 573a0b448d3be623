"""HLO text → HloModuleProto. Every instruction becomes serialized fields as soon as it is read; one decode at the end
makes the message.

module         the grammar of a module and its computations: `parse_text`, `parse_module`; serializes the computations:
               order, ids, unique names
header         the name and the attributes of a module, the tables of where instructions came from, such as stack frames
instruction    the grammar of instructions
attributes     the attributes of an instruction; which of them, and which operands, an opcode's text may have; what XLA
               fills in
asynchronous   the steps of asynchronous operations
state          what the reader knows while it reads
scope          an instruction or computations that are written alone, and name those of a module
"""
