"""XLA's `LayoutUtil`: making layouts, asking about them, checking them against shapes, tiled indices.

Functions that change their argument in XLA return a new value here; those that return a status raise an error. Where an order is
needed, an array without a layout has the default one. Functions with a dimension number as parameter also accept negative numbers.

Three functions are exact where XLA takes a shortcut. `linear_index` applies all tiles, while XLA's applies the first one alone;
`linear_index_for_nested_tiling` and its inverse also apply the combine size `*`.

- `make`: making layouts
- `ask`: questions to one layout
- `in_shapes`: the layouts in a shape: setting, clearing, copying, comparing, checking
"""

from xlashape.shape.arguments import guard_all
from xlashape.shape.xla_util.layout_util import ask, in_shapes, make
from xlashape.shape.xla_util.layout_util.ask import *
from xlashape.shape.xla_util.layout_util.in_shapes import *
from xlashape.shape.xla_util.layout_util.make import *

__all__: list[str] = []
__all__ += ask.__all__
__all__ += in_shapes.__all__
__all__ += make.__all__

guard_all(globals(), __all__)
