"""The collectives of a module: which instructions are one collective, which devices it brings together, and how many
bytes it moves. Matches XLA's collective_ops_utils.

    found.py    find_collectives: the instructions, and those that belong together
    groups.py   the devices of each group, in all four modes and all spellings
    meshes.py   a mesh with named axes, and the axes that groups span
"""

from xlashape.hlo.collectives.found import Collective, find_collectives
from xlashape.hlo.collectives.groups import DeviceGrid, DeviceGroups, device_grid, groups_of
from xlashape.hlo.collectives.meshes import DeviceMesh, axes_of, mesh_of

__all__ = [
    "Collective", "DeviceGrid", "DeviceGroups", "DeviceMesh", "axes_of", "device_grid", "find_collectives", "groups_of",
    "mesh_of",
]  # fmt: skip
