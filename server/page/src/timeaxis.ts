/** The time of a profile along an axis: each instruction as wide as its time, its least time in it, and above it how fast it moves bytes, and what lives in memory then. */

import { bytesText, cellText, type Column, grouped, type Value } from "./columns.js";
import { h, svg } from "./dom.js";
import type { Message } from "./reports.js";

const WIDTH = 1000;
const HEIGHT = 120;
const BAR = 26; // the height of the times
const MOST_DRAWN = 1000;

/** `place`: where an instruction stands in the program; undefined where that is not known, so that the longest come first. `live`: the bytes that live while it runs. */
export function timeAxis(
  rows: readonly Message[], get: (row: Message, column: Column) => Value, columns: readonly Column[],
  place: ((row: Message) => number) | undefined, live: ((row: Message) => number | undefined) | undefined, choose: (row: Message) => void,
): HTMLElement {
  const column = (name: string): Column => columns.find((each) => each.name === name)!;
  const number = (row: Message, name: string): number => Number(get(row, column(name)) ?? 0);
  const time = (row: Message): number => number(row, "self_time");
  const least = (row: Message): number => Math.min(time(row), number(row, "least_time") * number(row, "executions"));
  const longest = rows.filter((row) => time(row) > 0).sort((a, b) => time(b) - time(a)).slice(0, MOST_DRAWN);
  const drawn = place ? longest.sort((a, b) => place(a) - place(b)) : longest;
  const whole = drawn.reduce((sum, row) => sum + time(row), 0) || 1;
  const most = drawn.reduce((max, row) => Math.max(max, number(row, "bandwidth")), 0) || 1;
  const mostLive = live ? drawn.reduce((max, row) => Math.max(max, live(row) ?? 0), 0) : 0;
  const ends: number[] = [];
  drawn.reduce((sum, row) => (ends.push(sum + time(row)), sum + time(row)), 0);
  const x = (i: number): number => (i < 0 ? 0 : (ends[i]! / whole) * WIDTH);
  const box = (i: number, width: number, top: number, height: number): string => `M${x(i - 1).toFixed(2)} ${top.toFixed(1)}h${width.toFixed(2)}v${height.toFixed(1)}h${(-width).toFixed(2)}Z`;
  const floor = HEIGHT - BAR - 4;
  const path = (of: (row: Message, i: number) => string) => drawn.map(of).join("");
  const lines = live && mostLive > 0 && path((row, i) => `${i === 0 ? "M" : "L"}${x(i - 1).toFixed(2)} ${(floor - (floor - 4) * ((live(row) ?? 0) / mostLive)).toFixed(1)}H${x(i).toFixed(2)}`);
  const at = svg("line.at", { y1: 0, y2: HEIGHT, visibility: "hidden", "vector-effect": "non-scaling-stroke" });
  const order = place ? "in the order of the program" : "the longest first";
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `the time of ${grouped(drawn.length)} instructions, ${order}` },
    svg("path.area1", { d: path((row, i) => box(i, x(i) - x(i - 1), floor - (floor - 4) * (number(row, "bandwidth") / most), (floor - 4) * (number(row, "bandwidth") / most))) }),
    lines && svg("path.live", { d: lines, "vector-effect": "non-scaling-stroke" }),
    svg("path.area0", { d: path((_, i) => box(i, x(i) - x(i - 1), HEIGHT - BAR, BAR)) }),
    svg("path.area3", { d: path((row, i) => box(i, (least(row) / whole) * WIDTH, HEIGHT - BAR, BAR)) }),
    svg("path.parts", { d: path((_, i) => `M${x(i).toFixed(2)} ${HEIGHT - BAR}v${BAR}`), "vector-effect": "non-scaling-stroke" }), at);
  const readout = h("output.readout", {});
  const said = (row: Message, name: string): string => cellText(column(name), get(row, column(name)));
  const tell = (row: Message | undefined): void => {
    const bytes = row && live?.(row);
    readout.textContent = row ? [said(row, "name").slice(0, 60), said(row, "self_time"), least(row) > 0 && `least ${cellText(column("self_time"), least(row))}`, said(row, "bandwidth"), bytes && `${bytesText(bytes)} live`].filter(Boolean).join(" · ") : "";
  };
  const pointed = (event: MouseEvent): Message | undefined => {
    const { left, width } = picture.getBoundingClientRect();
    const part = ((event.clientX - left) / width) * whole;
    const i = ends.findIndex((end) => end >= part);
    at.setAttribute("x1", String((part / whole) * WIDTH));
    at.setAttribute("x2", String((part / whole) * WIDTH));
    at.setAttribute("visibility", "visible");
    return drawn[i];
  };
  const first = longest.reduce<Message | undefined>((best, row) => (best && time(best) >= time(row) ? best : row), undefined);
  picture.addEventListener("pointermove", (event) => tell(pointed(event)));
  picture.addEventListener("pointerleave", () => {
    at.setAttribute("visibility", "hidden");
    tell(first);
  });
  picture.addEventListener("click", (event) => {
    const row = pointed(event);
    row && choose(row);
  });
  tell(first);
  const hasLeast = drawn.some((row) => least(row) > 0);
  const legend = h("ul.legend", {}, h("li.key0", {}, "time"), hasLeast && h("li.key3", {}, "least time"), h("li.key1", {}, `bytes moved, up to ${cellText(column("bandwidth"), most)}`), lines && h("li.keylive", {}, `memory in use, up to ${bytesText(mostLive)}`));
  return h("figure.timeline", {}, h("figcaption", {}, h("span", {}, `Time, ${order}`), legend, readout), picture, h("div.axis", { "aria-hidden": "true" }, h("span", {}, "0"), h("span", {}, cellText(column("self_time"), whole))));
}
