"""The results of the client's methods: values of the library, and named tuples of them.

shapes    sizes and descriptions of shapes
modules   stored modules, their instructions and bytes
indexing  maps, reads and tiles of instructions
"""

from xlashape_client.results import indexing, modules, shapes
from xlashape_client.results.indexing import *
from xlashape_client.results.modules import *
from xlashape_client.results.shapes import *

__all__: list[str] = []
__all__ += indexing.__all__
__all__ += modules.__all__
__all__ += shapes.__all__
