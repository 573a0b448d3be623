"""Functions on the message HloModuleProto itself. The views of it, such as `HloModule`, are built on them.

- `structure`: checks the ids of a module, gives it ids that an older XLA loads, finds the order in which XLA numbers
  and prints, and lists the instructions as a table.
- `schema_compat`: reads fields that older versions of XLA wrote and the schema no longer has.
- `module_config`: `ModuleConfig`, the parts of a module's text that the proto has no field for.
- `compact`: `Held`, a module in memory as bytes with compact messages, or as the full message.
- `stack_frames`: `Metadata`, the lines of a program that an instruction comes from, and which of them are the user's
  own.
"""
