"""HLO text both ways. `reader` makes an HloModuleProto from text, `writer` prints one as XLA prints it. Neither imports
the other."""
