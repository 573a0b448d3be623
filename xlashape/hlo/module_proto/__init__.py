"""Functions on the message HloModuleProto and on its ids. `xlashape.hlo.ir` is the form of a module that they serve.

- `structure`: checks the ids of a module, and gives it ids that an older XLA loads.
- `order`: the order in which XLA numbers and prints instructions and computations.
- `schema_compat`: reads fields that older versions of XLA wrote and the schema no longer has.
- `frame_tables`: the tables of stack frames that reading and printing make anew.
- `module_config`: `ModuleConfig`, the parts of a module's text that the proto has no field for.
- `stack_frames`: `Metadata`, the lines of a program that an instruction comes from, and which of them are the user's
  own. `shown_frames`: which of them answers show.
"""
