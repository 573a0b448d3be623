"""The attributes whose values are read by their own codecs, by name."""

from __future__ import annotations

from collections.abc import Callable

from xlashape.hlo.lex import HloCursor
from xlashape.hlo.values import (
    aliasing,
    comparison,
    convolution_numbers,
    dot_numbers,
    enums,
    gather_numbers,
    linear_algebra,
    objects,
    origin,
    padding,
    plain,
    precision,
    replica_groups,
    result_accuracy,
    scatter_numbers,
    shapes,
    sharding,
    slices,
    source_target_pairs,
    sparsity,
    statistics,
    window,
)
from xlashape.hlo.values.attribute import Attribute

__all__ = ["VALUES", "VALUES_OF"]

_MODULES = (
    aliasing,
    comparison,
    convolution_numbers,
    dot_numbers,
    enums,
    gather_numbers,
    objects,
    origin,
    padding,
    plain,
    precision,
    replica_groups,
    result_accuracy,
    scatter_numbers,
    shapes,
    sharding,
    slices,
    source_target_pairs,
    sparsity,
    statistics,
    window,
    linear_algebra,
)
_OF_OPCODES: dict[str, tuple[Attribute, ...]] = {
    "cholesky": (linear_algebra.CHOLESKY_LOWER,),
    "collective-permute": (slices.PERMUTE_SLICE_SIZES,),
    "collective-permute-start": (slices.PERMUTE_SLICE_SIZES,),
    "ragged-dot": (
        dot_numbers.RAGGED_LHS_BATCH_DIMS,
        dot_numbers.RAGGED_LHS_CONTRACTING_DIMS,
        dot_numbers.RAGGED_RHS_BATCH_DIMS,
        dot_numbers.RAGGED_RHS_CONTRACTING_DIMS,
    ),
    "rng-bit-generator": (enums.RNG_ALGORITHM,),
    "scatter": (scatter_numbers.SCATTER_INDEX_VECTOR_DIM,),
    "triangular-solve": (linear_algebra.TRIANGULAR_LOWER,),
    "gather": (gather_numbers.GATHER_INDEX_VECTOR_DIM, slices.SLICE_SIZES),
}
VALUES_OF: dict[str, dict[str, Callable[[HloCursor], bytes]]] = {
    opcode: {attribute.name: attribute.read for attribute in attributes if attribute.read is not None}
    for opcode, attributes in _OF_OPCODES.items()
}
"""Opcodes for which a name means another field."""

_SPECIAL = {attribute for attributes in _OF_OPCODES.values() for attribute in attributes}

VALUES: dict[str, Callable[[HloCursor], bytes]] = {
    attribute.name: attribute.read
    for module in _MODULES
    for attribute in vars(module).values()
    if isinstance(attribute, Attribute) and attribute.read is not None and attribute not in _SPECIAL
}
"""The reader of every other attribute's value."""
