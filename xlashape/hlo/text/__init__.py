"""HLO text. `reader` makes an HloModuleProto from text, and `writer` prints an HloModuleProto as XLA does. Neither
imports the other."""
