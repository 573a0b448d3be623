"""The page of a program's memory: a canvas that zooms and pans, a search, and what lies under the pointer. It works from a file, without a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from xlashape.drawing.writers.style import DARK, FONT, LIGHT

_SCRIPT: Final = r"""
const data = JSON.parse(document.getElementById("data").textContent), { rows, texts, totals, names } = data;
const canvas = document.getElementById("map"), curve = document.getElementById("curve"), readout = document.getElementById("readout");
const find = document.getElementById("find"), by = document.getElementById("by"), count = document.getElementById("count");
const [BEGIN, END, BOTTOM, BYTES, KIND, NAME, OPCODE, SHAPE, OP, SOURCE, PADDING] = rows.length ? rows[0].keys() : [];
const steps = Math.max(totals.length, 1), most = totals.reduce((a, b) => Math.max(a, b), 1);
let view = { x: 0, y: 0, w: steps, h: data.height }, framed = -1, pinned = -1, matches = null, groups = null, waiting = false;
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function size(bytes) {
  let unit = 0, amount = bytes;
  while (amount >= 1024 && unit < units.length - 1) { amount /= 1024; unit++; }
  return unit ? `${bytes.toLocaleString("en")} bytes (${amount.toFixed(2)} ${units[unit]})` : `${bytes} bytes`;
}
const layer = text => text.split("/").slice(0, 3).join("/");
function colour(row) {
  if (!groups) return data.fills[row[KIND]];
  return data.palette[groups.get(keyOf(row)) % data.palette.length];
}
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
  const ground = style("--ground"), mark = style("--mark");
  pen.font = `11px ${style("--font")}`; pen.textBaseline = "middle";
  for (let number = 0; number < rows.length; number++) {
    const row = rows[number];
    if (row[END] + 1 < view.x || row[BEGIN] > view.x + view.w || row[BOTTOM] > view.y + view.h || row[BOTTOM] + row[BYTES] < view.y) continue;
    const x = (row[BEGIN] - view.x) * sx, w = Math.max((row[END] + 1 - row[BEGIN]) * sx, 0.7);
    const h = Math.max(row[BYTES] * sy, 0.5), y = height - (row[BOTTOM] - view.y) * sy - h;
    pen.globalAlpha = matches && !matches.has(number) ? 0.15 : 1;
    pen.fillStyle = colour(row); pen.fillRect(x, y, w, h);
    if (w > 3 && h > 3) { pen.strokeStyle = ground; pen.lineWidth = 0.6; pen.strokeRect(x, y, w, h); }
    const left = Math.max(x, 0), room = Math.min(x + w, width) - left;
    if (h >= 13 && room >= 46) {
      const text = texts[row[NAME]], letters = Math.floor((room - 6) / 6.7);
      pen.fillStyle = "#000";
      pen.fillText(text.length <= letters ? text : text.slice(0, Math.max(letters - 1, 1)) + "…", left + 3, Math.max(Math.min(y + h / 2, height - 7), 7));
    }
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
    const row = rows[number];
    if (row[BEGIN] <= step && step < row[END] + 1 && row[BOTTOM] <= byte && byte < row[BOTTOM] + row[BYTES]) return number;
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
  matches = hits && new Set(rows.keys().filter ? [...rows.keys()].filter(number => hit(rows[number], hits)) : []);
  count.textContent = matches ? `${matches.size.toLocaleString("en")} found` : "";
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
draw();
"""


def page_text(title: str, facts: Sequence[str], data: dict[str, Any], theme: str = "auto") -> str:
    """The page. `data` is what `xlashape.drawing.memory_map` makes of a report."""
    page = DARK if theme == "dark" else LIGHT
    dark = f"@media (prefers-color-scheme:dark){{body{{{_colours(DARK)}}}}}" if theme == "auto" else ""
    style = (
        f"body{{margin:0;padding:16px 20px;font:14px system-ui,sans-serif;background:var(--ground);color:var(--text);--font:{FONT};{_colours(page)}}}{dark}"
        "h1{font-size:18px;margin:0 0 4px}p{margin:2px 0;color:var(--muted)}canvas{display:block;width:100%;touch-action:none}"
        "#curve{height:80px;margin-top:10px}#map{height:calc(100vh - 300px);min-height:260px;border:1px solid var(--rule);cursor:crosshair}"
        "nav{display:flex;gap:14px;align-items:center;flex-wrap:wrap;margin:10px 0 0}input,select{font:inherit;color:inherit;background:var(--ground);"
        "border:1px solid var(--rule);border-radius:4px;padding:3px 6px}.key{display:inline-block;width:12px;height:12px;margin-right:4px;vertical-align:-1px}"
        f"#readout{{white-space:pre-wrap;font:13px {FONT};min-height:5.2em;margin-top:8px;color:var(--text);overflow-wrap:anywhere}}"
    )
    keys = "".join(
        [
            f'<span><span class="key" style="background:{fill}"></span>{kind}</span>'
            for kind, fill in zip(data["kinds"], data["fills"], strict=True)
        ]
    )
    rest = "Point at a value. Wheel or + and - zoom, drag or arrow keys move, a click keeps, 0 shows all, / searches."
    told = "".join([f"<p>{escape(fact)}</p>" for fact in facts])
    json_text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f'<meta name="color-scheme" content="{"light dark" if theme == "auto" else theme}">\n<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n'
        f"<body>\n<h1>{escape(title)}</h1>\n{told}\n<nav>"
        '<label>search <input id="find" type="search" autocomplete="off"></label><span id="count" role="status"></span>'
        '<label>colour by <select id="by"><option value="kind">kind</option><option value="op">operation</option><option value="opcode">opcode</option>'
        f'<option value="source">source line</option></select></label>{keys}</nav>\n'
        '<canvas id="curve" role="img" aria-label="The bytes that live along the program"></canvas>\n'
        '<canvas id="map" role="img" tabindex="0" aria-label="Time along x, memory along y, a rectangle for each value"></canvas>\n'
        f'<p id="readout" role="status" data-rest="{escape(rest)}">{escape(rest)}</p>\n'
        f'<script type="application/json" id="data">{json_text}</script>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
    )


def _colours(page: dict[str, str]) -> str:
    return "".join([f"--{name}:{value};" for name, value in page.items()])
