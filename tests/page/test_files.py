"""The files of the page: what they are answered with, and that what is generated is current."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from xlashape_server.web import Page

SOURCES = Path(__file__).resolve().parents[2] / "server" / "page"


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "index.html").write_text("<!doctype html><title>x</title>")
    (tmp_path / "page.js").write_text("let a = 1;")
    (tmp_path / "notes.txt").write_text("no file of the page")
    return Page(tmp_path)


def answered(page: Page, path: str, verb: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    found = page.answer(verb, path, {name.replace("_", "-"): value for name, value in headers.items()})
    assert found is not None
    status, told, content = found
    return status, {name.decode(): value.decode() for name, value in told}, content


def test_files_have_their_types_and_the_headers_that_keep_browsers_to_them(page: Page) -> None:
    status, headers, content = answered(page, "/")
    assert (status, content) == (200, b"<!doctype html><title>x</title>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert answered(page, "/page.js")[1]["content-type"] == "text/javascript; charset=utf-8"


def test_a_browser_that_has_a_file_is_told_so(page: Page) -> None:
    tag = answered(page, "/page.js")[1]["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        status, headers, content = answered(page, "/page.js", if_none_match=known)
        assert (status, headers["etag"], content) == (304, tag, b"")
    assert answered(page, "/page.js", if_none_match='"other"')[0] == 200
    assert tag != answered(page, "/")[1]["etag"]


@pytest.mark.parametrize(
    "path", ["/notes.txt", "/../pyproject.toml", "/page/page.js", "//page.js", "/%2e%2e/x", "", "/page.js/"]
)
def test_no_other_path_is_one_of_the_page(page: Page, path: str) -> None:
    assert page.answer("GET", path, {}) is None


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
def test_files_are_only_read(page: Page, verb: str) -> None:
    status, headers, _ = answered(page, "/", verb)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_a_server_without_the_files_has_no_page(tmp_path: Path) -> None:
    assert Page(tmp_path / "nothing").answer("GET", "/", {}) is None


def test_the_declarations_of_reports_are_current() -> None:
    sys.path.insert(0, str(SOURCES))
    try:
        import generate_reports
    finally:
        sys.path.remove(str(SOURCES))
    text = generate_reports.FILE.read_text(encoding="utf-8")
    assert text == generate_reports.text(), "run python server/page/generate_reports.py, and build the page again"
