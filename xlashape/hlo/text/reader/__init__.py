"""HLO text → HloModuleProto. Every instruction becomes serialized fields as soon as it is read; one decode at the end makes the message.

module          the grammar of a module and its computations: `parse_text`, `parse_module`
header          the name and the attributes of a module, the tables of where instructions came from
instruction     the grammar of instructions
attributes      the attributes of an instruction; which of them, and which operands, an opcode's text may have
asynchronous    the steps of asynchronous operations
complete        what XLA fills in where an instruction's text says nothing
state           what the reader knows while it reads
stack_frames    the module's table of stack frames
scope           an instruction or computations that are written alone, and name those of a module
emit            serializes the computations: order, ids, unique names, schedule
"""
