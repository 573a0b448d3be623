"""The table of HLO operations. Each opcode has one row, an `Operation`, which says what the reader, the writer, the
verifier and the analyses need to know about the opcode.

    operation_of(opcode).operands                       how many operands the operation takes
    operation_of(opcode).passes_first_operand_through   whether its result is its first operand

The parts of a row:
    opcode            Opcode, every opcode by name; UnknownOpcode
    operation         Operation, the class of the rows
    attributes        an attribute of an operation: required or optional, its default; attributes of every operation
    calls             how called computations are named, ordered and given arguments
    exchange          Exchange: which bytes a collective moves between devices, and how its groups are numbered
    instruction_attributes  Attributes: typed values of an instruction's attributes by name
    registry          all rows by opcode; `operation_of` finds a row, `register` adds one

Functions that rows of several families share:
    inference         finds shapes and attributes that text leaves out
    verification      checks shapes and called computations
    collective_rules  checks collectives

The rows, by family:
    asynchronous, collective, contraction, control, creation, custom, elementwise, movement, reduction (and windows),
    slicing (and gathers), sorting (and linear algebra), transfer
"""
