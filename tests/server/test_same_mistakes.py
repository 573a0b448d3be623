"""A mistake raises the same exception in the library, from the handlers in this process, and from a server through its
clients.

The class and the message are equal. The service's path is the path of the request's field that has the value, followed
by the library's path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from xlashape import errors
from xlashape.errors import FieldPath, XlashapeError
from xlashape.hlo import HloModule
from xlashape.indexing.reports.counting import MAX_POINTS
from xlashape.limits import MAX_SHAPE_DEPTH
from xlashape.proto import xla
from xlashape.reports.maps import maps
from xlashape.reports.reads import reads
from xlashape.reports.tiles import tiles
from xlashape.shape import Shape, shape_util, tiling
from xlashape.symbolic import IndexingMap
from xlashape_client import Client
from xlashape_client.methods import ServiceMethods
from xlashape_server.commands.page_file import Local

TILED = "f32[3,5]{1,0:T(2,2)}"
SHAPE = Shape.parse(TILED)
MAP = "(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 3]"
HUGE_MAP = "(d0) -> (d0 * 9223372036854775807), domain: d0 in [0, 3]"
UNBOUNDED = Shape.parse("f32[?,4]")
OVERFLOWING = "u8[9223372036854775807]{0:T(128)}"
DEEP = "(" * (MAX_SHAPE_DEPTH + 1) + "f32[]" + ")" * (MAX_SHAPE_DEPTH + 1)
SIZE_BELOW_0 = xla.ShapeProto(element_type=xla.F32, dimensions=[2, -3])

TEXT = """HloModule m

ENTRY main {
  x = f32[3,5]{1,0} parameter(0)
  t = f32[5,3]{1,0} transpose(x), dimensions={1,0}
  ROOT n = f32[5,3]{1,0} negate(t)
}
"""
MODULE = HloModule.parse(TEXT)
RESHAPE_MODULE = HloModule.parse(
    "HloModule m\n\nENTRY main "
    f"{{\n  x = f32[{MAX_POINTS},2,3] parameter(0)\n  ROOT r = f32[{6 * MAX_POINTS}] reshape(x)\n}}\n"
)
RESHAPE = RESHAPE_MODULE.instruction("r")
TRANSPOSE = MODULE.instruction("t")
BROKEN = xla.HloModuleProto(name="m", entry_computation_name="main").SerializeToString()[:-1]
NO_COMPUTATIONS = xla.HloModuleProto(name="m").SerializeToString()


# A dataclass, since the type checker does not know the parameters of functions among the arguments of a NamedTuple.
@dataclass(frozen=True)
class Case:
    """A mistake, made in the library and made in the service."""

    library: Callable[[], Any]
    service: Callable[[ServiceMethods], Any]
    kind: type[XlashapeError]
    path: FieldPath
    library_path: FieldPath | None = None
    """The library's path, where it is not `path` because the service's request has the value in another place."""
    other_text: str = ""
    """Why the service's message differs from the library's; empty where they are equal."""


FLAT = "the request holds the numbers of all indices in one list, so that its length is what is wrong"

CASES: dict[str, Case] = {
    # indices and positions
    "an index of too few numbers": Case(
        lambda: tiling.linear_index(SHAPE, (2,)),
        lambda service: service.linear_index(TILED, (2,)),
        errors.InvalidIndexError,
        ("indices",),
        other_text=FLAT,
    ),
    "an index of too many numbers": Case(
        lambda: tiling.linear_index(SHAPE, (2, 3, 4)),
        lambda service: service.linear_index(TILED, (2, 3, 4)),
        errors.InvalidIndexError,
        ("indices",),
        other_text=FLAT,
    ),
    "an index of a scalar": Case(
        lambda: tiling.linear_index(Shape.parse("f32[]"), (2,)),
        lambda service: service.linear_index("f32[]", (2,)),
        errors.InvalidIndexError,
        ("indices",),
        other_text=FLAT,
    ),
    "rows of too few numbers": Case(
        lambda: tiling.linear_indices(SHAPE, [(2,), (3,), (4,)]),
        lambda service: service.linear_indices(TILED, [(2,), (3,), (4,)]),
        errors.InvalidIndexError,
        ("indices",),
        other_text=FLAT,
    ),
    "an index that is a number": Case(
        lambda: tiling.linear_index(SHAPE, 3),
        lambda service: service.linear_index(TILED, 3),
        errors.InvalidIndexError,
        ("indices",),
        other_text="the client names its parameter",
    ),
    "rows of text": Case(
        lambda: tiling.linear_indices(SHAPE, [["a", "b"]]),
        lambda service: service.linear_indices(TILED, [["a", "b"]]),
        errors.InvalidIndexError,
        ("indices",),
        ("indices", 0, 0),
        other_text="the client names its parameter",
    ),
    "an index out of bounds": Case(
        lambda: tiling.linear_index(SHAPE, (0, 9)),
        lambda service: service.linear_index(TILED, (0, 9)),
        errors.InvalidIndexError,
        ("indices", 1),
    ),
    "a negative index": Case(
        lambda: tiling.linear_index(SHAPE, (-1, 0)),
        lambda service: service.linear_index(TILED, (-1, 0)),
        errors.InvalidIndexError,
        ("indices", 0),
    ),
    "a row out of bounds": Case(
        lambda: tiling.linear_indices(SHAPE, [(0, 0)] * 40 + [(2, 5)]),
        lambda service: service.linear_indices(TILED, [(0, 0)] * 40 + [(2, 5)]),
        errors.InvalidIndexError,
        ("indices", 40, 1),
    ),
    "a position beyond the buffer": Case(
        lambda: tiling.multi_indices(SHAPE, [0, 96]),
        lambda service: service.multi_indices(TILED, [0, 96]),
        errors.InvalidIndexError,
        ("positions", 1),
    ),
    "a negative position": Case(
        lambda: tiling.multi_index(SHAPE, -1),
        lambda service: service.multi_index(TILED, -1),
        errors.InvalidIndexError,
        ("positions", 0),
        other_text="the request holds a list of positions, so that the row is named",
    ),
    "an index of no array": Case(
        lambda: tiling.linear_index(Shape.parse("(f32[2])"), (0,)),
        lambda service: service.linear_index("(f32[2])", (0,)),
        errors.InvalidShapeError,
        ("shape",),
    ),
    "an index of an unbounded array": Case(
        lambda: tiling.linear_index(UNBOUNDED, (0, 0)),
        lambda service: service.linear_index(UNBOUNDED, (0, 0)),
        errors.InvalidShapeError,
        ("shape",),
    ),
    # shapes
    "text that is not a shape": Case(
        lambda: Shape.parse("f32[2,"),
        lambda service: service.byte_size("f32[2,"),
        errors.ParseError,
        ("shapes", 0, "text"),
        (),
    ),
    "text that is not a shape, of an index": Case(
        lambda: Shape.parse("f99[2]"),
        lambda service: service.linear_index("f99[2]", (1,)),
        errors.ParseError,
        ("shape", "text"),
        (),
    ),
    "text of a shape with a wrong layout": Case(
        lambda: Shape.parse("f32[2,3]{1,1}"),
        lambda service: service.describe_shapes(["f32[2]", "f32[2,3]{1,1}"]),
        errors.ParseError,
        ("shapes", 1, "text"),
        (),
    ),
    "text of a shape too deep": Case(
        lambda: Shape.parse(DEEP),
        lambda service: service.describe_shape(DEEP),
        errors.ParseError,
        ("shapes", 0, "text"),
        (),
    ),
    "bytes that are not a shape": Case(
        lambda: Shape.from_proto(b"\xff"),
        lambda service: service.byte_size(b"\xff"),
        errors.DecodeError,
        ("shapes", 0, "serialized"),
        (),
    ),
    "a shape with a size below 0": Case(
        lambda: Shape.from_proto(SIZE_BELOW_0),
        lambda service: service.byte_size(SIZE_BELOW_0),
        errors.InvalidShapeError,
        ("shapes", 0, "serialized", "dimensions", 1),
        ("dimensions", 1),
    ),
    "the bytes of a shape with a size below 0": Case(
        lambda: Shape.from_proto(SIZE_BELOW_0.SerializeToString()),
        lambda service: service.multi_index(SIZE_BELOW_0.SerializeToString(), 0),
        errors.InvalidShapeError,
        ("shape", "serialized", "dimensions", 1),
        ("dimensions", 1),
    ),
    "more bytes than int64 counts": Case(
        lambda: tiling.physical_bytes(Shape.parse(OVERFLOWING)),
        lambda service: service.byte_size(OVERFLOWING),
        errors.SizeOverflowError,
        ("shapes", 0),
        ("shape",),
    ),
    "an index of an array with more elements than int64 counts": Case(
        lambda: tiling.linear_index(Shape.parse(OVERFLOWING), (0,)),
        lambda service: service.linear_index(OVERFLOWING, (0,)),
        errors.SizeOverflowError,
        ("shape",),
    ),
    "a position in an array with more elements than int64 counts": Case(
        lambda: tiling.multi_index(Shape.parse(OVERFLOWING), 0),
        lambda service: service.multi_index(OVERFLOWING, 0),
        errors.SizeOverflowError,
        ("shape",),
    ),
    "the size of an unbounded shape": Case(
        lambda: shape_util.elements_in(UNBOUNDED),
        lambda service: service.byte_size(UNBOUNDED),
        errors.InvalidShapeError,
        ("shapes", 0),
        ("shape",),
    ),
    # maps
    "text that is not a map": Case(
        lambda: IndexingMap.parse("(d0"),
        lambda service: service.simplify_maps([MAP, "(d0"]),
        errors.ParseError,
        ("maps", 1, "text"),
        (),
    ),
    "text of a map that ends too early": Case(
        lambda: IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 4], is_simplified:"),
        lambda service: service.parse_maps([MAP, "(d0) -> (d0), domain: d0 in [0, 4], is_simplified:"]),
        errors.ParseError,
        ("maps", 1, "text"),
        (),
    ),
    "text that is not a map, in a chain": Case(
        lambda: IndexingMap.parse("(d0) -> (d7)"),
        lambda service: service.compose_maps(MAP, "(d0) -> (d7)"),
        errors.ParseError,
        ("chains", 0, "maps", 1, "text"),
        (),
    ),
    "text that is not a map, of a point": Case(
        lambda: IndexingMap.parse("d0 -> d0"),
        lambda service: service.evaluate_map("d0 -> d0", (1,)),
        errors.ParseError,
        ("map", "text"),
        (),
    ),
    "maps that do not compose": Case(
        lambda: IndexingMap.parse(MAP).compose(IndexingMap.parse(MAP)),
        lambda service: service.compose_maps(MAP, MAP),
        errors.InvalidMapError,
        ("chains", 0, "maps", 1),
        (),
    ),
    "a point of too few numbers": Case(
        lambda: IndexingMap.parse(MAP).evaluate((1,)),
        lambda service: service.evaluate_map(MAP, (1,)),
        errors.InvalidIndexError,
        ("points",),
        other_text=FLAT,
    ),
    "points of too many numbers": Case(
        lambda: IndexingMap.parse(MAP).evaluate_batch([(1, 2, 3)] * 4),
        lambda service: service.evaluate_map_batch(MAP, [(1, 2, 3)] * 4),
        errors.InvalidIndexError,
        ("points",),
        other_text=FLAT,
    ),
    "a result beyond int64": Case(
        lambda: IndexingMap.parse(HUGE_MAP).evaluate_batch([(3,)]),
        lambda service: service.evaluate_map(HUGE_MAP, (3,)),
        errors.SizeOverflowError,
        ("points", 0),
    ),
    # modules
    "text that is not a module": Case(
        lambda: HloModule.parse("HloModule m\n\nENTRY e { x = f32[] }"),
        lambda service: list(service.list_instructions(b"HloModule m\n\nENTRY e { x = f32[] }")),
        errors.ParseError,
        ("module", "text"),
        (),
    ),
    "bytes that are not a module": Case(
        lambda: HloModule.from_proto(BROKEN),
        lambda service: list(service.list_instructions(BROKEN)),
        errors.DecodeError,
        ("module", "serialized"),
        (),
    ),
    "a module that breaks its rules": Case(
        lambda: HloModule.from_proto(NO_COMPUTATIONS),
        lambda service: service.size(NO_COMPUTATIONS),
        errors.InvalidModuleError,
        ("module", "serialized"),
        (),
    ),
    "a module that breaks its rules, uploaded": Case(
        lambda: HloModule.from_proto(NO_COMPUTATIONS),
        lambda service: service.upload_module(NO_COMPUTATIONS),
        errors.InvalidModuleError,
        ("data",),
        (),
    ),
    "an unknown instruction": Case(
        lambda: MODULE.instruction("nothing"),
        lambda service: service.map(MODULE, "nothing"),
        errors.NotFoundError,
        ("instruction",),
    ),
    "an unknown instruction of a computation": Case(
        lambda: MODULE.computation("main").instruction("nothing"),
        lambda service: service.tile(MODULE, "nothing", computation="main"),
        errors.NotFoundError,
        ("instruction",),
    ),
    "an unknown computation": Case(
        lambda: MODULE.computation("nothing"),
        lambda service: list(service.list_instructions(MODULE, computation="nothing")),
        errors.NotFoundError,
        ("computation",),
    ),
    # what instructions read
    "an output that the instruction does not have": Case(
        lambda: maps(MODULE, "t", output=5),
        lambda service: service.map(MODULE, "t", output=5),
        errors.NotFoundError,
        ("output",),
    ),
    "a negative output": Case(
        lambda: maps(MODULE, "t", output=-1),
        lambda service: service.map(MODULE, "t", output=-1),
        errors.NotFoundError,
        ("output",),
    ),
    "an operand that the instruction does not have": Case(
        lambda: maps(MODULE, "t", direction="input_to_output", operand=5),
        lambda service: service.map(MODULE, "t", direction="input_to_output", operand=5),
        errors.NotFoundError,
        ("operand",),
    ),
    "reads of an output that the instruction does not have": Case(
        lambda: reads(MODULE, instruction="t", output=5),
        lambda service: service.reads(MODULE, "t", output=5),
        errors.InvalidArgumentError,
        ("output",),
    ),
    "tiles of an output that the instruction does not have": Case(
        lambda: tiles(MODULE, "t", (1, 1), output=5),
        lambda service: service.tile(MODULE, "t", (1, 1), output=5),
        errors.InvalidArgumentError,
        ("output",),
    ),
    "a tile of the wrong rank": Case(
        lambda: tiles(MODULE, "t", (1, 1, 1)),
        lambda service: service.tile(MODULE, "t", (1, 1, 1)),
        errors.InvalidArgumentError,
        ("sizes",),
    ),
    "a tile of no elements": Case(
        lambda: tiles(MODULE, "t", (1, 0)),
        lambda service: service.tile(MODULE, "t", (1, 0)),
        errors.InvalidArgumentError,
        ("sizes",),
    ),
    "a tile of too many elements": Case(
        lambda: tiles(RESHAPE_MODULE, "r", (MAX_POINTS + 1,)),
        lambda service: service.tile(RESHAPE_MODULE, "r", (MAX_POINTS + 1,)),
        errors.LimitExceededError,
        ("sizes",),
    ),
    "a warp too large": Case(
        lambda: reads(MODULE, instruction="t", warp=1 << 20),
        lambda service: service.reads(MODULE, "t", warp=1 << 20),
        errors.LimitExceededError,
        ("warp",),
    ),
    "a warp below 1": Case(
        lambda: reads(MODULE, instruction="t", warp=-1),
        lambda service: service.reads(MODULE, "t", warp=-1),
        errors.InvalidArgumentError,
        ("warp",),
    ),
    "a segment below 1": Case(
        lambda: reads(MODULE, instruction="t", segment_bytes=0),
        lambda service: service.reads(MODULE, "t", segment_bytes=0),
        errors.InvalidArgumentError,
        ("segment_bytes",),
    ),
}


def raised(call: Callable[[], Any]) -> XlashapeError:
    with pytest.raises(XlashapeError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_the_same_exception_in_the_library_and_from_the_service(
    client: Client, awaited_client: Any, name: str
) -> None:
    case = CASES[name]
    library = raised(case.library)
    assert type(library) is case.kind
    assert library.path == (case.path if case.library_path is None else case.library_path)
    for service in (Local(60), client, awaited_client):
        error = raised(lambda service=service: case.service(service))
        assert type(error) is case.kind
        assert error.path == case.path
        assert (error.message == library.message) is not bool(case.other_text)
        if error.message == library.message:
            expected = library.details() | {"field": errors.path_text(case.path)}
            assert error.details() == expected
