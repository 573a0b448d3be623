/** A program's memory over time: what lives at each step, stacked by kind. */

import { bytesText, grouped, type Column, type Value } from "./columns.js";
import { h, svg } from "./dom.js";
import type { Message } from "./reports.js";

const KINDS = ["constant_bytes", "parameter_bytes", "output_bytes", "temporary_bytes"] as const;
const NAMES = ["constants", "parameters", "outputs", "temporaries"];
const WIDTH = 1000;
const HEIGHT = 120;

export interface Step {
  step: number;
  name: string;
  bytes: number;
}

/** A picture of the rows, each a step. `choose` is called with the step that was clicked. */
export function timeline(rows: readonly Message[], get: (row: Message, column: Column) => Value, columns: readonly Column[], choose: (step: Step) => void): HTMLElement {
  const column = (name: string): Column => columns.find((each) => each.name === name)!;
  const [bytes, step, name] = [column("bytes"), column("step"), column("name")];
  const kinds = KINDS.map(column);
  const number = (row: Message, of: Column): number => Number(get(row, of) ?? 0);
  const most = rows.reduce((max, row) => Math.max(max, number(row, bytes)), 1);
  const buckets = Math.min(rows.length, 500);
  // Of the steps that fall together the one with the most bytes is drawn.
  const drawn = Array.from({ length: buckets }, (_, i) => {
    const [from, to] = [Math.floor((i * rows.length) / buckets), Math.floor(((i + 1) * rows.length) / buckets)];
    return rows.slice(from, to).reduce((best, row) => (number(row, bytes) > number(best, bytes) ? row : best), rows[from]!);
  });
  const x = (i: number): number => (i * WIDTH) / buckets;
  const y = (value: number): number => HEIGHT - (HEIGHT - 6) * (value / most);
  const below = drawn.map(() => 0);
  const areas = kinds.map((kind, k) => {
    const base = [...below];
    drawn.forEach((row, i) => (below[i]! += number(row, kind)));
    const top = below.map((value, i) => `L${x(i).toFixed(1)} ${y(value).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
    const bottom = base.map((value, i) => `L${x(i + 1).toFixed(1)} ${y(value).toFixed(1)}H${x(i).toFixed(1)}`).reverse().join("");
    return svg(`path.area${k}`, { d: `M0 ${y(base[0] ?? 0).toFixed(1)}${top}${bottom}Z` });
  });
  const peak = drawn.findIndex((row) => number(row, bytes) === most);
  const at = svg("line.at", { y1: 0, y2: HEIGHT, visibility: "hidden", "vector-effect": "non-scaling-stroke" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `memory over ${grouped(rows.length)} steps, at most ${bytesText(most)}` },
    areas, svg("line.peak", { x1: x(peak + 0.5), x2: x(peak + 0.5), y1: 0, y2: HEIGHT, "vector-effect": "non-scaling-stroke" }), at);
  const readout = h("output.readout", {});
  const pointed = (event: PointerEvent | MouseEvent): Message | undefined => {
    const box = picture.getBoundingClientRect();
    const i = Math.min(buckets - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * buckets)));
    at.setAttribute("x1", String(x(i + 0.5)));
    at.setAttribute("x2", String(x(i + 0.5)));
    at.setAttribute("visibility", "visible");
    return drawn[i];
  };
  const stepOf = (row: Message): Step => ({ step: number(row, step), name: String(get(row, name) ?? ""), bytes: number(row, bytes) });
  const tell = (row: Message | undefined): void => {
    const found = row && stepOf(row);
    readout.textContent = found ? `step ${grouped(found.step)} · ${found.name.slice(0, 80)} · ${bytesText(found.bytes)}` : "";
  };
  picture.addEventListener("pointermove", (event) => tell(pointed(event)));
  picture.addEventListener("pointerleave", () => {
    at.setAttribute("visibility", "hidden");
    tell(drawn[peak]);
  });
  picture.addEventListener("click", (event) => {
    const row = pointed(event);
    row && choose(stepOf(row));
  });
  tell(drawn[peak]);
  const legend = h("ul.legend", {}, NAMES.map((each, k) => (drawn.some((row) => number(row, kinds[k]!) > 0) ? h(`li.key${k}`, {}, each) : null)));
  return h("figure.timeline", {}, h("figcaption", {}, h("span", {}, "Memory over time"), legend, readout), picture, h("div.axis", { "aria-hidden": "true" }, h("span", {}, `step ${grouped(number(rows[0]!, step))}`), h("span", {}, `up to ${bytesText(most)}`), h("span", {}, `step ${grouped(number(rows.at(-1)!, step))}`)));
}
