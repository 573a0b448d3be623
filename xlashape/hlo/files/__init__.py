"""Modules in files, streams and objects of other libraries.

- `detect_format`: which kind of module some bytes hold.
- `inputs`: files, directories of dumps, patterns and buckets, as one list.
- `dumps`: files that hold modules among other things, and files that hold none.
- `protobuf_text`: protobuf text and protobuf JSON.
- `convert`: reading and writing of files and streams in every format. Public as `xlashape.hlo.convert`.
- `forgiving`: HLO text that is no module as it stands: logs, parts of a dump, dumps that are cut off.
- `stablehlo`: StableHLO as HLO, by jaxlib.
- `frameworks`: the HLO of TensorFlow, Keras and PyTorch/XLA.
- `module_of`: modules from objects of other libraries, for `HloModule.of`.
"""
