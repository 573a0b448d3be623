/**
 * A graph on a canvas. Only what is in sight is drawn, and only as finely as it is seen: texts from a scale at which they can be read, curves from one at which
 * they differ from lines. Of very many lines or nodes in sight, every n-th is drawn; fewer while the view moves.
 */

import type { Layout } from "./layout.js";
import { countOf, type Graph } from "./model.js";

export interface Camera {
  /** The point in the middle of the canvas. */
  x: number;
  y: number;
  scale: number;
}

export interface Theme {
  ground: string;
  ink: string;
  soft: string;
  line: string;
  accent: string;
  mark: string;
}

export interface Marks {
  selected: number;
  /** The edges of the selected node. */
  edges: ReadonlySet<number>;
  found: ReadonlySet<number>;
  hovered: number;
}

const BUCKET = 400;
const READABLE = 0.42;
const STUB = 16;
const MOST_TEXTS = 2; // below a node that is not selected
/** The most lines, points of lines, and nodes that are drawn: at rest, and while the view moves. */
const AT_REST = { lines: 2500, points: 9000, nodes: 40_000, texts: 400 } as const;
const MOVING = { lines: 500, points: 1500, nodes: 3000, texts: 120 } as const;
type Most = Readonly<Record<keyof typeof AT_REST, number>>;
const FONT = 11;
const LINE = 15; // the height of a line in a box

export class Painting {
  /** Nodes and edges by the horizontal strips of the plane that they touch. */
  private readonly nodeStrips: number[][];
  private readonly edgeStrips: number[][];
  private readonly left: Float32Array;
  private readonly right: Float32Array;
  private readonly seen: Int32Array;
  /** Edges without a route. */
  private readonly cut: number[] = [];
  private stamp = 0;
  private readonly texts = new Map<string, string>();

  constructor(
    readonly graph: Graph,
    readonly made: Layout,
    readonly widths: Float32Array,
    readonly heights: Float32Array,
    public fills: readonly string[],
  ) {
    const count = Math.ceil((made.height + 200) / BUCKET) + 1;
    this.nodeStrips = Array.from({ length: count }, () => []);
    this.edgeStrips = Array.from({ length: count }, () => []);
    graph.nodes.forEach((_, n) => {
      const [first, last] = [this.strip(made.y[n]! - heights[n]! / 2), this.strip(made.y[n]! + heights[n]! / 2)];
      for (let s = first; s <= last; s++) this.nodeStrips[s]!.push(n);
    });
    this.left = new Float32Array(graph.edges.length);
    this.right = new Float32Array(graph.edges.length);
    this.seen = new Int32Array(graph.edges.length);
    graph.edges.forEach((_, e) => {
      const [start, end] = [made.starts[e]!, made.starts[e + 1]!];
      if (start === end) {
        this.cut.push(e);
        return;
      }
      let [left, right] = [Infinity, -Infinity];
      for (let p = start; p < end; p++) {
        left = Math.min(left, made.points[2 * p]!);
        right = Math.max(right, made.points[2 * p]!);
      }
      this.left[e] = left;
      this.right[e] = right;
      const ys = [made.points[2 * start + 1]!, made.points[2 * end - 1]!];
      for (let s = this.strip(Math.min(...ys)); s <= this.strip(Math.max(...ys)); s++) this.edgeStrips[s]!.push(e);
    });
  }

  private strip(y: number): number {
    return Math.max(0, Math.min(this.nodeStrips.length - 1, Math.floor(y / BUCKET)));
  }

  /** The node at a point of the plane. */
  nodeAt(x: number, y: number): number {
    for (const n of this.nodeStrips[this.strip(y)] ?? []) {
      if (Math.abs(x - this.made.x[n]!) <= this.widths[n]! / 2 && Math.abs(y - this.made.y[n]!) <= this.heights[n]! / 2) return n;
    }
    return -1;
  }

  draw(context: CanvasRenderingContext2D, width: number, height: number, ratio: number, camera: Camera, theme: Theme, marks: Marks, isMoving = false): void {
    const most = isMoving ? MOVING : AT_REST;
    const { scale } = camera;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = theme.ground;
    context.fillRect(0, 0, width, height);
    const zoom = scale * ratio;
    context.setTransform(zoom, 0, 0, zoom, (width / 2 - camera.x * scale) * ratio, (height / 2 - camera.y * scale) * ratio);
    const view = {
      left: camera.x - width / 2 / scale, right: camera.x + width / 2 / scale,
      top: camera.y - height / 2 / scale, low: camera.y + height / 2 / scale,
    };
    const [first, last] = [this.strip(view.top), this.strip(view.low)];
    this.edges(context, view, first, last, scale, theme, marks, most);
    this.nodes(context, view, first, last, scale, theme, marks, most);
  }

  private edges(context: CanvasRenderingContext2D, view: View, first: number, last: number, scale: number, theme: Theme, marks: Marks, most: Most): void {
    const { points, starts } = this.made;
    const shown: number[] = [];
    const stamp = ++this.stamp;
    for (let s = first; s <= last; s++) {
      for (const e of this.edgeStrips[s]!) {
        if (this.seen[e] === stamp || this.right[e]! < view.left || this.left[e]! > view.right) continue;
        this.seen[e] = stamp;
        shown.push(e);
      }
    }
    // Of too many lines, every n-th; the same ones while the view moves.
    const step = Math.ceil(shown.length / most.lines);
    context.lineWidth = Math.max(0.9, 0.7 / scale);
    context.strokeStyle = theme.line;
    context.globalAlpha = step > 1 ? 0.8 : 1;
    const areCurves = scale > 0.12 && step === 1 && shown.length < most.texts;
    let left: number = most.points;
    context.beginPath();
    for (const e of shown) {
      if (step > 1 && e % step !== 0) continue;
      if (marks.edges.has(e)) continue;
      left -= this.route(context, e, view, areCurves);
      if (left < 0) break;
    }
    context.stroke();
    context.globalAlpha = 1;
    if (marks.edges.size > 0) {
      context.lineWidth = Math.max(2, 1.6 / scale);
      context.strokeStyle = theme.accent;
      context.beginPath();
      for (const e of marks.edges) this.route(context, e, view, areCurves || scale > 0.12);
      context.stroke();
    }
    if (scale < READABLE || shown.length > most.texts) return;
    this.stubs(context, view, theme, marks);
    // Heads and shapes.
    context.font = `${FONT - 1}px ${MONO}`;
    context.textBaseline = "middle";
    for (const e of shown) {
      const [start, end] = [starts[e]!, starts[e + 1]!];
      const [x, y] = [points[2 * end - 2]!, points[2 * end - 1]!];
      const isUp = points[2 * start + 1]! > y;
      const isMarked = marks.edges.has(e);
      if (x > view.left && x < view.right && y > view.top - 20 && y < view.low + 20) {
        context.fillStyle = isMarked ? theme.accent : theme.line;
        const way = isUp ? -1 : 1;
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(x - 3.5, y - 6 * way);
        context.lineTo(x + 3.5, y - 6 * way);
        context.fill();
      }
    }
    this.edgeTexts(context, shown, view, theme, marks);
  }

  /** An edge that is cut: a dashed end below the node that it comes from, and above the one that it leads to. */
  private stubs(context: CanvasRenderingContext2D, view: View, theme: Theme, marks: Marks): void {
    const { x, y } = this.made;
    context.setLineDash([3, 3]);
    context.lineWidth = 1.5;
    for (const isMarked of [false, true]) {
      context.strokeStyle = isMarked ? theme.accent : theme.line;
      context.beginPath();
      for (const e of this.cut) {
        if (marks.edges.has(e) !== isMarked) continue;
        const { from, to } = this.graph.edges[e]!;
        if (from === to) continue;
        const way = y[from]! < y[to]! ? 1 : -1;
        for (const [n, sign] of [[from, way], [to, -way]] as const) {
          const [at, edge] = [x[n]! + this.widths[n]! / 4, y[n]! + (sign * this.heights[n]!) / 2];
          if (at < view.left || at > view.right || edge < view.top - STUB || edge > view.low + STUB) continue;
          context.moveTo(at, edge);
          context.lineTo(at, edge + sign * STUB);
        }
      }
      context.stroke();
    }
    context.setLineDash([]);
  }

  /** The shape of a value once below its node, if all edges pass it; else beside the end of each edge. */
  private edgeTexts(context: CanvasRenderingContext2D, shown: readonly number[], view: View, theme: Theme, marks: Marks): void {
    const { points, starts } = this.made;
    const done = new Set<string>();
    context.textAlign = "left";
    for (const e of shown) {
      const edge = this.graph.edges[e]!;
      const text = edge.shape || (edge.count > 1 ? countOf(edge.count, "value") : "");
      if (!text) continue;
      const word = `${edge.from} ${text}`;
      const above = [...done].filter((each) => each.startsWith(`${edge.from} `)).length;
      if (done.has(word) || (above >= MOST_TEXTS && !marks.edges.has(e))) continue;
      const start = starts[e]!;
      const [x, y] = [points[2 * start]!, points[2 * start + 1]!];
      if (x < view.left - 100 || x > view.right || y < view.top - 20 || y > view.low) continue;
      done.add(word);
      const label = text.length > 26 ? `${text.slice(0, 25)}…` : text;
      const isUp = (points[2 * start + 3] ?? y) < y;
      const below = this.graph.nodes[edge.from]!.times > 1 ? 14 : 9; // the lines under a box of several
      const at = [x + 5, y + (isUp ? -9 : below) + 11 * above] as const;
      context.fillStyle = theme.ground;
      context.globalAlpha = 0.8;
      context.fillRect(at[0] - 1, at[1] - 6, label.length * 6.05 + 2, 12);
      context.globalAlpha = 1;
      context.fillStyle = marks.edges.has(e) ? theme.accent : theme.soft;
      context.fillText(label, at[0], at[1]);
    }
  }

  /** Adds the part of an edge's route that is in sight; returns how many points that took. */
  private route(context: CanvasRenderingContext2D, e: number, view: View, areCurves: boolean): number {
    const { points, starts } = this.made;
    const start = starts[e]!;
    const end = starts[e + 1]!;
    let used = 0;
    let isOn = false;
    for (let p = start; p + 1 < end; p++) {
      const [x0, y0, x1, y1] = [points[2 * p]!, points[2 * p + 1]!, points[2 * p + 2]!, points[2 * p + 3]!];
      if (Math.max(y0, y1) < view.top || Math.min(y0, y1) > view.low || Math.max(x0, x1) < view.left || Math.min(x0, x1) > view.right) {
        isOn = false;
        continue;
      }
      if (!isOn) context.moveTo(x0, y0);
      isOn = true;
      used++;
      if (areCurves && x0 !== x1) {
        const middle = (y0 + y1) / 2;
        context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
      } else context.lineTo(x1, y1);
    }
    return used;
  }

  private nodes(context: CanvasRenderingContext2D, view: View, first: number, last: number, scale: number, theme: Theme, marks: Marks, most: Most): void {
    const { x, y } = this.made;
    const { nodes } = this.graph;
    const isReadable = scale >= READABLE;
    const byFill = new Map<string, number[]>();
    const shown: number[] = [];
    for (let s = first; s <= last; s++) {
      for (const n of this.nodeStrips[s]!) {
        const half = this.widths[n]! / 2;
        if (x[n]! + half < view.left || x[n]! - half > view.right || (s > first && this.strip(y[n]! - this.heights[n]! / 2) < s)) continue;
        shown.push(n);
        const fill = this.fills[n]!;
        const all = byFill.get(fill);
        all ? all.push(n) : byFill.set(fill, [n]);
      }
    }
    // A node is two pixels wide at least. Of very many, every n-th fills the place of those beside it.
    const step = Math.ceil(shown.length / most.nodes);
    const least = (2 * Math.sqrt(step)) / scale;
    for (const [fill, all] of byFill) {
      context.fillStyle = fill;
      for (let i = 0; i < all.length; i += step) {
        const n = all[i]!;
        const [w, h] = [Math.max(this.widths[n]!, least), Math.max(this.heights[n]!, least)];
        if (isReadable) {
          context.beginPath();
          context.roundRect(x[n]! - w / 2, y[n]! - h / 2, w, h, nodes[n]!.kind === "instruction" ? 4 : 10);
          context.fill();
          if (nodes[n]!.times > 1) {
            context.fillRect(x[n]! - w / 2 + 4, y[n]! + h / 2 + 1.5, w - 8, 1.5);
            context.fillRect(x[n]! - w / 2 + 8, y[n]! + h / 2 + 4, w - 16, 1.5);
          }
        } else context.fillRect(x[n]! - w / 2, y[n]! - h / 2, w, h);
      }
    }
    for (const n of marks.found) this.frame(context, n, theme.mark, Math.max(3, 3 / scale), view);
    if (marks.hovered >= 0) this.frame(context, marks.hovered, theme.soft, Math.max(1.5, 1.5 / scale), view);
    if (marks.selected >= 0) this.frame(context, marks.selected, theme.accent, Math.max(3, 3 / scale), view);
    if (!isReadable) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = INK;
    context.font = `600 ${FONT}px ${MONO}`;
    for (const n of shown) context.fillText(this.fitted(nodes[n]!.title, n), x[n]!, y[n]! - (LINE * nodes[n]!.about.length) / 2);
    context.font = `${FONT - 1}px ${MONO}`;
    context.globalAlpha = 0.8;
    for (const n of shown) nodes[n]!.about.forEach((line, i, { length }) => context.fillText(this.fitted(line, n), x[n]!, y[n]! + LINE * (i + 1 - length / 2)));
    context.globalAlpha = 1;
    for (const n of shown) {
      if (nodes[n]!.kind === "outside") {
        context.setLineDash([4, 3]);
        this.frame(context, n, theme.soft, 1, view);
        context.setLineDash([]);
      }
    }
  }

  private frame(context: CanvasRenderingContext2D, n: number, colour: string, width: number, view: View): void {
    const [x, y, w, h] = [this.made.x[n]!, this.made.y[n]!, this.widths[n]!, this.heights[n]!];
    if (x + w < view.left || x - w > view.right || y + h < view.top || y - h > view.low) return;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x - w / 2 - width / 2, y - h / 2 - width / 2, w + width, h + width);
  }

  /** A text as long as its node. */
  private fitted(text: string, n: number): string {
    const most = Math.floor((this.widths[n]! - 8) / 6.7);
    if (text.length <= most) return text;
    const key = `${most} ${text}`;
    const known = this.texts.get(key);
    if (known !== undefined) return known;
    const head = Math.ceil((most - 1) * 0.55);
    const made = `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
    this.texts.set(key, made);
    return made;
  }

  /** The whole graph without edges, for an overview. */
  overview(width: number, height: number): HTMLCanvasElement {
    const canvas = document.createElement("canvas");
    canvas.width = width;
    canvas.height = height;
    const context = canvas.getContext("2d")!;
    const scale = Math.min(width / Math.max(1, this.made.width), height / Math.max(1, this.made.height));
    const [left, top] = [(width - this.made.width * scale) / 2, (height - this.made.height * scale) / 2];
    this.graph.nodes.forEach((_, n) => {
      context.fillStyle = this.fills[n]!;
      const [w, h] = [Math.max(1, this.widths[n]! * scale), Math.max(1, this.heights[n]! * scale)];
      context.fillRect(left + this.made.x[n]! * scale - w / 2, top + this.made.y[n]! * scale - h / 2, w, h);
    });
    return canvas;
  }
}

interface View {
  left: number;
  right: number;
  top: number;
  low: number;
}

const INK = "#111";
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** The widths and heights of nodes. */
export function sizesOf(graph: Graph): { widths: Float32Array; heights: Float32Array } {
  const widths = Float32Array.from(graph.nodes, ({ title, about }) => Math.max(72, Math.min(300, Math.max(title.length, ...about.map((line) => line.length)) * 6.7 + 14)));
  return { widths, heights: Float32Array.from(graph.nodes, ({ about }) => LINE * (1 + about.length) + 8) };
}
