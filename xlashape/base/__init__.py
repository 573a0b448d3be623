"""What every floor of the library uses. `xlashape.errors` and `xlashape.limits`, which stand below it, are beside it,
since users import them by these names.

- `caches`: the register of caches, each with its owner and its bound in bytes.
- `collector`: a pause of Python's cycle collector while many objects are made.
- `frozen`: values that cannot be changed. `tables`: named columns, for pandas, polars, Arrow, CSV and JSON lines.
- `vocabulary`: closed lists of texts, which are enums in the schema of the service.
- `text`: source text with lines and columns, and a cursor over it: the base of the parsers.
- `display`: how objects show themselves in notebooks. `similar`: the name that was perhaps meant.
- `pasted`: text out of logs and mails, without prefixes, colours and quotation marks.
- `math`, `extras`, `whole_file`, `version`: numbers, packages that are installed separately, files that are replaced as
  a whole, the version of the library.
"""
