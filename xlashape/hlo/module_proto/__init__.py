"""What is asked of an HloModuleProto itself, without the views of it.

- `structure`: the ids of a module: unique, resolvable, free of cycles; ids that an older XLA loads; the order in which
  XLA numbers and prints; the instructions as a table.
- `schema_compat`: what older versions of XLA wrote and the schema no longer has.
- `module_config`: `ModuleConfig`, the parts of a module's text that the proto has no field for.
- `compact`: a module as it is held: bytes, compact messages of them, or the message of the schema.
- `stack_frames`: `Metadata`, the lines of a program that an instruction comes from, and which of them are the user's
  own.
"""
