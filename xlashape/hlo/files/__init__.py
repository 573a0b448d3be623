"""Modules in files, streams and objects of other libraries.

- `detect_format`: which kind of module some bytes hold.
- `inputs`: files, directories of dumps, patterns and buckets, as one list.
- `dumps`: files that hold modules among other things, and files that hold none.
- `protobuf_text`: protobuf text and protobuf JSON.
- `convert`: files and streams of every format, both ways. Public as `xlashape.hlo.convert`.
- `module_of`: modules of other libraries' objects, behind `HloModule.of`.
"""
