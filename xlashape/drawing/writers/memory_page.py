"""The HTML page that shows a program's memory over time: a canvas that zooms and pans, a search, and a description of
the value under the pointer. The page is one file and needs no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from xlashape.drawing.writers.panels import DARK, FONT, LIGHT

_SCRIPT: Final = r"""
const data = JSON.parse(document.getElementById("data").textContent), { rows, texts, totals, names } = data;
const canvas = document.getElementById("map"), curve = document.getElementById("curve"), readout = document.getElementById("readout");
const find = document.getElementById("find"), by = document.getElementById("by"), count = document.getElementById("count");
const [BEGIN, END, BOTTOM, BYTES, KIND, NAME, OPCODE, SHAPE, OP, SOURCE, PADDING, WHY] = rows.length ? rows[0].keys() : [];
const steps = Math.max(totals.length, 1), most = totals.reduce((a, b) => Math.max(a, b), 1);
// Typed arrays of the columns that each frame reads: so 20,000 rows are drawn in less than a frame.
const column = (number, kind) => kind.from(rows, row => row[number]);
const begins = column(BEGIN, Int32Array), ends = column(END, Int32Array), bottoms = column(BOTTOM, Float64Array), sizes = column(BYTES, Float64Array);
let fills = null, image = null, pixels = null;
let view = { x: 0, y: 0, w: steps, h: data.height }, framed = -1, pinned = -1, matches = null, groups = null, waiting = false;
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function size(bytes) {
  let unit = 0, amount = bytes;
  while (amount >= 1024 && unit < units.length - 1) { amount /= 1024; unit++; }
  return unit ? `${bytes.toLocaleString("en")} bytes (${amount.toFixed(2)} ${units[unit]})` : `${bytes} bytes`;
}
const layer = text => text.split("/").slice(0, 3).join("/");
// #rrggbb as the pixel of an ImageData, opaque; pale where a search leaves it out.
function pixel(text) { const rgb = parseInt(text.slice(1), 16); return (0xff000000 | (rgb & 255) << 16 | rgb & 0xff00 | rgb >> 16) >>> 0; }
const pale = pixel => (pixel & 0xffffff | 0x26000000) >>> 0;
function keyOf(row) {
  return by.value === "opcode" ? row[OPCODE] : by.value === "source" ? row[SOURCE] : layer(texts[row[OP]]);
}
function regroup() {
  groups = null;
  if (by.value !== "kind") {
    const bytes = new Map();
    for (const row of rows) bytes.set(keyOf(row), (bytes.get(keyOf(row)) || 0) + row[BYTES]);
    groups = new Map([...bytes].sort((a, b) => b[1] - a[1]).map(([key], number) => [key, number]));
  }
  const palette = (groups ? data.palette : data.fills).map(pixel);
  fills = Uint32Array.from(rows, row => palette[groups ? groups.get(keyOf(row)) % palette.length : row[KIND]]);
  draw();
}
function fit(element) {
  const ratio = window.devicePixelRatio || 1, box = element.getBoundingClientRect();
  if (element.width !== Math.round(box.width * ratio) || element.height !== Math.round(box.height * ratio)) {
    element.width = Math.round(box.width * ratio); element.height = Math.round(box.height * ratio);
  }
  const pen = element.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  return [pen, box.width, box.height];
}
function style(name) { return getComputedStyle(document.body).getPropertyValue(name); }
function paint() {
  waiting = false;
  const [pen, width, height] = fit(canvas), sx = width / view.w, sy = height / view.h;
  const mark = style("--mark");
  pen.font = `11px ${style("--font")}`; pen.textBaseline = "middle";
  const right = view.x + view.w, top = view.y + view.h, named = [];
  if (!image || image.width !== canvas.width || image.height !== canvas.height) {
    image = new ImageData(Math.max(canvas.width, 1), Math.max(canvas.height, 1)); pixels = new Uint32Array(image.data.buffer);
  }
  // Rectangles are written as pixels: 20,000 of them take 3 ms, and 20 ms with fillRect.
  pixels.fill(0);
  const across = image.width, down = image.height, px = across / view.w, py = down / view.h;
  for (let number = 0; number < rows.length; number++) {
    const begin = begins[number], end = ends[number] + 1, bottom = bottoms[number], bytes = sizes[number];
    if (end < view.x || begin > right || bottom > top || bottom + bytes < view.y) continue;
    const x = (begin - view.x) * px, w = (end - begin) * px, h = bytes * py, y = down - (bottom - view.y) * py - h;
    // A gap of a pixel separates values that touch.
    const gap = w > 3 && h > 3 ? 1 : 0, x0 = Math.max(Math.floor(x), 0), y0 = Math.max(Math.floor(y), 0);
    const x1 = Math.min(Math.max(Math.floor(x + w) - gap, x0 + 1), across), y1 = Math.min(Math.max(Math.floor(y + h) - gap, y0 + 1), down);
    const fill = matches && !matches[number] ? pale(fills[number]) : fills[number];
    for (let line = y0 * across; line < y1 * across; line += across) pixels.fill(fill, line + x0, line + x1);
    if (h * height >= 13 * down && Math.min(x + w, across) - x0 >= 46 * across / width) named.push(number);
  }
  pen.putImageData(image, 0, 0);
  pen.fillStyle = "#000";
  for (const number of named) {
    const x = (begins[number] - view.x) * sx, w = (ends[number] + 1 - begins[number]) * sx, h = sizes[number] * sy, y = height - (bottoms[number] - view.y) * sy - h;
    const left = Math.max(x, 0), text = texts[rows[number][NAME]], letters = Math.floor((Math.min(x + w, width) - left - 6) / 6.7);
    pen.globalAlpha = matches && !matches[number] ? 0.15 : 1;
    pen.fillText(text.length <= letters ? text : text.slice(0, Math.max(letters - 1, 1)) + "…", left + 3, Math.max(Math.min(y + h / 2, height - 7), 7));
  }
  pen.globalAlpha = 1;
  for (const number of [pinned, framed]) {
    if (number < 0) continue;
    const row = rows[number], h = Math.max(row[BYTES] * sy, 2);
    pen.strokeStyle = mark; pen.lineWidth = 2.5;
    pen.strokeRect((row[BEGIN] - view.x) * sx, height - (row[BOTTOM] - view.y) * sy - h, Math.max((row[END] + 1 - row[BEGIN]) * sx, 2), h);
  }
  line(pen, (data.peak + 0.5 - view.x) * sx, height, mark);
  const [above, wide, tall] = fit(curve);
  above.fillStyle = style("--muted"); above.globalAlpha = 0.5; above.beginPath(); above.moveTo(0, tall);
  for (let pixel = 0; pixel <= wide; pixel++) {
    const from = Math.floor(view.x + pixel / wide * view.w), to = Math.max(from + 1, Math.floor(view.x + (pixel + 1) / wide * view.w));
    let value = 0;
    for (let step = Math.max(from, 0); step < Math.min(to, totals.length); step += Math.max(1, Math.floor((to - from) / 64))) value = Math.max(value, totals[step]);
    if (from <= data.peak && data.peak < to) value = totals[data.peak];
    above.lineTo(pixel, tall - value / most * (tall - 6));
  }
  above.lineTo(wide, tall); above.fill(); above.globalAlpha = 1;
  line(above, (data.peak + 0.5 - view.x) * (wide / view.w), tall, mark);
}
function line(pen, x, height, stroke) {
  pen.strokeStyle = stroke; pen.lineWidth = 1.5; pen.setLineDash([4, 3]); pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke(); pen.setLineDash([]);
}
function draw() { if (!waiting) { waiting = true; requestAnimationFrame(paint); } }
function at(event) {
  const box = canvas.getBoundingClientRect();
  return [view.x + (event.clientX - box.left) / box.width * view.w, view.y + (box.bottom - event.clientY) / box.height * view.h];
}
function under(step, byte) {
  for (let number = rows.length - 1; number >= 0; number--) {
    if (begins[number] <= step && step < ends[number] + 1 && bottoms[number] <= byte && byte < bottoms[number] + sizes[number]) return number;
  }
  return -1;
}
function tell(number, step) {
  if (number < 0) {
    const known = step !== undefined && step >= 0 && step < totals.length;
    readout.textContent = known ? `step ${Math.floor(step)}, ${texts[names[Math.floor(step)]] || "before the first instruction"}: ${size(totals[Math.floor(step)])} live` : readout.dataset.rest;
    return;
  }
  const row = rows[number], padding = row[PADDING] > 0 ? `, ${size(row[PADDING])} of padding` : "";
  const parts = [`${texts[row[NAME]]} ${texts[row[OPCODE]]} ${texts[row[SHAPE]]}`, `${size(row[BYTES])}${padding}, ${data.kinds[row[KIND]]}, steps ${row[BEGIN]} to ${row[END]}`];
  if (row[OP]) parts.push(texts[row[OP]]);
  if (row[SOURCE]) parts.push(texts[row[SOURCE]]);
  if (row[WHY]) parts.push(texts[row[WHY]]);
  readout.textContent = parts.join("\n");
}
function zoom(factor, x, y) {
  const w = Math.min(Math.max(view.w * factor, 1), steps), h = Math.min(Math.max(view.h * factor, 16), data.height);
  view = clamp({ x: x - (x - view.x) * w / view.w, y: y - (y - view.y) * h / view.h, w, h });
  draw();
}
function clamp(next) {
  next.x = Math.min(Math.max(next.x, 0), steps - next.w); next.y = Math.min(Math.max(next.y, 0), data.height - next.h);
  return next;
}
function search() {
  const text = find.value.toLowerCase();
  const hits = text ? texts.map(each => each.toLowerCase().includes(text)) : null;
  matches = hits && Uint8Array.from(rows, row => hit(row, hits) ? 1 : 0);
  count.textContent = matches ? `${matches.reduce((a, b) => a + b, 0).toLocaleString("en")} found` : "";
  draw();
}
function hit(row, hits) { return hits[row[NAME]] || hits[row[OPCODE]] || hits[row[SHAPE]] || hits[row[OP]] || hits[row[SOURCE]]; }
let drag = null;
canvas.addEventListener("pointerdown", event => { drag = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false }; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointermove", event => {
  if (drag) {
    const box = canvas.getBoundingClientRect(), dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    drag.moved = drag.moved || Math.abs(dx) + Math.abs(dy) > 3;
    view = clamp({ ...drag.view, x: drag.view.x - dx / box.width * view.w, y: drag.view.y + dy / box.height * view.h });
    draw();
    return;
  }
  const [step, byte] = at(event), found = under(step, byte);
  if (found !== framed) { framed = found; draw(); }
  if (pinned < 0) tell(found, step);
});
canvas.addEventListener("pointerup", event => {
  if (drag && !drag.moved) { pinned = under(...at(event)); tell(pinned, at(event)[0]); draw(); }
  drag = null;
});
canvas.addEventListener("pointerleave", () => { framed = -1; draw(); });
canvas.addEventListener("wheel", event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, ...at(event)); }, { passive: false });
document.addEventListener("keydown", event => {
  if (event.target === find && event.key !== "Escape") return;
  const middle = [view.x + view.w / 2, view.y + view.h / 2], move = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
  if (move) { event.preventDefault(); view = clamp({ ...view, x: view.x + move[0] * view.w, y: view.y + move[1] * view.h }); draw(); }
  else if (event.key === "+" || event.key === "=") zoom(1 / 1.3, ...middle);
  else if (event.key === "-") zoom(1.3, ...middle);
  else if (event.key === "0") { view = { x: 0, y: 0, w: steps, h: data.height }; draw(); }
  else if (event.key === "/") { event.preventDefault(); find.focus(); }
  else if (event.key === "Escape") { pinned = -1; find.value = ""; find.blur(); search(); tell(-1); }
});
find.addEventListener("input", search); by.addEventListener("change", regroup);
addEventListener("resize", draw); matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
regroup();
"""


def page_text(title: str, facts: Sequence[str], data: dict[str, Any], theme: str = "auto") -> str:
    """The page. `data` is what `_data` of `memory_map.py` makes of a report; the page holds it as JSON. `facts` stand
    below the title."""
    page = DARK if theme == "dark" else LIGHT
    dark = f"@media (prefers-color-scheme:dark){{body{{{_colours(DARK)}}}}}" if theme == "auto" else ""
    style = (
        f"body{{margin:0;padding:16px 20px;font:14px "
        f"system-ui,sans-serif;background:var(--ground);color:var(--text);--font:{FONT};{_colours(page)}}}{dark}"
        "h1{font-size:18px;margin:0 0 4px}p{margin:2px "
        "0;color:var(--muted)}canvas{display:block;width:100%;touch-action:none}"
        "#curve{height:80px;margin-top:10px}#map{height:calc(100vh - 300px);min-height:260px;border:1px solid "
        "var(--rule);cursor:crosshair}"
        "nav{display:flex;gap:14px;align-items:center;flex-wrap:wrap;margin:10px 0 "
        "0}input,select{font:inherit;color:inherit;background:var(--ground);"
        "border:1px solid var(--rule);border-radius:4px;padding:3px "
        "6px}.key{display:inline-block;width:12px;height:12px;margin-right:4px;vertical-align:-1px}"
        f"#readout{{white-space:pre-wrap;font:13px "
        f"{FONT};min-height:5.2em;margin-top:8px;color:var(--text);overflow-wrap:anywhere}}"
    )
    keys = "".join(
        [
            f'<span><span class="key" style="background:{fill}"></span>{kind}</span>'
            for kind, fill in zip(data["kinds"], data["fills"], strict=True)
        ]
    )
    rest = "Point at a value. Wheel or + and - zoom, drag or arrow keys move, a click keeps, 0 shows all, / searches."
    lines = "".join([f"<p>{escape(fact)}</p>" for fact in facts])
    json_text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" '
        'content="width=device-width">\n'
        '<meta name="color-scheme" '
        f'content="{"light dark" if theme == "auto" else theme}">\n<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{lines}\n<nav>"
        '<label>search <input id="find" type="search" autocomplete="off"></label><span id="count" role="status"></span>'
        '<label>colour by <select id="by"><option value="kind">kind</option><option '
        'value="op">operation</option><option value="opcode">opcode</option>'
        f'<option value="source">source line</option></select></label>{keys}</nav>\n'
        '<canvas id="curve" role="img" aria-label="The bytes that live along the program"></canvas>\n'
        '<canvas id="map" role="img" tabindex="0" aria-label="Time along x, memory along y, a rectangle for each '
        'value"></canvas>\n'
        f'<p id="readout" role="status" data-rest="{escape(rest)}">{escape(rest)}</p>\n'
        '<script type="application/json" '
        f'id="data">{json_text}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
    )


def _colours(page: dict[str, str]) -> str:
    """The colours of a page as CSS variables, such as `--ground`."""
    return "".join([f"--{name}:{value};" for name, value in page.items()])
