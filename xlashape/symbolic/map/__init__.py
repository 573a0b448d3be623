"""Indexing maps: variables with bounds, one expression for each result, and a domain.

- `parts`: the parts of a map as plain tuples, their checks, their normal form and their text.
- `serde`: maps as `xlashape.v1.IndexingMap`.
- `indexing_map`: the class `IndexingMap`, which composes, simplifies and restricts maps.
- `transforms`: changes of a map's variables and results; the inverse of a one-to-one map; the points of a map's domain
  and image.
"""
