"""Edits of a module in place: what the methods of HloInstruction, HloComputation and HloModule do that change one.

- `edits`: each method's work. Names, users, metadata, control dependencies, schedule and signatures follow.
- `typed`: another opcode, another attribute, a new instruction, by typed values.
- `scope`: reads the text of an edit, which may name instructions and computations of the module.
- `find`: the instructions and computations that an edit names, and which of them it may use.
- `order`: puts instructions and computations into an order in which nothing comes before what it needs.
- `schedule`: the schedule of a module, which names the instructions in the order in which they run.
- `dead`: finds the instructions that nothing needs.
- `layouts`: another layout of a shape and of a literal.
"""
