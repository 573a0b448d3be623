"""Applies a new layout to a shape, and to a literal, whose elements it reorders."""

from __future__ import annotations

from xlashape.errors import InvalidShapeError
from xlashape.hlo.literal.data import from_raw, raw, row_major_positions
from xlashape.proto import xla
from xlashape.shape import Layout, Shape


def shape_with_layout(shape: Shape, layout: Layout, index: tuple[int, ...]) -> Shape:
    """The shape with `layout` for the array at `index`. Raises InvalidShapeError if there is no array at `index`."""
    if not index:
        if not shape.is_array:
            raise InvalidShapeError(f"{shape} has no layout of its own; `index` names an array within a tuple")
        return shape.with_layout(layout)
    if not shape.is_tuple or not 0 <= index[0] < len(shape.tuple_shapes):
        raise InvalidShapeError(f"{shape} has no element {index[0]}")
    parts = list(shape.tuple_shapes)
    parts[index[0]] = shape_with_layout(parts[index[0]], layout, index[1:])
    return shape.replace(tuple_shapes=tuple(parts))


def literal_with_layout(literal: xla.LiteralProto, layout: Layout, index: tuple[int, ...]) -> xla.LiteralProto:
    """The literal with `layout` for the array at `index`, whose elements are reordered."""
    if index:
        copy = xla.LiteralProto()
        copy.CopyFrom(literal)
        copy.shape.CopyFrom(shape_with_layout(Shape.from_proto(literal.shape), layout, index).to_proto())
        part = literal.tuple_literals[index[0]]
        copy.tuple_literals[index[0]].CopyFrom(literal_with_layout(part, layout, index[1:]))
        return copy
    shape = shape_with_layout(Shape.from_proto(literal.shape), layout, ()).to_proto()
    data = raw(literal)
    before, after = row_major_positions(literal.shape), row_major_positions(shape)
    count = len(before or after or ())
    if count:
        width = len(data) // count
        elements = [data[i * width : (i + 1) * width] for i in range(count)]
        if before is not None:
            row_major = [b""] * count
            for position, element in zip(before, elements, strict=True):
                row_major[position] = element
            elements = row_major
        data = b"".join([elements[position] for position in after] if after is not None else elements)
    result = from_raw(shape, data)
    result.dynamic_sizes.extend(literal.dynamic_sizes)
    return result
