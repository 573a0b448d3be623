"""What is true of each opcode, one row an opcode. The reader, the writer, the verifier and the analyses ask the row.

    operation_of(opcode).operands                       how many operands it takes
    operation_of(opcode).passes_first_operand_through   what analyses ask

The row:
    opcode            Opcode, every opcode by name; UnknownOpcode
    operation         Operation, the row
    attributes        an attribute as an operation has it: required or optional, its default; those that any may have
    calls             how called computations are named, ordered and given arguments
    instruction_attributes  Attributes: typed values of an instruction's attributes by name
    registry          all rows by opcode; `operation_of` finds one, `register` adds one

What rows of several families share:
    inference         shapes and attributes that text leaves out
    verification      what must hold of shapes and called computations
    collective_rules  what must hold of collectives
    async_chain       where an asynchronous operation was started

The rows, by family:
    asynchronous, collective, contraction, control, creation, custom, elementwise, movement, reduction (and windows),
    slicing (and gathers), sorting (and linear algebra), transfer
"""
