"""A scene as a self-contained page, which works from a file and without a network.

The page shows the index and position of the cell under the pointer, and frames all cells of the same element. Cells can
also be reached with the keyboard.
"""

from __future__ import annotations

from html import escape
from typing import Final

from xlashape.base.display import printable
from xlashape.drawing.marks.cells import Scene
from xlashape.drawing.writers.panels import DARK, FONT, LIGHT
from xlashape.drawing.writers.svg import svg_text

_SCRIPT: Final = """
const readout = document.getElementById("readout"), rest = readout.textContent;
const cells = [...document.querySelectorAll("rect[data-t]")], byKey = new Map();
for (const cell of cells) {
  if (cell.dataset.k === undefined) continue;
  if (!byKey.has(cell.dataset.k)) byKey.set(cell.dataset.k, []);
  byKey.get(cell.dataset.k).push(cell);
}
let framed = [], pinned = null;
function show(cell) {
  for (const other of framed) other.classList.remove("framed");
  framed = cell ? (byKey.get(cell.dataset.k) || [cell]) : [];
  for (const other of framed) other.classList.add("framed");
  readout.textContent = cell ? cell.dataset.t : rest;
}
const cellOf = event => event.target.closest && event.target.closest("rect[data-t]");
document.addEventListener("pointerover", event => { if (!pinned) show(cellOf(event)); });
document.addEventListener("click", event => { pinned = cellOf(event); show(pinned); });
document.addEventListener("keydown", event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Escape") { pinned = null; show(null); }
  if (!step || !cells.length) return;
  event.preventDefault();
  const at = pinned ? cells.indexOf(pinned) + step : 0;
  pinned = cells[(at + cells.length) % cells.length];
  show(pinned);
  pinned.scrollIntoView({ block: "nearest", inline: "nearest" });
});
"""


def html_text(scene: Scene, theme: str = "auto") -> str:
    """The scene as the text of a page."""
    page = DARK if theme == "dark" else LIGHT
    dark = _rules(DARK) if theme == "auto" else ""
    style = (
        f"body{{margin:0;font:14px system-ui,sans-serif}}main{{overflow-x:auto;padding-bottom:4em}}svg{{display:block}}"
        f"svg text{{pointer-events:none}}"
        f"#readout{{position:fixed;left:0;right:0;bottom:0;margin:0;padding:.6em 20px;font:13px "
        f"{FONT};border-top:1px solid;min-height:1.3em}}"
        f"rect.framed{{stroke-width:3!important}}{_rules(page)}"
        + (f"@media (prefers-color-scheme:dark){{{dark}}}" if dark else "")
    )
    scheme = "light dark" if theme == "auto" else theme
    picture = svg_text(scene, theme, standalone=False, tips="data")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="color-scheme" '
        f'content="{scheme}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(printable(scene.title))}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n<main>\n{picture}</main>\n"
        f'<p id="readout" role="status">Point at a cell: index ↔ position. A click keeps it, arrow keys move it.</p>\n'
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _rules(page: dict[str, str]) -> str:
    return (
        f"body{{background:{page['ground']};color:{page['text']}}}#readout{{background:{page['ground']};color:{page['text']};"
        f"border-color:{page['rule']}}}rect.framed{{stroke:{page['mark']}!important}}"
    )
