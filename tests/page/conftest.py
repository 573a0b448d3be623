"""The page in a real browser: Debian's Chromium, driven by Playwright, which reaches nothing but what a test opens.

Playwright brings no browser here, and is no part of the extra `test`: it installs 45 MB for the tests of this folder
alone. `pip install playwright` and a Chromium on PATH run them; they are skipped without, and fail under CI, where
`.ci/run` installs both.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from optional import needed_in_ci, without

from xlashape_server import Config, Server

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
SOURCES = Path(__file__).resolve().parents[2] / "server" / "page"


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the page's npm packages, as the lock names them: compiler, bundler, axe. Processes of one run of
    tests install them once."""
    folder = SOURCES / "node_modules"
    if os.environ.get("CI") != "true" and not folder.exists():
        pytest.skip("installs npm packages; set CI=true to run it")
    if shutil.which("npm") is None:
        pytest.fail("npm is not installed")
    with (SOURCES / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".package-lock.json").exists():
            command = ("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
            made = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=600, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
    return folder


@pytest.fixture(scope="session")
def server() -> Generator[Server]:
    """A server with the page at `http://{server.http_address}/`, which everybody may ask."""
    needed_in_ci("uvicorn")
    config = Config(address="127.0.0.1:0", http="127.0.0.1:0", workers=1, log_level="error")
    with Server(config) as running:
        yield running


# Playwright runs an event loop in this thread until it ends, beside which tests of other files can run none.
@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    """Chromium, as Playwright has it."""
    playwright = needed_in_ci("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        without("Chromium is not installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def new_context(browser: Any) -> Generator[Callable[..., Any]]:
    """Makes fresh profiles: `new_context(viewport={"width": 390, "height": 844})`. What asks for anything but this
    machine's loopback address and files fails the test, and so do errors of scripts and breaches of the content
    security policy.
    """
    contexts: list[Any] = []
    foreign: list[str] = []
    wrong: list[str] = []

    def routed(route: Any) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("file", "data", "blob") or address.hostname == "127.0.0.1":
            route.continue_()
        else:
            foreign.append(route.request.url)
            route.abort()

    def opened(page: Any) -> None:
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)

    def make(**options: Any) -> Any:
        made = browser.new_context(**options)
        contexts.append(made)
        made.set_default_timeout(15_000)
        made.route("**/*", routed)
        made.on("page", opened)
        return made

    yield make
    for each in contexts:
        each.close()
    assert not foreign, foreign
    assert not wrong, wrong


@pytest.fixture
def context(new_context: Callable[..., Any]) -> Any:
    """A fresh profile."""
    return new_context(viewport={"width": 1400, "height": 900})


@pytest.fixture
def page(context: Any) -> Any:
    """A tab of a fresh profile."""
    return context.new_page()


@pytest.fixture
def new_page(new_context: Callable[..., Any], server: Server) -> Callable[..., Any]:
    """Opens the server's page in a fresh profile: `new_page("#v=shape&s=f32[2]", width=390)`. `url`: another
    server's."""

    def make(
        fragment: str = "", *, url: str | None = None, width: int = 1280, height: int = 800, **options: Any
    ) -> Any:
        clipboard = ["clipboard-read", "clipboard-write"]
        made = new_context(viewport={"width": width, "height": height}, permissions=clipboard, **options)
        page = made.new_page()
        page.goto((url or f"http://{server.http_address}/") + fragment)
        return page

    return make
