"""Graphs, shapes and what elements read, in a browser: what is pointed at is what the library says."""

from __future__ import annotations

import random
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
from server_processes import wait_until

import xlashape as xs
from xlashape_client import Client

MODULE = resources.files("xlashape.data") / "attention.hlo.pb"
POINTED = """(host, {array, count, seed}) => {
  // Points at cells as a pointer does, and says what the page shows of each.
  const root = host.shadowRoot;
  const cells = [...root.querySelectorAll("[data-i]")].filter((cell) => cell.closest("[data-array]").dataset.array === String(array) && cell.closest("[data-panel]").dataset.panel !== "tiles");
  let state = seed;
  const found = [];
  for (let n = 0; n < count; n++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const cell = cells[state % cells.length];
    cell.dispatchEvent(new PointerEvent("pointerover", { bubbles: true, composed: true }));
    const read = [...root.querySelectorAll("rect.read")].map((each) => [Number(each.closest("[data-array]").dataset.array), each.dataset.i, each.dataset.p]);
    const framed = [...root.querySelectorAll("rect.framed")].map((each) => each.dataset.p);
    const shown = Object.fromEntries([...document.querySelectorAll(".places input")].map((input) => [input.name, input.value]));
    found.push({ index: cell.dataset.i, position: cell.dataset.p, read, framed, shown });
  }
  const all = [...root.querySelectorAll("[data-array]")].flatMap((panel) => panel.dataset.panel === "tiles" ? [] : [...panel.querySelectorAll("[data-i]")].map((cell) => [Number(panel.dataset.array), cell.dataset.i]));
  return { found, all };
}"""


@pytest.fixture(scope="session")
def address(server: Any) -> str:
    return f"http://{server.http_address}/"


@pytest.fixture(scope="session")
def stored(server: Any) -> Any:
    """A function that stores a module and returns the name that links have."""
    client = Client(server.address)

    def store(content: bytes | str) -> str:
        module = xs.HloModule.parse(content) if isinstance(content, str) else xs.HloModule.from_bytes(content)
        return client.put_module(module).name.removeprefix("modules/")

    yield store
    client.close()


@pytest.fixture(scope="session")
def attention(stored: Any) -> str:
    return stored(MODULE.read_bytes())


def fragment(page: Any) -> dict[str, str]:
    # page.url may be that of a moment before
    return {name: values[0] for name, values in parse_qs(page.evaluate("() => location.hash.slice(1)")).items()}


def graph(page: Any, address: str, **state: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#v=graph&" + "&".join(f"{name}={quote(value)}" for name, value in state.items()))
    page.wait_for_selector(".graph-canvas[data-ready]")


def listed(page: Any) -> list[str]:
    """The nodes of a graph with their neighbours, as the list for screen readers has them."""
    page.locator(".graph-list summary").click()
    page.wait_for_selector(".graph-list li")
    return page.locator(".graph-list li").all_inner_texts()


# -- graphs ------------------------------------------------------------------------------------


def test_a_graph_shows_a_computation(page, address, attention):
    graph(page, address, m=attention)
    assert page.locator(".graph-count").inner_text() == "19 nodes, 21 edges"
    page.locator(".graph-canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = fragment(page)["i"]
    module = xs.HloModule.from_bytes(MODULE.read_bytes())
    page.keyboard.press("ArrowUp")
    assert fragment(page)["i"] in [operand.name for operand in module.instruction(chosen).operands]
    page.keyboard.press("/")
    page.keyboard.type("ynn_fusion.4")
    page.keyboard.press("Enter")
    assert fragment(page)["i"] == "ynn_fusion.4"
    told = page.locator(".graph-focus").inner_text()
    assert "reads convert_bitcast_fusion.1, wrapped_convert" in told
    assert "read by wrapped_convert.1" in told


def test_a_search_says_how_many_nodes_it_found(page, address, attention):
    graph(page, address, m=attention)
    for text, told in (("nothing has this name", "not found"), ("fusion", r"^\d+ found$"), ("", "^$")):
        page.get_by_label("search nodes").fill(text)
        page.wait_for_function(
            "(told) => new RegExp(told).test(document.querySelector('.graph-bar .found').textContent)", arg=told
        )


def test_a_graph_is_painted_in_the_frame_in_which_its_size_changes(page, address, attention):
    """Programs that take a picture of a page change its size for that, and wait for no further frame."""
    graph(page, address, m=attention)
    page.evaluate("() => { window.requestAnimationFrame = () => 1 }")
    canvas = page.locator(".graph-canvas")
    for width, height in ((1400, 700), (1400, 987), (900, 900), (390, 844), (1400, 900)):
        before = canvas.evaluate("c => [c.clientWidth, c.clientHeight]")
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            """before => { const c = document.querySelector('.graph-canvas'), now = [c.clientWidth, c.clientHeight];
            return now.join() !== before.join() && now.join() === [c.width, c.height].join() }""",
            arg=before,
        )
        first, colours = canvas.evaluate(
            """c => { const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);
            return [[...data.slice(0, 3)], new Set(new Uint32Array(data.buffer)).size] }"""
        )
        assert first != [0, 0, 0] and colours > 3, (width, height)


def test_the_list_of_a_graph_has_every_node_with_its_neighbours(page, address, attention):
    graph(page, address, m=attention)
    items = listed(page)
    module = xs.HloModule.from_bytes(MODULE.read_bytes())
    assert len(items) == len(module.entry.instructions)
    for instruction in module.entry.instructions:
        (item,) = [text for text in items if text.startswith(f"{instruction.name} ")]
        for operand in instruction.operands:
            assert operand.name in item.partition(" reads ")[2].partition(", read by ")[0]
        for user in instruction.users:
            assert user.name in item.partition("read by ")[2]


def test_a_fusion_is_opened_in_its_place_and_surroundings_are_shown(page, address, attention):
    name = "transpose_copy_fusion.1"
    graph(page, address, m=attention, gi=f"{name}~1", gx=name)
    texts = " ".join(listed(page))
    module = xs.HloModule.from_bytes(MODULE.read_bytes())
    called = module.instruction(name).called_computations[0]
    inner = [each.name for each in called.instructions if each.opcode.value != "parameter"]
    assert all(each in texts for each in inner)
    assert f"{name} " not in texts
    assert "wrapped_convert.1" in texts


def test_everything_between_two_instructions(page, address, attention):
    graph(page, address, m=attention, gi="ynn_fusion.3", u="ynn_fusion.1")
    names = {text.split(" ")[0] for text in listed(page)}
    assert names == {
        "ynn_fusion.3",
        "ynn_fusion.2",
        "broadcast_divide_fusion",
        "convert_convert_fusion",
        "ynn_fusion.1",
    }


def layered(layers: int) -> str:
    lines = ["HloModule layers", "ENTRY e {", "  x0 = f32[8,8] parameter(0)"]
    for n in range(layers):
        lines += [
            f'  w{n} = f32[8,8] parameter({n + 1}), metadata={{op_name="layer_{n}/w"}}',
            f'  d{n} = f32[8,8] dot(x{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/layer_{n}/dot"}}',
            f'  t{n} = f32[8,8] tanh(d{n}), metadata={{op_name="jit(f)/layer_{n}/tanh"}}',
            f'  x{n + 1} = f32[8,8] add(t{n}, x{n}), metadata={{op_name="jit(f)/layer_{n}/add"}}',
        ]
    return "\n".join([*lines, f'  ROOT out = f32[8,8] negate(x{layers}), metadata={{op_name="jit(f)/head/neg"}}', "}"])


def test_repeated_layers_are_one_with_a_count_and_open_in_place(page, address, stored):
    graph(page, address, m=stored(layered(20)))
    assert any(item.startswith("layer_0…19 ×20 ") for item in listed(page))
    page.locator(".graph-list").get_by_role("button", name="layer_0…19").first.click()
    page.get_by_role("link", name="open this layer").click()
    page.get_by_role("link", name="close layer_0…19").wait_for()
    opened = page.locator(".graph-list li").all_inner_texts()
    assert [sum(f"×20 · {opcode}" in text for text in opened) for opcode in ("dot", "tanh", "add")] == [1, 1, 1]
    page.get_by_role("link", name="close layer_0…19").click()
    page.wait_for_function("() => document.querySelector('.graph-list').textContent.includes('layer_0…19')")


def test_a_click_opens_a_layer(page, address, stored):
    graph(page, address, m=stored(layered(20)))
    box = page.locator(".graph-canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 - 45)  # the layers, above the head
    page.get_by_role("link", name="close layer_0…19").wait_for()


def test_a_link_to_an_instruction_opens_the_layers_around_it(page, address, stored):
    graph(page, address, m=stored(layered(20)), i="d7")
    assert page.get_by_role("link", name="close layer_0…19").count() == 1
    assert "dot" in page.locator(".graph-focus").inner_text()


def test_hostile_names_are_text(page, address, stored):
    name = "a" * 3000
    text = f'HloModule m\nENTRY e {{\n  {name} = f32[4] parameter(0), metadata={{op_name="<img src=x onerror=alert(1)>/\u202eabc"}}\n  ROOT r = f32[4] negate({name}), metadata={{op_name="<img src=x onerror=alert(1)>/\u202eabc"}}\n}}'
    graph(page, address, m=stored(text))
    assert len(listed(page)) == 2
    assert page.locator("img").count() == 0


IDLE = """() => new Promise((resolve) => {
  const called = [];
  for (const name of ["requestAnimationFrame", "setTimeout", "setInterval", "fetch"]) window[name] = () => called.push(name);
  new MutationObserver(() => called.push("change")).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
  performance.clearResourceTimings();
  const clock = new Worker(URL.createObjectURL(new Blob(["setInterval(postMessage, 1500, 0)"])));
  clock.onmessage = () => resolve([...called, ...performance.getEntriesByType("resource").map(({name}) => name).filter((name) => !name.startsWith("blob:"))]);
})"""
"""What a page does of itself in a second and a half. The clock is that of a worker, since the page's own is counted."""


@pytest.mark.parametrize("view", ["summary", "graph", "memory", "element", "text"])
def test_a_page_that_nobody_touches_does_nothing(page, address, attention, view):
    page.goto(f"{address}#v={view}&m={attention}")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)
    assert page.evaluate(IDLE) == []


def test_elements_begin_with_the_result(page, address, attention):
    page.goto(f"{address}#v=element&m={attention}")
    root = xs.HloModule.from_bytes(MODULE.read_bytes()).entry.root
    page.get_by_role("heading", name=f"{root.name} ({root.opcode})").first.wait_for()
    page.wait_for_selector("section[data-operand]")


def test_make_it_fit_says_whether_it_fits_and_keeps_what_was_typed(page, address, attention):
    page.goto(f"{address}#v=memory&m={attention}&t=fit")
    limit = page.get_by_placeholder("such as 16GiB")
    limit.fill("2MiB")
    limit.press("Enter")
    page.wait_for_selector(".verdict:has-text('limit of 2.00 MiB')")
    assert limit.input_value() == "2MiB"
    memory = xs.memory(MODULE)
    texts = [each.text for each in memory.suggest(limit=2 << 20)]
    shown = page.locator(".fit li").all_inner_texts()
    assert len(texts) == len(shown) > 1
    assert all(text in each for text, each in zip(texts, shown, strict=True))


# -- shapes ------------------------------------------------------------------------------------


SHAPES = (
    "bf16[20,300]{1,0:T(8,128)(2,1)}",
    "f32[3,5]{1,0:T(2,2)}",
    "s4[64,256]{1,0:T(8,128)(4,1)E(4)}",
    "f32[2,2,4,6]{3,2,1,0:T(2,4)}",
)


@pytest.mark.parametrize("text", SHAPES)
def test_what_is_pointed_at_in_a_shape(page, address, text):
    """250 cells of each shape: index, position, byte and bit are those of tiled indexing, and all cells of the element
    are framed."""
    page.goto(f"{address}#v=shape&s={quote(text)}")
    page.wait_for_selector(".picture [data-i]")
    page.wait_for_timeout(300)  # the picture is not drawn again
    answer = page.locator(".picture").first.evaluate(POINTED, {"array": 0, "count": 250, "seed": 1})
    shape = xs.Shape.parse(text)
    bits = xs.tiling.stored_bits(shape)
    assert len(answer["found"]) == 250
    for each in answer["found"]:
        index = tuple(map(int, each["index"].split(",")))
        position = xs.tiling.linear_index(shape, index)
        assert each["position"] == str(position)
        assert each["shown"] == {
            "index": ", ".join(map(str, index)),
            "position": str(position),
            "byte": str(position * bits // 8),
            "bit": str(position * bits),
        }
        assert set(each["framed"]) == {str(position)}


def test_places_that_are_typed(page, address):
    shape = xs.Shape.parse("bf16[20,300]{1,0:T(8,128)(2,1)}")
    page.goto(f"{address}#v=shape&s={quote(str(shape))}")
    page.wait_for_selector(".picture [data-i]")
    generator = random.Random(3)
    for _ in range(5):
        index = tuple(generator.randrange(size) for size in shape.dimensions)
        position = xs.tiling.linear_index(shape, index)
        box, value = generator.choice(
            [
                ("index", ",".join(map(str, index))),
                ("position", str(position)),
                ("byte", str(2 * position)),
                ("bit", str(16 * position)),
            ]
        )
        page.locator(f'.places input[name="{box}"]').fill(value)
        page.locator(f'.places input[name="{box}"]').press("Enter")
        page.wait_for_url(lambda url, index=index: f"at%3D{'%2C'.join(map(str, index))}" in url)
        page.wait_for_selector(f'.picture [data-i="{",".join(map(str, index))}"]')
    page.locator('.places input[name="index"]').fill("30,0")
    page.locator('.places input[name="index"]').press("Enter")
    page.locator('[role="alert"]', has_text="index 30").wait_for()


@pytest.mark.parametrize("link", ["e=9,9", "z=at%3D9,9"])
def test_a_link_with_an_index_outside_says_so_beside_the_shape(page, address, link):
    page.goto("about:blank")
    page.goto(f"{address}#v=shape&s={quote('f32[3,5]')}&{link}")
    page.wait_for_selector(".error[role=alert]")
    assert "index 9 is outside dimension 0" in page.locator(".error[role=alert]").inner_text()
    page.wait_for_selector(".shape-head h1")
    assert page.locator("input[name=position]").input_value() == ""


def test_a_link_with_an_index_marks_the_element(page, address):
    page.goto("about:blank")
    page.goto(f"{address}#v=shape&s={quote('f32[3,5]{1,0:T(2,2)}')}&e=2,3")
    wait_until(lambda: page.locator("input[name=position]").input_value() == "17")
    page.goto("about:blank")
    page.goto(f"{address}#v=shape&s={quote('f32[3,5]')}&e=a,b")
    page.wait_for_selector(".error[role=alert]")
    assert "expected an index such as 2,3" in page.locator(".error[role=alert]").inner_text()


def test_controls_change_the_shape_and_the_link(page, address):
    page.goto(f"{address}#v=shape&s={quote('f32[20,300]{1,0}')}")
    page.get_by_label("element type").select_option("BF16")
    page.wait_for_url(lambda url: "bf16" in url)
    page.get_by_label("swap d0 and d1").click()
    page.wait_for_url(lambda url: "%7B0%2C1" in url)
    page.get_by_label("tiles", exact=True).select_option("8,128;2,1")
    page.wait_for_url(lambda url: "T%288%2C128%29%282%2C1%29" in url)
    assert fragment(page)["s"] == "bf16[20,300]{0,1:T(8,128)(2,1)}"
    page.locator(".shape-head h1", has_text="bf16[20,300]{0,1:T(8,128)(2,1)}").wait_for()


def test_suggestions_are_shown_before_and_after(page, address):
    shape = "s32[1024,8,4]{2,1,0:T(8,128)}"
    page.goto(f"{address}#v=shape&s={quote(shape)}")
    page.get_by_role("link", name="show", exact=True).first.click()
    page.wait_for_url(lambda url: "b=" in url)
    assert fragment(page)["s"] == shape
    assert xs.tiling.physical_bytes(xs.Shape.parse(fragment(page)["b"])) < xs.tiling.physical_bytes(
        xs.Shape.parse(shape)
    )
    page.get_by_role("link", name="back to one").click()
    page.wait_for_url(lambda url: "b=" not in url)


# -- what an element reads ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["transpose_copy_fusion.1", "ynn_fusion.4", "ynn_fusion.3", "convert_bitcast_fusion.1"]
)
def test_what_an_element_reads_lights_up(page, address, attention, name):
    """250 elements of each: the cells that light up are exactly those that the maps of the library name, among the
    cells that are drawn, at their positions."""
    module = xs.HloModule.from_bytes(MODULE.read_bytes())
    instruction = module.instruction(name)
    answers = xs.indexing.output_to_input(instruction)
    page.goto(f"{address}#v=element&m={attention}&i={name}")
    page.wait_for_selector(".picture [data-i]")
    page.wait_for_timeout(300)
    answer = page.locator(".picture").evaluate(POINTED, {"array": 0, "count": 250, "seed": 5})
    drawn: dict[int, set[str]] = {}
    for array, index in answer["all"]:
        drawn.setdefault(array, set()).add(index)
    for each in answer["found"]:
        index = tuple(map(int, each["index"].split(",")))
        expected: set[tuple[int, str]] = set()
        for number, accesses in enumerate(answers):
            for access in accesses.simplify():
                for point in product_of_ranges(access.map):
                    results = access.map.evaluate((*index, *point))
                    if results is not None:
                        expected.add((number + 1, ",".join(map(str, results))))
        assert {(array, read) for array, read, _ in each["read"]} == {
            (array, read) for array, read in expected if read in drawn.get(array, ())
        }
        for array, read, position in each["read"]:
            shape = instruction.operands[array - 1].shape
            assert int(position) == xs.tiling.linear_index(shape, tuple(map(int, read.split(","))))


def product_of_ranges(indexing_map: Any) -> list[tuple[int, ...]]:
    points: list[tuple[int, ...]] = [()]
    for variable in indexing_map.ranges:
        points = [
            (*point, value) for point in points for value in range(variable.bounds.lower, variable.bounds.upper + 1)
        ]
    return points


def test_a_tile_and_a_warp(page, address, attention):
    page.goto(f"{address}#v=element&m={attention}&i=ynn_fusion.4")
    page.wait_for_selector(".picture [data-i]")
    page.get_by_label("what reads").select_option("tile")
    page.wait_for_url(lambda url: "tile" in url)
    page.get_by_text("reads the tile at (0, 0) of 8 × 256").wait_for()
    page.get_by_label("what reads").select_option("warp")
    page.get_by_text("32 outputs read").first.wait_for()


def test_a_map_alone(page, address):
    text = "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 4]"
    page.goto(f"{address}#v=map&p={quote(text)}")
    page.wait_for_selector(".picture [data-i]")
    page.wait_for_timeout(300)
    answer = page.locator(".picture").evaluate(POINTED, {"array": 0, "count": 40, "seed": 2})
    for each in answer["found"]:
        row, column = each["index"].split(",")
        assert [(array, read) for array, read, _ in each["read"]] == [(1, f"{column},{row}")]
