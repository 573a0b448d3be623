"""XLA's `ShapeUtil`: its functions on shapes, under XLA's names in snake_case.

A function that changes its argument in XLA returns a new value here. A function that returns a status or aborts the
process in XLA raises an error of `xlashape.errors`. A function that calls a visitor in XLA returns a Python iterator.
As in XLA, a buffer counts as the array it holds. docs/xla_functions.md lists for every C++ function what corresponds to
it here, or why nothing does.

- `make`: making, checking and printing shapes
- `sizes`: elements and bytes
- `compare`: when two shapes count as the same
- `elements`: element types
- `dimensions`: asking about, adding, deleting and reordering dimensions
- `bitcast`: transposes and reshapes that move nothing
- `tuples`: shapes inside shapes, every index of an array
"""

from xlashape.shape.arguments import guard_all
from xlashape.shape.xla_util.shape_util import bitcast, compare, dimensions, elements, make, sizes, tuples
from xlashape.shape.xla_util.shape_util.bitcast import *
from xlashape.shape.xla_util.shape_util.compare import *
from xlashape.shape.xla_util.shape_util.dimensions import *
from xlashape.shape.xla_util.shape_util.elements import *
from xlashape.shape.xla_util.shape_util.make import *
from xlashape.shape.xla_util.shape_util.sizes import *
from xlashape.shape.xla_util.shape_util.tuples import *

__all__: list[str] = []
__all__ += bitcast.__all__
__all__ += compare.__all__
__all__ += dimensions.__all__
__all__ += elements.__all__
__all__ += make.__all__
__all__ += sizes.__all__
__all__ += tuples.__all__

guard_all(globals(), __all__)
