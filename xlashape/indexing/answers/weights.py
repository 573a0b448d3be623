"""How many bytes maps hold, for the caches that keep them. Estimates, checked against `tracemalloc`."""

from __future__ import annotations

from xlashape.symbolic import IndexingMap

__all__ = ["map_bytes"]


def map_bytes(map: IndexingMap) -> int:  # noqa: A002  # the proto's name
    """About the bytes of a map, its expressions and its simplified form.

    >>> map_bytes(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 9]"))
    1060
    """
    variables = len(map.dims) + len(map.ranges) + len(map.runtime)
    nodes = sum([result.size for result in map.results]) + sum([expr.size for expr, _ in map.constraints])
    return 700 + 160 * variables + 200 * nodes
