"""ViewService: kinds of content, pictures, lines of a module's text, and graphs of instructions."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlashape.errors import InvalidArgumentError, LimitExceededError, NotFoundError
from xlashape.hlo import HloModule
from xlashape.limits import set_checkpoint
from xlashape.proto import v1
from xlashape_client import Client
from xlashape_server.commands.page_file import Local
from xlashape_server.config import Config
from xlashape_server.handlers.views import ViewHandlers
from xlashape_server.modules import Modules
from xlashape_server.store import Store

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
MODULES = sorted((VECTORS / "hlo").glob("*.after.hlo"))
FOREVER = 1e12


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_graph_has_the_instructions_and_edges_of_the_module(path: Path) -> None:
    module = HloModule.load(path)
    found = Local(60).graph(path)
    instructions = list(module.instructions())
    assert [(each.name, each.opcode, each.computation) for each in found.instructions] == [
        (each.name, str(each.opcode), each.computation.name) for each in instructions
    ]
    assert [each.shape for each in found.instructions] == [str(each.shape) for each in instructions]
    assert [(each.op_name, each.source) for each in found.instructions] == [
        (each.metadata.op_name, each.metadata.source) for each in instructions
    ]
    numbers = {each: number for number, each in enumerate(instructions)}
    assert list(found.edges) == [
        (numbers[operand], numbers[each], number)
        for each in instructions
        for number, operand in enumerate(each.operands)
    ]
    assert list(found.calls) == [
        (numbers[each], called.name) for each in instructions for called in each.called_computations
    ]
    assert set(found.roots) == {numbers[each.root] for each in module.computations}
    assert found.instruction_count == len(instructions)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_slices_of_the_text_make_up_the_text(path: Path) -> None:
    module, local = HloModule.load(path), Local(60)
    kept = local.upload_module(path)
    lines: list[str] = []
    while len(lines) < local.get_text(kept, max_lines=1).line_count:
        lines += local.get_text(kept, first_line=len(lines), max_lines=7).lines
    assert "\n".join(lines) == module.to_text().rstrip("\n")
    definitions = local.get_text(kept, include_definitions=True)
    assert definitions.computation_lines is not None
    assert definitions.instruction_lines is not None
    assert set(definitions.computation_lines) == {each.name for each in module.computations}
    assert sorted(name for _, name in definitions.instruction_lines) == sorted(
        each.name for each in module.instructions()
    )
    for number, name in definitions.instruction_lines:
        assert lines[number].lstrip(" ").removeprefix("ROOT ").removeprefix("%").startswith(f"{name} = ")


def test_lines_beyond_the_text_are_none() -> None:
    local = Local(60)
    kept = local.upload_module(MODULES[0])
    assert not local.get_text(kept, first_line=2**63 - 1).lines
    assert not local.get_text(kept, first_line=2**63 - 1, max_lines=2**31 - 1).lines


def neighbours(module: HloModule, name: str, distance: int) -> set[str]:
    """The names of the instructions within a distance of one, found step by step over operands and users."""
    near = {name}
    for _ in range(distance):
        near |= {
            operand.name for each in module.entry.instructions if each.name in near for operand in each.operands
        } | {each.name for each in module.entry.instructions if near & {operand.name for operand in each.operands}}
    return near


@pytest.mark.parametrize("distance", [0, 1, 2, 5])
def test_surroundings_are_what_is_within_a_distance(distance: int) -> None:
    module = HloModule.load(MODULES[0])
    for each in module.entry.instructions[::7]:
        found = Local(60).graph(module, each.name, computation=module.entry.name, distance=distance)
        assert {one.name for one in found.instructions} == neighbours(module, each.name, distance)


DIAMOND = (
    "HloModule m ENTRY e { p = f32[8] parameter(0) a = f32[8] abs(p) b = f32[8] negate(a) c = f32[8] sine(a) "
    "d = f32[8] add(b, c) x = f32[8] cosine(c) ROOT t = (f32[8], f32[8]) tuple(d, x) }"
)


def test_ways_between_two_instructions() -> None:
    local = Local(60)
    found = local.graph(DIAMOND.encode(), "a", to="d")
    assert [each.name for each in found.instructions] == ["a", "b", "c", "d"]
    assert found.edges == ((0, 1, 0), (0, 2, 0), (1, 3, 0), (2, 3, 1))
    assert [each.name for each in local.graph(DIAMOND.encode(), "x", to="d").instructions] == ["d", "x"]
    with pytest.raises(NotFoundError) as caught:
        local.graph(DIAMOND.encode(), "a", to="none")
    assert caught.value.field == "to"


def test_a_graph_is_bounded_and_says_how_many_instructions_there_are() -> None:
    found = Local(60).graph(DIAMOND.encode(), "a", distance=3, max_instructions=4)
    assert [each.name for each in found.instructions] == ["p", "a", "b", "c"]
    assert found.instruction_count == 7


@pytest.mark.parametrize("field", ["operand_ids", "control_predecessor_ids"])
def test_edges_are_added_in_steps(field: str, tmp_path: Path) -> None:
    module = HloModule.parse("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }").proto
    instructions = module.computations[0].instructions
    getattr(instructions[1], field)[:] = [instructions[0].id] * 200_000
    request = v1.GraphRequest(module=v1.ModuleInput(serialized=module.SerializeToString())).SerializeToString()
    config = Config()
    handlers = ViewHandlers(config, Modules(config, Store(tmp_path, max_bytes=1 << 20, max_age=60)))
    handlers.graph(request, FOREVER)  # what follows is without the reading of the module
    looks: list[None] = []
    set_checkpoint(lambda: looks.append(None))
    try:
        answer = v1.GraphResponse.FromString(handlers.graph(request, FOREVER))
    finally:
        set_checkpoint(None)
    assert len(answer.edge_sources if field == "operand_ids" else answer.control_sources) >= 200_000
    assert len(looks) >= 3, "one for each 65,536 edges"


def test_bytes_of_tuples_and_of_arrays_of_unknown_size() -> None:
    text = "HloModule m ENTRY e { p = f32[<=8] parameter(0) q = f32[3,5]{1,0:T(2,2)} parameter(1) ROOT t = (f32[<=8], f32[3,5]{1,0:T(2,2)}) tuple(p, q) }"
    assert [(each.bytes, each.padding_bytes) for each in Local(60).graph(text.encode()).instructions] == [
        (32, 0), (96, 36), (128, 36),
    ]  # fmt: skip
    text = "HloModule m ENTRY e { ROOT p = f32[?] parameter(0) }"
    assert [(each.bytes, each.padding_bytes) for each in Local(60).graph(text.encode()).instructions] == [(None, None)]


def test_a_line_that_is_long_is_cut_and_lines_are_bounded_in_bytes() -> None:
    values = ", ".join(["1"] * 20_000)
    text = f"HloModule m ENTRY e {{ ROOT c = s32[20000] constant({{{values}}}) }}"
    name = "x" * 15_000
    lines = [f"{name}{number} = s32[] parameter({number})" for number in range(300)]
    module = HloModule.parse(f"HloModule m ENTRY e {{ {' '.join(lines)} ROOT r = s32[] negate({name}0) }}")
    found = Local(60).get_text(module, first_line=3)
    assert 100 < len(found.lines) < 300
    assert found.line_count == 305
    shown = Local(60).get_text(text.encode(), "c").lines[0]
    assert len(shown) <= 20_001


def test_content_that_is_too_large_is_refused(tmp_path: Path) -> None:
    config = Config(max_module_bytes=1 << 20)
    handlers = ViewHandlers(config, Modules(config, Store(tmp_path, max_bytes=1 << 30, max_age=60)))
    spaces = b" " * (2 << 20)
    for content, limit in ((spaces, "module_bytes"), (gzip.compress(spaces), "decompressed_bytes")):
        with pytest.raises(LimitExceededError) as caught:
            handlers.recognize(v1.RecognizeRequest(content=content).SerializeToString(), FOREVER)
        assert (caught.value.limit, caught.value.field) == (limit, "content")


def test_the_text_of_a_module_is_kept_with_it(client: Client) -> None:
    kept = client.upload_module(MODULES[0])
    assert client.get_text(kept, find="parameter(0)").found_count > 0
    assert (
        client.get_text(kept, find="PARAMETER(0)").found_lines == client.get_text(kept, find="parameter(0)").found_lines
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"map": "(d0) -> (d0), domain: d0 in [0, 7]", "shape": "f32[8]"}, {"shape": "f32[8]", "format": "pdf"}],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        Local(60).draw(**options)  # pyright: ignore[reportArgumentType]


def test_every_format_of_a_picture() -> None:
    local = Local(60)
    assert local.draw(shape="f32[8,8]").picture.startswith(b"<svg ")
    assert local.draw(shape="f32[8,8]", format="html").picture.startswith(b"<!DOCTYPE html>")
    assert local.draw(shape="f32[8,8]", format="txt").media_type == "text/plain"
    drawn = local.draw(DIAMOND.encode(), format="txt")
    assert drawn.title == "the memory of m"
    assert drawn.facts[0].startswith("estimated peak")
