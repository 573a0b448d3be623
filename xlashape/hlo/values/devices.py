"""Two ways in which attributes name devices: an iota (0, 1, 2, … reshaped and transposed, then read in row-major order)
and a mesh with named axes. Shardings and replica groups use both.

iota    := '[' INT (',' INT)* ']' ('T(' INT (',' INT)* ')')?        sizes; then the order, for several dimensions
mesh    := 'mesh' '[' (string '=' INT (',' …)*)? ']' (',' 'device_ids=' '(' (iota | INT (',' INT)*) ')')?
axis    := string (':' '(' pre ')' size)?       an axis, or a part of one: an axis of 8 split into 2 x 4 has the parts
                                                (1)2 and (2)4, where `pre` is the product of the sizes before the
                                                part

`[4,2]T(1,0)` is the list 0, 2, 4, 6, 1, 3, 5, 7. The canonical form of an iota has the fewest dimensions that give the
same list. The `device_ids` of a mesh are left out where they are 0, 1, 2, …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from xlashape.base.math import product
from xlashape.errors import InvalidModuleError
from xlashape.hlo.tokens import HloCursor
from xlashape.limits import check
from xlashape.proto import xla

MAX_DEVICES: Final = 1 << 24
"""The greatest number of devices that a list may have. It is more than any machine has."""


class Iota(NamedTuple):
    """The list of devices 0, 1, 2, … reshaped to `sizes`, transposed by `order`, and read in row-major order.

    >>> Iota([4, 2], [1, 0]).devices()
    [0, 2, 4, 6, 1, 3, 5, 7]
    >>> str(Iota([2, 2, 2], [2, 0, 1])), str(Iota([8, 1], [1, 0]))
    ('[4,2]T(1,0)', '[8]')
    """

    sizes: list[int]
    order: list[int]

    @staticmethod
    def parse(cursor: HloCursor) -> Iota:
        """Reads the iota at the cursor, not made canonical. ParseError for an iota without devices or with too many."""
        cursor.skip_space()
        at = cursor.at
        sizes = cursor.parse_ints("[", "]", "a dimension of the iota")
        if cursor.accept("T("):
            cursor.at -= 1
            order = cursor.parse_ints("(", ")", "a dimension number")
        elif len(sizes) > 1:
            cursor.fail("'T(', since the iota has several dimensions")
        else:
            order = [0]
        if not sizes or any(not 1 <= size <= MAX_DEVICES for size in sizes) or product(sizes) > MAX_DEVICES:
            raise cursor.error(
                f"the dimensions of an iota must be positive and their product at most {MAX_DEVICES}", at=at
            )
        if sorted(order) != list(range(len(sizes))):
            raise cursor.error("the transposition is not a permutation of the iota's dimensions", at=at)
        return Iota(sizes, order)

    @staticmethod
    def of(sizes: Iterable[int], order: Iterable[int]) -> Iota:
        """The iota with these sizes and this order, as protos hold them. An empty `order` means no transposition.

        InvalidModuleError if `order` is not a permutation of the dimensions, or if a size is not positive.
        """
        iota = Iota(list(sizes), list(order))
        if not iota.order:
            iota = iota._replace(order=list(range(len(iota.sizes))))
        if sorted(iota.order) != list(range(len(iota.sizes))) or any(size < 1 for size in iota.sizes):
            raise InvalidModuleError(f"{iota.order} is not a permutation of the dimensions {iota.sizes} of an iota")
        return iota

    @property
    def device_count(self) -> int:
        """The number of devices."""
        return product(self.sizes)

    def canonical(self) -> Iota:
        """The same list of devices with the fewest dimensions: dimensions of size 1 are dropped, and neighbouring
        dimensions that are still neighbours after the transposition are merged.
        """
        kept = [dim for dim in self.order if self.sizes[dim] != 1]
        position = {dim: index for index, dim in enumerate(sorted(kept))}
        runs: list[list[int]] = []
        for dim in kept:
            if runs and position[dim] == position[runs[-1][-1]] + 1:
                runs[-1].append(dim)
            else:
                runs.append([dim])
        if not runs:
            return Iota([1], [0])
        starts = sorted(run[0] for run in runs)
        size_of = {run[0]: product(self.sizes[dim] for dim in run) for run in runs}
        return Iota([size_of[start] for start in starts], [starts.index(run[0]) for run in runs])

    def devices(self, most: int = MAX_DEVICES) -> list[int]:
        """The list of all devices. LimitExceededError for more than `most` devices."""
        check("devices of a list", self.device_count, most)
        return transposed(list(range(self.device_count)), self.sizes, self.order)

    def split_along(self, tiles: Sequence[int]) -> list[list[tuple[int, int, int]]] | None:
        """Splits the iota's dimensions into parts so that each part lies within one tile dimension. `tiles` are the
        sizes of the tile dimensions; their product is the number of devices.

        The result has the parts of each tile dimension, most major first: (dimension of the iota, number of the part in
        that dimension, size). None where the sizes do not divide each other.

        >>> Iota([8], [0]).split_along([2, 4]), Iota([2, 3], [1, 0]).split_along([2, 3])
        ([[(0, 0, 2)], [(0, 1, 4)]], None)
        """
        rest = [(dim, 0, self.sizes[dim]) for dim in reversed(self.order)]
        parts: list[list[tuple[int, int, int]]] = []
        for tile in tiles:
            within: list[tuple[int, int, int]] = []
            while tile > 1:
                if not rest:
                    return None
                dim, number, size = rest.pop()
                if tile % size == 0:
                    within.append((dim, number, size))
                    tile //= size
                elif size % tile == 0:
                    within.append((dim, number, tile))
                    rest.append((dim, number + 1, size // tile))
                    tile = 1
                else:
                    return None
            parts.append(within)
        return parts

    def with_tiles_in_order(self, tiles: Sequence[int], order: Sequence[int]) -> Iota | None:
        """The devices, laid out as a row-major array of sizes `tiles`, after its dimensions are put into `order`. None
        where that list is not an iota.

        Dimensions that `order` leaves out must have size 1.
        """
        parts = self.canonical().split_along(tiles)
        return None if parts is None else _iota_of_parts([part for tile in order for part in parts[tile]])

    def sorted_within_groups(self, size: int) -> Iota | None:
        """The devices with each run of `size` devices sorted; None where that list is not an iota.

        >>> Iota([2, 3], [1, 0]).sorted_within_groups(3) is None
        True
        >>> Iota([3, 4], [1, 0]).sorted_within_groups(12)
        Iota(sizes=[12], order=[0])
        """
        parts = self.canonical().split_along([self.device_count // size, size])
        return None if parts is None else _iota_of_parts([*parts[0], *sorted(parts[1])])

    def __str__(self) -> str:
        sizes, order = self.canonical()
        text = f"[{','.join(map(str, sizes))}]"
        return text if len(order) < 2 else f"{text}T({','.join(map(str, order))})"


def _iota_of_parts(parts: list[tuple[int, int, int]]) -> Iota:
    """The iota whose dimensions are `parts` of the dimensions of another iota, in a new order, most major first."""
    base = sorted(parts)
    return Iota([size for _, _, size in base], [base.index(part) for part in parts]).canonical()


def transposed(values: Sequence[int], sizes: Sequence[int], order: Iterable[int]) -> list[int]:
    """The values of a row-major array of sizes `sizes` after its dimensions are put into `order`. Dimensions that
    `order` leaves out must have size 1.

    >>> transposed([0, 1, 2, 3, 4, 5], [2, 3], [1, 0])
    [0, 3, 1, 4, 2, 5]
    """
    strides = [product(sizes[dim + 1 :]) for dim in range(len(sizes))]
    offsets = [0]
    for dim in order:
        offsets = [offset + step * strides[dim] for offset in offsets for step in range(sizes[dim])]
    return [values[offset] for offset in offsets]


# -- meshes ------------------------------------------------------------------------------------


class Mesh(NamedTuple):
    """A mesh read from text, and the index of each of its axes by the axis's name."""

    message: xla.MeshProto
    numbers: dict[bytes, int]

    def all_axes(self) -> list[xla.AxisRefProto]:
        """Every axis, in the order of the mesh."""
        return [xla.AxisRefProto(mesh_axis_index=number) for number in range(len(self.message.axes))]

    def parse_axis(self, cursor: HloCursor) -> xla.AxisRefProto:
        """Reads an axis of this mesh, or a part of one."""
        cursor.skip_space()
        at = cursor.at
        name = cursor.parse_text("the name of an axis")
        if name not in self.numbers:
            raise cursor.error(f"the mesh has no axis {name.decode()!r}", at=at, expected="an axis of the mesh")
        axis = xla.AxisRefProto(mesh_axis_index=self.numbers[name])
        if cursor.accept(":"):
            cursor.expect("(")
            axis.sub_axis_info.pre_size = cursor.parse_int_between(1, MAX_DEVICES, "the size before the part")
            cursor.expect(")")
            axis.sub_axis_info.size = cursor.parse_int_between(2, MAX_DEVICES, "the size of the part")
            size = self.message.axes[self.numbers[name]].size
            if size % (axis.sub_axis_info.pre_size * axis.sub_axis_info.size):
                raise cursor.error("the part does not divide its axis", at=at)
        return axis


def parse_mesh(cursor: HloCursor) -> Mesh:
    """Reads the axes of a mesh and, after a comma, its devices. The word `mesh` has been consumed."""
    at = cursor.at
    mesh = Mesh(xla.MeshProto(), {})

    def axis() -> None:
        name = cursor.parse_text("the name of an axis")
        cursor.expect("=")
        size = cursor.parse_int_between(1, MAX_DEVICES, "the size of an axis")
        if name in mesh.numbers:
            raise cursor.error(f"the mesh has two axes {name.decode()!r}", at=at)
        mesh.numbers[name] = len(mesh.numbers)
        mesh.message.axes.add(name=name.decode(), size=size)

    cursor.parse_list(axis, "[", "]")
    count = product(axis.size for axis in mesh.message.axes)
    if count > MAX_DEVICES:
        raise cursor.error(f"a mesh has at most {MAX_DEVICES} devices", at=at)
    before_comma = cursor.at
    if cursor.accept(",") and cursor.accept("device_ids="):
        cursor.expect("(")
        if cursor.looking_at("["):
            iota = Iota.parse(cursor).canonical()
            if iota.device_count != count:
                raise cursor.error(f"{iota.device_count} devices for a mesh of {count}", at=at)
            if len(iota.sizes) > 1:
                mesh.message.iota_transform.reshape_dims.extend(iota.sizes)
                mesh.message.iota_transform.transpose_perm.extend(iota.order)
            cursor.expect(")")
        else:
            cursor.at = cursor.text.rindex("(", 0, cursor.at)
            devices = cursor.parse_ints("(", ")", "a device")
            if sorted(devices) != list(range(count)):
                raise cursor.error(f"the devices of the mesh are not 0 … {count - 1} in some order", at=at)
            if devices != list(range(count)):
                mesh.message.device_ids.extend(devices)
    else:
        cursor.at = before_comma
    return mesh


def accept_single_device(cursor: HloCursor) -> bool:
    """Consumes the word for a mesh of one device, if it comes next: `single_device` or, until jaxlib 0.10.2,
    `maximal_mesh`.
    """
    return cursor.accept("single_device") or cursor.accept("maximal_mesh")


def parse_device_id(cursor: HloCursor) -> int:
    """Reads the device of a mesh of one device: `[device_id=3]`."""
    cursor.expect("[")
    cursor.expect("device_id=")
    device = cursor.parse_int("a device")
    cursor.expect("]")
    return device


def mesh_text(mesh: xla.MeshProto) -> str:
    """The text of a mesh: `mesh['a'=2,'b'=4]`, followed by its devices where they are not 0, 1, 2, …;
    `single_device[device_id=3]` for a mesh of one device without axes.
    """
    if not mesh.axes and len(mesh.device_ids) == 1:
        return f"single_device[device_id={mesh.device_ids[0]}]"
    axes = ",".join([f"'{axis.name}'={axis.size}" for axis in mesh.axes])
    text = f"mesh[{axes}]"
    if mesh.HasField("iota_transform"):
        iota = Iota.of(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm).canonical()
        return text if len(iota.order) < 2 else f"{text}, device_ids=({iota})"
    if mesh.device_ids:
        return f"{text}, device_ids=({','.join(map(str, mesh.device_ids))})"
    return text


def axis_texts(mesh: xla.MeshProto, axes: Iterable[xla.AxisRefProto]) -> list[str]:
    """The text of each axis, `'a'`, or `'a':(2)4` for a part of one. InvalidModuleError for an axis that the mesh does
    not have."""
    texts: list[str] = []
    for axis in axes:
        index = axis.mesh_axis_index
        if not 0 <= index < len(mesh.axes):
            raise InvalidModuleError(f"there is no axis {index} in a mesh of {len(mesh.axes)}")
        text = f"'{mesh.axes[index].name}'"
        if axis.HasField("sub_axis_info"):
            text += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
        texts.append(text)
    return texts


def mesh_device_ids(mesh: xla.MeshProto, most: int = MAX_DEVICES) -> list[int]:
    """The devices of a mesh in row-major order of its axes.

    InvalidModuleError if their number is not the product of the axes' sizes, LimitExceededError for more than `most`.
    """
    total = product(axis.size for axis in mesh.axes)
    if total < 0:
        raise InvalidModuleError("the axes of a mesh have negative sizes")
    check("devices of a mesh", total, most)
    if mesh.HasField("iota_transform"):
        devices = Iota.of(mesh.iota_transform.reshape_dims, mesh.iota_transform.transpose_perm).devices(most)
    else:
        devices = list(mesh.device_ids) or list(range(total))
    if len(devices) != total:
        raise InvalidModuleError(f"{len(devices)} devices for a mesh of {total}")
    return devices


def mesh_devices_along(
    mesh: xla.MeshProto, axes: Sequence[xla.AxisRefProto], most: int = MAX_DEVICES
) -> tuple[list[int], list[int]]:
    """The devices of a mesh after its axes are reordered so that `axes`, which may be parts of axes, are the most minor
    dimensions, in the given order. Also returns the sizes of `axes`.

    >>> cross = xla.MeshProto(axes=[xla.MeshProto.MeshAxis(name="a", size=2), xla.MeshProto.MeshAxis(name="b", size=3)])
    >>> mesh_devices_along(cross, [xla.AxisRefProto(mesh_axis_index=0)])
    ([0, 3, 1, 4, 2, 5], [2])
    """
    devices = mesh_device_ids(mesh, most)
    # Each axis is split into the factors before, within and after each part that `axes` names.
    parts: dict[int, list[tuple[int, int]]] = {}
    for number, ref in enumerate(axes):
        index = ref.mesh_axis_index
        if not 0 <= index < len(mesh.axes):
            raise InvalidModuleError(f"there is no axis {index} in a mesh of {len(mesh.axes)}")
        parts.setdefault(index, []).append((ref.sub_axis_info.pre_size if ref.HasField("sub_axis_info") else 1, number))
    sizes: list[int] = []
    dimension_of: dict[int, int] = {}
    for index, axis in enumerate(mesh.axes):
        before = 1
        for pre, number in sorted(parts.get(index, [])):
            ref = axes[number]
            size = ref.sub_axis_info.size if ref.HasField("sub_axis_info") else axis.size
            if pre <= 0 or size <= 0 or pre % before or axis.size % (pre * size):
                raise InvalidModuleError(f"axis {axis.name!r} of size {axis.size} has no part ({pre}){size}")
            sizes.append(pre // before)
            dimension_of[number] = len(sizes)
            sizes.append(size)
            before = pre * size
        sizes.append(axis.size // before)
    along = [dimension_of[number] for number in range(len(axes))]
    order = [i for i in range(len(sizes)) if i not in along] + along
    return transposed(devices, sizes, order), [sizes[i] for i in along]
