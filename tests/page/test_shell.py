"""The frame of the page in a real browser: what it takes, what it shows first, links, the keyboard, hostile names, and
servers that fail."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from credentials import BOTH, WRITER
from optional import SHARED, shared

import xlashape as xs

MODULES = SHARED / "hlo" / "models"
NewPage = Callable[..., Any]

OOM = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.00G of 15.48G hbm. Exceeded hbm capacity by 4.52G.

Largest program allocations in hbm:

  1. Size: 6.00G
     Shape: u32[12582912,1]{1,0:T(8,128)}
     Unpadded size: 48.00M
     Extra memory due to padding: 5.95G (128.0x expansion)
     XLA label: fusion
     Allocation type: HLO temp
"""
VECTORS = Path(__file__).resolve().parents[1] / "vectors"
ROWS = "[role=grid] .body .row"


class Clicks:
    """Clicks, counted."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.count = 0

    def __call__(self, selector: str) -> None:
        self.page.click(selector)
        self.count += 1


HIDDEN = """() => {
  // Counts the timers that tick, and lets a test hide the page.
  const [begin, end, ticking] = [window.setInterval, window.clearInterval, new Set()];
  window.setInterval = (...given) => { const id = begin(...given); ticking.add(id); return id; };
  window.clearInterval = (id) => { ticking.delete(id); end(id); };
  let isHidden = false;
  Object.defineProperty(document, "hidden", { get: () => isHidden });
  window.ticking = () => ticking.size;
  window.hide = (value) => { isHidden = value; document.dispatchEvent(new Event("visibilitychange")); };
}"""


@pytest.mark.parametrize("fragment", ["", "#v=cost&m=" + "0" * 64])
def test_a_page_that_nobody_sees_has_no_timer(new_page: NewPage, fragment: str) -> None:
    page = new_page()
    page.evaluate(HIDDEN)
    page.route("**/*Service/*", lambda route: None)  # what was asked is never answered
    if fragment:
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
    else:
        page.get_by_role("button", name="a shape", exact=True).click()
    page.wait_for_function("() => ticking() === 1")
    page.evaluate("hide(true)")
    assert page.evaluate("ticking()") == 0
    page.evaluate("hide(false)")
    assert page.evaluate("ticking()") == 1


@pytest.mark.parametrize(
    ("text", "view", "seen"),
    [
        ("f32[3,5]{1,0:T(2,2)}", "shape", "f32[3,5]"),
        ("(d0) -> (d0 * 2), domain: d0 in [0, 9]", "map", "d0"),
        ("%t = f32[4,2]{1,0} transpose(f32[2,4]{1,0} %x), dimensions={1,0}", "element", "t"),
        (OOM, "why", "6.00 GiB"),
        ("HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n", "summary", "instructions"),
    ],
)
def test_what_is_pasted_is_shown_at_once(new_page: NewPage, text: str, view: str, seen: str) -> None:
    page = new_page()
    paste(page, text)
    page.wait_for_selector(f"[data-view={view}]")
    page.wait_for_function("seen => document.querySelector('.view').textContent.includes(seen)", arg=seen)


@pytest.mark.parametrize(
    ("name", "module"), [("attention on a CPU", "jit_attention"), ("a decoder's step on TPUs", "jit__lambda")]
)
def test_the_start_page_has_programs_to_look_at(new_page: NewPage, name: str, module: str) -> None:
    page = new_page(width=390, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "what makes its peak" in page.inner_text(".intake")
    page.click(f'button:text-is("{name}")')
    page.wait_for_selector("[data-view=summary] .findings")
    assert module in page.inner_text("header")


def test_a_mistake_is_shown_with_its_place_and_the_text_stays(new_page: NewPage) -> None:
    page = new_page()
    page.fill("textarea", "f32[3,5")
    page.keyboard.press("Enter")
    page.wait_for_selector(".intake .wrong p")
    assert "expected" in page.inner_text(".intake .wrong p")
    line, caret = page.inner_text(".caret").split("\n")
    assert line[caret.index("^") - 1] == "5"
    assert line.startswith("1:8")
    assert page.input_value("textarea") == "f32[3,5"
    page.keyboard.type("]")  # the caret is where the mistake is
    assert page.input_value("textarea") == "f32[3,5]"


@pytest.mark.parametrize("suffix", ["pb", "pb.gz", "txt"])
def test_files_of_every_form(new_page: NewPage, tmp_path: Path, suffix: str) -> None:
    data = (VECTORS / "memory" / "random_normal.hlo.pb").read_bytes()
    path = tmp_path / f"dump.{suffix}"
    module = xs.HloModule.of(data)
    path.write_bytes({"pb": data, "pb.gz": gzip.compress(data), "txt": module.to_text().encode()}[suffix])
    page = new_page()
    page.set_input_files("input[type=file]", str(path))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    count = sum(len(each.instructions) for each in module.computations)
    assert page.get_attribute("[role=grid]", "aria-rowcount") == str(count + 1)
    assert page.inner_text(".subject") == module.name


def test_from_a_dump_to_the_source_line_of_its_worst_copy(new_page: NewPage) -> None:
    path = VECTORS / "memory" / "random_normal.hlo.pb"
    worst = xs.copies(xs.HloModule.of(path.read_bytes()))[0]
    page = new_page()
    page.set_input_files("input[type=file]", str(path))
    click = Clicks(page)
    click("nav a:text-is('Copies')")
    click(f"{ROWS} >> nth=0 >> div >> nth=1")
    page.wait_for_selector(f".inspector >> text={worst.source}")
    assert worst.name in page.inner_text(".inspector h2")
    assert click.count <= 4


def test_from_a_report_about_memory_to_the_suggestion(new_page: NewPage) -> None:
    page = new_page()
    paste(page, OOM)
    page.wait_for_selector(".advice li")  # no click at all
    best = xs.why(OOM).suggestions[0]
    assert best.jax in page.inner_text(".advice li >> nth=0")
    assert page.inner_text(".advice li b >> nth=0") == "5.95 GiB"


def test_two_files_are_compared_with_links_into_both(new_page: NewPage, tmp_path: Path) -> None:
    for name, columns in (("a", 128), ("b", 256)):
        (tmp_path / f"{name}.hlo").write_text(
            f"HloModule m\n\nENTRY e {{\n  p = f32[8,{columns}] parameter(0)\n  ROOT n = f32[8,{columns}] negate(p)\n}}\n"
        )
    page = new_page()
    page.set_input_files("input[type=file]", [str(tmp_path / "a.hlo"), str(tmp_path / "b.hlo")])
    page.wait_for_selector("[data-view=diff]")
    page.wait_for_selector(ROWS)
    comparison = page.url
    for number in range(2):  # a link of the first module, and one of the second
        page.goto(comparison)
        page.click(f"{ROWS} a >> nth={number}")
        page.wait_for_selector("[data-view=instructions]")
        page.wait_for_selector(".inspector h2")


def test_a_narrow_comparison_names_what_was_removed_with_its_bytes(new_page: NewPage) -> None:
    files = [VECTORS / "memory" / f"{name}.hlo.pb" for name in ("fft_filter", "three_branches")]
    page = new_page(width=390, height=844)
    page.set_input_files("input[type=file]", [str(each) for each in files])
    page.wait_for_selector(f"{ROWS}:has-text('removed')")
    rows = [row.split("\n") for row in page.locator(ROWS).all_inner_texts()]
    removed = [row for row in rows if row[0] == "removed"]
    names = {each.name for each in xs.HloModule.load(files[0]).instructions()}
    assert all(names.intersection(row) and any(cell.endswith("B") for cell in row) for row in removed)
    name = next(iter(names.intersection(removed[0])))
    page.get_by_role("link", name=name, exact=True).first.click()
    page.wait_for_selector(f".inspector h2:text-is('{name}')")


def test_a_target_says_what_is_slow_and_stays_in_every_view(new_page: NewPage) -> None:
    page = new_page()
    page.set_input_files("input[type=file]", str(VECTORS / "collectives" / "tpu_decoder_step.pb.gz"))
    page.wait_for_selector(".findings")
    page.get_by_label("target").select_option("tpu-v5e")
    page.wait_for_selector(".findings:has-text('of the least time')")
    page.get_by_role("link", name="Cost", exact=True).click()
    page.wait_for_selector(".hero:has-text('least time of a run')")
    least = xs.cost(xs.HloModule.load(VECTORS / "collectives" / "tpu_decoder_step.pb.gz"), target="tpu-v5e").least_time
    number, unit = page.inner_text(".hero strong").split()
    assert float(number) * {"µs": 1e-6, "ms": 1e-3}[unit] == pytest.approx(least, rel=1e-3)


def test_a_profile(new_page: NewPage) -> None:
    page = new_page()
    page.set_input_files("input[type=file]", str(VECTORS / "profiles" / "scan_grad.xplane.pb"))
    page.wait_for_selector("[data-view=profile] .hero strong")
    page.wait_for_selector(ROWS)
    assert page.query_selector(f"{ROWS} a") is None
    page.wait_for_selector(".timeline svg[aria-label='the time of 8 instructions, the longest first']")
    assert page.inner_text(".timeline .readout").startswith("call.5 · 16.9 µs")


def test_a_profile_beside_its_module_has_links_into_it(new_page: NewPage, tmp_path: Path) -> None:
    module = tmp_path / "module.hlo"
    module.write_text("HloModule m\n\nENTRY e {\n  p = f32[3] parameter(0)\n  ROOT call.5 = f32[3] negate(p)\n}\n")
    page = new_page()
    page.set_input_files("input[type=file]", [str(module), str(VECTORS / "profiles" / "scan_grad.xplane.pb")])
    page.wait_for_selector("[data-view=profile]")
    page.wait_for_selector(".timeline svg[aria-label='the time of 8 instructions, in the order of the program']")
    assert page.inner_text(".timeline .readout").endswith("24 B live")  # the parameter and the result of call.5
    page.click(f"{ROWS} a:text-is('call.5')")
    page.wait_for_selector(".inspector h2:text-is('call.5')")
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    page.go_back()
    page.wait_for_selector("[data-view=profile]")


@pytest.mark.parametrize("view", ["instructions", "memory", "copies", "source", "text"])
def test_a_copied_link_shows_the_same_in_a_fresh_profile(new_page: NewPage, view: str) -> None:
    page = new_page()
    page.set_input_files("input[type=file]", str(VECTORS / "memory" / "random_normal.hlo.pb"))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    title = {"instructions": "Instructions", "memory": "Memory", "copies": "Copies", "source": "Source", "text": "Text"}
    page.click(f"nav a:text-is('{title[view]}')")
    page.wait_for_selector(f"[data-view={view}]")
    if view in ("instructions", "copies", "memory"):
        page.wait_for_selector(ROWS)
        page.fill("input.filter", "bytes>=1KiB")
        page.wait_for_timeout(600)
        page.click(f"{ROWS} >> nth=0 >> div >> nth=1")
        page.wait_for_selector(".inspector h2")
    settle(page)
    page.click(".copy button")
    page.click(".menu button:text-is('Link')")
    page.wait_for_selector(".flash")
    link = page.evaluate("navigator.clipboard.readText()")
    other = new_page("#" + link.partition("#")[2])
    settle(other)
    assert outline(other) == outline(page)


def test_a_link_carries_small_inputs_to_another_server(new_page: NewPage) -> None:
    """A server that never had the module gets it from the link."""
    from xlashape_server import Config, Server

    page = new_page()
    paste(page, "HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n")
    page.wait_for_selector("[data-view=summary] .facts")
    fragment = "#" + page.url.partition("#")[2]
    with Server(Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error")) as fresh:
        other = new_page(fragment, url=f"http://{fresh.http_address}/")
        other.wait_for_selector("[data-view=summary] .facts")
        assert other.inner_text(".subject") == "m"


HOSTILE = ("<img src=x onerror=alert(1)>", "\u202eevil", "a" * 100_000, "</script><script>alert(1)</script>")


@pytest.mark.parametrize("name", HOSTILE, ids=["element", "direction", "length", "script"])
def test_hostile_names_are_text(new_page: NewPage, tmp_path: Path, name: str) -> None:
    module = xs.HloModule.parse("HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n")
    proto = module.to_proto()
    proto.name = name
    instruction = proto.computations[0].instructions[0]
    instruction.name = name
    instruction.metadata.op_name = name
    instruction.metadata.source_file = name
    instruction.metadata.source_line = 7
    path = tmp_path / "hostile.pb"
    path.write_bytes(proto.SerializeToString())
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.set_input_files("input[type=file]", str(path))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    page.click(f"{ROWS} >> nth=0 >> div >> nth=1")
    page.wait_for_selector(".inspector h2")
    for title in ("Source", "Text", "Memory", "Cost", "Buffers", "Why so large", "Verify"):
        page.click(f"nav a:text-is('{title}')")
        settle(page)
    assert page.evaluate("document.querySelectorAll('img, body script').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_keyboard_alone(new_page: NewPage) -> None:
    page = new_page()
    page.keyboard.type("f32[3,")  # the box has the focus
    page.keyboard.press("Enter")
    page.wait_for_selector(".intake .wrong p")
    page.set_input_files("input[type=file]", str(VECTORS / "memory" / "random_normal.hlo.pb"))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    page.keyboard.type("opcode=fusion")
    page.wait_for_timeout(500)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".inspector h2")
    second = page.inner_text(f"{ROWS}[data-row='1'] >> div >> nth=0")
    assert page.inner_text(".inspector h2") == second
    assert page.get_attribute(f"{ROWS}[data-row='1']", "aria-selected") == "true"
    page.keyboard.press("Escape")
    page.wait_for_selector(".inspector", state="hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(new_page: NewPage, packages: Path, scheme: str) -> None:
    axe = packages / "axe-core" / "axe.min.js"
    page = new_page(color_scheme=scheme)
    found: list[str] = []

    def look(place: str) -> None:
        settle(page)
        page.evaluate(axe.read_text() + ";0")
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found.extend(
            f"{place}: {each['id']} {each['nodes'][0]['html'][:200]}"
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        )

    look("start")
    page.set_input_files("input[type=file]", str(VECTORS / "memory" / "random_normal.hlo.pb"))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    for title in (
        "Summary",
        "Instructions",
        "Source",
        "Text",
        "Memory",
        "Copies",
        "Reads",
        "Cost",
        "Collectives",
        "Why so large",
        "Verify",
    ):
        page.click(f"nav a:text-is('{title}')")
        look(title)
    page.click("nav a:text-is('Copies')")
    page.click(f"{ROWS} >> nth=0 >> div >> nth=1")
    page.click(".copy button")
    look("inspector and menu")
    page.goto(page.url.partition("#")[0])
    paste(page, OOM)
    look("report")
    assert not found


def test_narrow_pages_do_not_scroll_sideways(new_page: NewPage) -> None:
    page = new_page(width=390, height=844)
    page.set_input_files("input[type=file]", str(VECTORS / "memory" / "random_normal.hlo.pb"))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    for title in ("Summary", "Instructions", "Source", "Text", "Memory", "Copies", "Reads", "Cost", "Collectives"):
        page.click(f"nav a:text-is('{title}')")
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, title
        assert page.evaluate("document.querySelector('.viewbox').scrollWidth") <= 390, title


def test_copies_in_every_form_are_what_they_say(new_page: NewPage, server: Any) -> None:
    path = VECTORS / "memory" / "random_normal.hlo.pb"
    page = new_page()
    page.set_input_files("input[type=file]", str(path))
    page.click("nav a:text-is('Instructions')")
    page.wait_for_selector(ROWS)
    page.click("nav a:text-is('Copies')")
    page.wait_for_selector(ROWS)

    def copied(form: str) -> str:
        page.click(".copy button")
        page.click(f".menu button:text-is('{form}')")
        page.wait_for_selector(".flash")
        page.wait_for_selector(".flash", state="detached")
        return page.evaluate("navigator.clipboard.readText()")

    answer = xs.copies(xs.HloModule.of(path.read_bytes()))
    assert answer[0].name in copied("Markdown")
    assert copied("Python").startswith('import xlashape as xs\n\nanswer = xs.copies("FILE")')
    assert copied("Shell") == "xlashape copies FILE"
    command = copied("curl")
    url, body = command.split(" ")[2], command.partition("-d ")[2].strip("'")
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        assert json.load(response)["rows"][0]["name"] == answer[0].name


class _Failing(http.server.BaseHTTPRequestHandler):
    """Answers the page's files from a real server's folder, and RPCs as the test says."""

    mode = "hang"
    held = threading.Event()

    def do_GET(self) -> None:
        folder = Path(__file__).resolve().parents[2] / "server" / "xlashape_server" / "page"
        path = folder / (self.path.strip("/") or "index.html")
        self.send_response(200 if path.exists() else 404)
        kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}.get(path.suffix, "text/plain")
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(path.read_bytes() if path.exists() else b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.mode == "die":
            self.connection.close()
        elif self.mode == "hang":
            self.held.wait(30)
        else:
            code, status = {"refuse": ("resource_exhausted", 429), "token": ("unauthenticated", 401)}[self.mode]
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"code": code, "message": "too much"}).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
        """Suppresses log lines."""


@pytest.fixture
def failing() -> Iterator[tuple[type[_Failing], str]]:
    _Failing.held = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield _Failing, f"http://127.0.0.1:{server.server_port}/"
    _Failing.held.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("mode", "told"), [("die", "does not answer"), ("refuse", "too much"), ("token", "wants a token"), ("hang", "")]
)
def test_a_server_that_fails_leaves_the_text(
    new_page: NewPage, failing: tuple[type[_Failing], str], mode: str, told: str
) -> None:
    handler, url = failing
    handler.mode = mode
    page = new_page(url=url)
    page.fill("textarea", "f32[3,5]")
    page.keyboard.press("Enter")
    if mode == "hang":
        page.wait_for_selector(".intake .note >> text=/[23] s/")
        page.click("text=Cancel")
        page.wait_for_selector(".intake .note >> text=Cancelled.")
    else:
        page.wait_for_selector(f".intake .wrong >> text={told}")
    assert page.input_value("textarea") == "f32[3,5]"
    if mode == "token":
        assert page.is_visible("input[type=password]")


def test_a_token_stays_in_memory(new_page: NewPage, tmp_path: Path) -> None:
    from xlashape_server import Config, Server

    (tmp_path / "auth.toml").write_text(BOTH)
    config = Config(
        address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error", auth=str(tmp_path / "auth.toml")
    )
    with Server(config) as guarded:
        page = new_page(url=f"http://{guarded.http_address}/")
        page.fill("textarea", "f32[3,5]")
        page.keyboard.press("Enter")
        page.wait_for_selector("input[type=password]:visible")
        page.fill("input[type=password]", WRITER)
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-view=shape]")
        assert WRITER not in page.url
        assert (
            page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
        )
        page = new_page(f"#v=shape&s=f32[3]&token={WRITER}", url=f"http://{guarded.http_address}/")
        page.wait_for_selector("[data-view=shape]")
        assert f"token={WRITER}" in page.url  # of a loopback server, so that a reload and a new tab keep it
        page.reload()
        page.wait_for_selector("[data-view=shape]")


def test_llama(new_page: NewPage) -> None:
    path = shared("hlo", "models", "hlo_llama31_8b_bf16_1x8.hlo")
    page = new_page()
    page.set_input_files("input[type=file]", str(path))
    page.click("nav a:text-is('Instructions')", timeout=60_000)
    page.wait_for_selector(ROWS, timeout=60_000)
    assert page.get_attribute("[role=grid]", "aria-rowcount") == "31856"
    assert page.evaluate("document.querySelectorAll('[role=grid] .body .row').length") < 100


def test_what_lives_at_a_step_and_what_would_make_it_fit(new_page: NewPage) -> None:
    page = new_page()
    page.set_input_files("input[type=file]", str(VECTORS / "memory" / "random_normal.hlo.pb"))
    page.click("nav a:text-is('Memory')")
    page.wait_for_selector(".timeline svg")
    page.click(".timeline svg", position={"x": 200, "y": 60})
    page.wait_for_selector(".tabs a[aria-current]:text-is('at a step')")
    page.wait_for_selector(ROWS)
    page.click(".tabs a:text-is('make it fit')")
    page.fill(".argument input", "1KiB")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('a=1KiB')")
    settle(page)
    assert page.query_selector(".error") is None


def paste(page: Any, text: str) -> None:
    """Pastes a text as a person does."""
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    page.keyboard.press("Control+V")


def settle(page: Any) -> None:
    """Waits until the server has answered and nothing changes."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function(
        """() => new Promise(resolve => {
             const now = document.body.innerHTML;
             setTimeout(() => resolve(now === document.body.innerHTML && !now.includes('…</strong>')), 400);
           })"""
    )


def outline(page: Any) -> str:
    """What the page shows, without what a person has touched."""
    return page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(each => !each.closest('.intake'))
             .map(each => `${each.tagName} ${each.children.length ? '' : each.textContent} ${each.getAttribute('aria-selected') ?? ''}`).join('\\n')"""
    )
