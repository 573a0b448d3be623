/** The instructions of a module as a graph: the layers of a computation, which open in place; the surroundings of an instruction, or all between two. */

import { Target, TargetSchema } from "@xlashape/client/gen/xlashape/v1/report_service_pb";
import { bytesText, secondsText } from "../columns.js";
import type { Context, Mount, View } from "../context.js";
import { targetSelect } from "../controls.js";
import { h, replace } from "../dom.js";
import { byNumber, byOpcode, type Colouring } from "../graph/colours.js";
import { Layouter } from "../graph/layouter.js";
import { type Graph, graphOf, type Scope } from "../graph/model.js";
import { type Camera, Painting, sizesOf, type Theme } from "../graph/paint.js";
import type { Program, Row } from "../program.js";
import { enumNumber } from "../reports.js";
import type { State } from "../state.js";

const GROUPINGS = [
  ["layers", "layers"],
  ["computations", "computations and calls"],
] as const;

const COLOURS = [
  ["opcode", "opcode"],
  ["bytes", "bytes of the result"],
  ["time", "time"],
  ["waste", "wasted bytes"],
] as const;

const LISTED = 100;
const READABLE = 0.7; // the scale from which texts are read without effort
const NOTHING = "/"; // nothing is open, not even what is around the selection

class GraphView implements View {
  private readonly program: Program;
  private readonly layouter: Layouter;
  private readonly canvas = h("canvas", {
    class: "graph-canvas", tabindex: "0", role: "application", "aria-label": "Graph of instructions. Arrow keys move along edges, plus and minus zoom, slash searches. A list of the nodes is below.",
    "aria-describedby": "graph-focus",
  });
  private readonly overview = h("canvas", { class: "graph-overview", "aria-hidden": "true" });
  private readonly focus = h("p.graph-focus", { id: "graph-focus" });
  private readonly count = h("span.graph-count");
  private readonly crumbs = h("div.graph-crumbs", { role: "navigation", "aria-label": "groups" });
  private readonly legend = h("ul.graph-legend");
  private readonly hits = h("span.found", { role: "status" });
  private readonly search = h("input", { type: "search", placeholder: "Search ( / )", "aria-label": "search nodes", spellcheck: "false" });
  private readonly grouping: HTMLSelectElement;
  private readonly colours: HTMLSelectElement;
  private readonly computation: HTMLSelectElement;
  private readonly target = targetSelect((h) => this.context.setState({ h }, { replace: true }));
  private readonly list = h("details", { class: "graph-list", ontoggle: () => this.fillList(0) }, h("summary", {}, "The nodes as a list"), h("div"));
  private readonly actions = h("div.graph-actions");
  private readonly observer = new ResizeObserver(() => this.resized());
  private readonly scheme = matchMedia("(prefers-color-scheme: dark)");
  private readonly unlisten: () => void;
  private painting: Painting | undefined;
  private graph: Graph | undefined;
  private overviewImage: HTMLCanvasElement | undefined;
  private neighbours: { up: number[][]; down: number[][]; edges: number[][] } = { up: [], down: [], edges: [] };
  private camera: Camera = { x: 0, y: 0, scale: 1 };
  private selected = -1;
  private hovered = -1;
  private found = new Set<number>();
  private frame = 0;
  private rest = 0;
  private isMoving = false;
  private width = 0;
  private height = 0;
  private shownScope = "";
  private generation = 0;
  private readonly numbers = new Map<string, Promise<Map<string, number>>>();
  private theme!: Theme;
  private state: State;

  constructor(
    container: HTMLElement,
    private readonly context: Context,
  ) {
    this.state = context.state;
    this.layouter = new Layouter(context.isRecorded);
    this.program = context.program(context.module.name);
    const select = (label: string, options: readonly (readonly [string, string])[], change: (value: string) => void) =>
      h("select", { "aria-label": label, onchange: (event: Event) => change((event.target as HTMLSelectElement).value) }, options.map(([value, text]) => h("option", { value }, text)));
    this.grouping = select("grouping", GROUPINGS, (g) => context.setState({ g }));
    this.colours = select("colours", COLOURS, (w) => context.setState({ w }, { replace: true }));
    this.computation = select("computation", [], (c) => context.setState({ c, gi: undefined, u: undefined, gx: undefined }));
    this.search.oninput = () => this.find();
    this.search.onkeydown = (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.canvas.focus();
    };
    const button = (text: string, label: string, action: () => void) => h("button", { type: "button", title: label, "aria-label": label, onclick: action }, text);
    container.append(
      h("h1.spoken", {}, "Graph"),
      h("div.graph-bar", {},
        this.computation, this.grouping, h("label", {}, "colour ", this.colours), this.target, this.search, this.hits,
        h("span.graph-buttons", {}, button("−", "zoom out", () => this.zoom(1 / 1.3)), button("+", "zoom in", () => this.zoom(1.3)), button("⤢", "show all", () => this.fit())),
        this.count),
      this.crumbs,
      h("div.graph-stage", {}, this.canvas, this.overview, this.legend),
      h("div.graph-foot", {}, this.focus, this.actions),
      this.list);
    this.listen();
    this.readTheme();
    this.scheme.addEventListener("change", this.restyle);
    this.observer.observe(this.canvas);
    this.unlisten = this.program.onRows(() => this.update(this.state));
    this.program.ready.catch((error) => context.say(error));
    this.update(context.state);
  }

  // -- what is shown ---------------------------------------------------------------------------

  update(state: State): void {
    this.state = state;
    if (!this.program.isComplete) {
      this.count.textContent = "loading…";
      return;
    }
    const scope = this.scopeOf(state);
    const key = JSON.stringify([scope.grouping, scope.computation, scope.center?.name, scope.distance, scope.to?.name, scope.opened, state.h, state.r]);
    if (key !== this.shownScope) {
      this.shownScope = key;
      void this.make(scope);
      return;
    }
    if (state.w !== this.colours.value) void this.colour();
    this.select(this.nodeOf(state.i), false);
  }

  private scopeOf(state: State): Scope {
    const [name, distance] = (state.gi ?? "").split("~");
    const center = name ? this.program.find(name, state.c) : undefined;
    const entry = this.entry();
    const chosen = this.program.find(state.i, state.c);
    const computation = center?.computation ?? state.c ?? (state.gi ? entry : (chosen?.computation ?? entry));
    return {
      grouping: GROUPINGS.find(([each]) => each === state.g)?.[0] ?? "layers", computation, center, distance: Math.min(20, Number(distance ?? 2) || 0),
      to: center && this.program.find(state.u, computation), opened: (state.gx ?? "").split(",").filter(Boolean), row: chosen,
    };
  }

  private entry(): string {
    return this.program.entryFirst()[0]?.computation ?? "";
  }

  private async make(scope: Scope): Promise<void> {
    const generation = ++this.generation;
    this.count.textContent = "laying out…";
    this.canvas.setAttribute("aria-busy", "true");
    performance.mark("graph-start");
    await later();
    if (generation !== this.generation) return;
    const graph = graphOf(this.program, scope);
    await this.addTimes(graph);
    if (generation !== this.generation) return;
    const { widths, heights } = sizesOf(graph);
    const made = await this.layouter.layout({
      widths, heights, from: Int32Array.from(graph.edges, ({ from }) => from), to: Int32Array.from(graph.edges, ({ to }) => to),
    });
    if (generation !== this.generation) return;
    this.graph = graph;
    this.neighbours = { up: graph.nodes.map(() => []), down: graph.nodes.map(() => []), edges: graph.nodes.map(() => []) };
    graph.edges.forEach(({ from, to }, e) => {
      this.neighbours.down[from]!.push(to);
      this.neighbours.up[to]!.push(from);
      this.neighbours.edges[from]!.push(e);
      this.neighbours.edges[to]!.push(e);
    });
    for (const [all, isUp] of [[this.neighbours.up, true], [this.neighbours.down, false]] as const) {
      for (const each of all) each.sort((a, b) => made.x[a]! - made.x[b]! || (isUp ? a - b : b - a));
    }
    await later();
    if (generation !== this.generation) return;
    this.painting = new Painting(graph, made, widths, heights, byOpcode(graph.nodes).fills);
    this.hovered = -1;
    this.selected = this.nodeOf(this.state.i);
    this.fillControls(scope);
    await this.colour();
    this.canvas.removeAttribute("aria-busy");
    this.startView(scope);
    this.select(this.selected, false);
    this.search.value = this.state.q ?? this.search.value;
    this.find();
    this.fillList(0);
    performance.mark("graph-end");
    performance.measure("graph", "graph-start", "graph-end");
    this.canvas.dataset["ready"] = String(this.generation);
  }

  private fillControls(scope: Scope): void {
    const graph = this.graph!;
    this.grouping.value = scope.grouping;
    this.colours.value = this.state.w ?? "opcode";
    const computations = new Map<string, number>();
    for (const row of this.program.rows) computations.set(row.computation, (computations.get(row.computation) ?? 0) + 1);
    const sorted = [...computations].sort((a, b) => b[1] - a[1]);
    const named = sorted.slice(0, 200);
    if (!named.some(([name]) => name === scope.computation)) named.push([scope.computation, computations.get(scope.computation) ?? 0]);
    replace(this.computation, named.map(([name, size]) => h("option", { value: name }, `${name} (${size.toLocaleString("en")})`)));
    this.computation.value = scope.computation;
    const shown = graph.nodes.length.toLocaleString("en");
    const all = graph.count.toLocaleString("en");
    this.count.textContent = `${shown} node${graph.nodes.length === 1 ? "" : "s"}${graph.nodes.length !== graph.count ? ` of ${all} instructions` : ""}, ${graph.edges.length.toLocaleString("en")} edges`;
    const opened = [...graph.opened];
    replace(this.crumbs,
      scope.center ? [h("a", { href: this.context.link({ gi: undefined, u: undefined }) }, scope.computation), " › ", scope.to ? `between ${scope.center.name} and ${scope.to.name}` : `around ${scope.center.name}`]
      : opened.length > 0 ? ["open: ", opened.map(([key, { title }]) => [h("a", { href: this.context.link({ gx: this.without(key), i: undefined }), title: `close ${title}`, "aria-label": `close ${title}` }, `${title} ×`), " "])]
      : graph.nodes.some(({ kind }) => kind === "group") && "Click a layer to open it.");
    if (scope.center && !scope.to) {
      const step = (change: number) => this.context.setState({ gi: `${scope.center!.name}~${Math.max(1, Math.min(20, (scope.distance ?? 2) + change))}` });
      this.crumbs.append(" ", h("button", { type: "button", onclick: () => step(-1), "aria-label": "fewer neighbours" }, "−"), ` ${scope.distance === 1 ? "1 edge" : `${scope.distance} edges`} `,
        h("button", { type: "button", onclick: () => step(1), "aria-label": "more neighbours" }, "+"));
    }
    if (graph.nodes.length === 0) this.crumbs.append(h("p", {}, scope.to ? `No edges lead from one to the other.` : "There is nothing to show."));
  }

  /** The whole graph if it can be read so; else what was opened last, what is selected, or the beginning. */
  private startView(scope: Scope): void {
    this.resized();
    this.fit();
    if (this.camera.scale >= READABLE) return;
    const { nodes, opened } = this.graph!;
    const { made, widths, heights } = this.painting!;
    const inside = `${[...opened.keys()].findLast((each) => each.startsWith("/")) ?? ""}/`;
    const chosen = this.selected >= 0 ? this.selected : scope.center ? this.nodeOf(scope.center.name) : -1;
    const seen = nodes.map((_, n) => n).filter((n) => (chosen >= 0 ? n === chosen : inside.length > 1 && nodes[n]!.key.startsWith(inside)));
    const side = (of: (n: number) => number) => [Math.min(...seen.map((n) => of(n) - widths[n]! / 2)), Math.max(...seen.map((n) => of(n) + widths[n]! / 2))] as const;
    if (seen.length === 0) {
      this.camera = { ...this.camera, y: this.height / 2 / READABLE - heights[0]!, scale: READABLE };
    } else {
      const [[left, right], [top, low]] = [side((n) => made.x[n]!), side((n) => made.y[n]!)];
      const scale = Math.min(1, (this.width - 40) / (right - left), (this.height - 40) / (low - top));
      this.camera = { x: (left + right) / 2, y: (top + low) / 2, scale: Math.max(scale, READABLE) };
    }
    this.paint();
  }

  /** What is open without one part and those in it. */
  private without(key: string): string {
    const { opened } = this.graph!;
    const outer = opened.get(key)!.key;
    const left = [...opened].filter(([each, part]) => each !== key && !part.key.startsWith(`${outer}/`));
    return left.map(([each]) => each).join(",") || NOTHING;
  }

  private nodeOf(name: string | undefined): number {
    if (!name || !this.graph) return -1;
    const exact = this.graph.nodes.findIndex((node) => node.row.name === name);
    return exact >= 0 ? exact : this.graph.nodes.findIndex((node) => node.rows.some((row) => row.name === name));
  }

  // -- colours ---------------------------------------------------------------------------------

  private async colour(): Promise<void> {
    const { graph, painting } = this;
    if (!graph || !painting) return;
    const wanted = this.state.w ?? "opcode";
    this.colours.value = wanted;
    this.target.value = this.state.h ?? "";
    this.target.hidden = wanted !== "time" || this.measured() !== undefined;
    let made: Colouring;
    let note = "";
    try {
      if (wanted === "bytes") made = byNumber(await this.sums("bytes"), bytesText, "bytes");
      else if (wanted === "waste") made = byNumber(await this.sums("waste"), bytesText, "waste");
      else if (wanted === "time") {
        const isMeasured = this.measured() !== undefined;
        const isTime = isMeasured || this.state.h !== undefined;
        made = byNumber(await this.sums("time"), isTime ? secondsText : bytesText, isTime ? "time" : "bytes");
        note = isMeasured ? "time in the profile" : isTime ? `least time on ${this.state.h}` : "bytes read and written; times with a target or a profile";
      } else made = byOpcode(graph.nodes);
    } catch (error) {
      this.context.say(error);
      made = byOpcode(graph.nodes);
    }
    if (this.painting !== painting) return;
    painting.fills = made.fills;
    replace(this.legend, made.legend.map(({ colour, text }) => h("li", {}, swatch(colour), text)), note && h("li", {}, note));
    this.overviewImage = undefined;
    this.paint();
  }

  /** The profile that is open beside the module. */
  private measured(): Uint8Array | undefined {
    const content = this.context.content();
    return content?.kind === "profile" ? content.bytes : undefined;
  }

  /** Adds to what nodes say of themselves their times in the profile, or else their least times on the target. */
  private async addTimes(graph: Graph): Promise<void> {
    if (!this.measured() && !this.state.h) return;
    try {
      const times = await this.sums("time", graph);
      graph.nodes.forEach((node, n) => times[n]! > 0 && node.about.push(`${secondsText(times[n]!)} ${this.measured() ? "in the profile" : `at least on ${this.state.h}`}`));
    } catch (error) {
      this.context.say(error);
    }
  }

  private async sums(what: string, graph = this.graph!): Promise<number[]> {
    const known = what === "bytes" && this.program.rows.some((row) => row.bytes !== undefined);
    const numbers = known ? undefined : await (this.numbers.get(`${what} ${this.state.h} ${this.state.r}`) ?? this.remember(what));
    return graph.nodes.map((node) => node.rows.reduce((sum, row) => sum + (numbers ? (numbers.get(row.name) ?? 0) : (row.bytes ?? 0)), 0));
  }

  private remember(what: string): Promise<Map<string, number>> {
    const made = this.fetchNumbers(what);
    this.numbers.set(`${what} ${this.state.h} ${this.state.r}`, made);
    made.catch(() => this.numbers.delete(`${what} ${this.state.h} ${this.state.r}`));
    return made;
  }

  /** A number of each instruction, from a report. */
  private async fetchNumbers(what: string): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    const add = (name: string | undefined, value: number | bigint | undefined) => name !== undefined && found.set(name, (found.get(name) ?? 0) + Number(value ?? 0));
    const module = { source: { case: "name" as const, value: this.context.module.name } };
    const target = this.state.h ? enumNumber(TargetSchema, this.state.h) : Target.UNSPECIFIED;
    const { reports } = this.context.client;
    let pageToken = "";
    do {
      const request = { module, pageToken };
      const profile = what === "time" ? this.measured() : undefined;
      if (profile) {
        const answer = await reports.profile({ profile, pageToken, target });
        for (const row of answer.rows) add(row.name, row.selfTime ?? row.time);
        pageToken = answer.nextPageToken;
      } else if (what === "time") {
        const answer = await reports.cost({ ...request, target });
        for (const row of answer.rows) add(row.name, row.leastTime !== undefined ? row.leastTime * Number(row.times ?? 1n) : Number(row.bytes ?? 0n) * Number(row.times ?? 1n));
        pageToken = answer.nextPageToken;
      } else if (what === "waste") {
        const answer = await reports.reads(request);
        for (const row of answer.reads) add(row.instruction, row.wastedBytes);
        pageToken = answer.nextPageToken;
      } else {
        const answer = await reports.size({ subject: { case: "module", value: module }, pageToken });
        for (const row of answer.buffers) add(row.name, row.bytes);
        pageToken = answer.nextPageToken;
      }
    } while (pageToken);
    if (what === "waste") for (const row of this.program.rows) if (row.paddingBytes) add(row.name, row.paddingBytes);
    return found;
  }

  private readonly restyle = () => {
    this.readTheme();
    this.paint();
  };

  private readTheme(): void {
    const style = getComputedStyle(document.documentElement);
    const of = (name: string) => style.getPropertyValue(name).trim();
    this.theme = { ground: of("--surface"), ink: of("--ink"), soft: of("--soft"), line: of("--faint"), accent: of("--accent"), mark: of("--warn") };
  }

  // -- painting --------------------------------------------------------------------------------

  private resized(): void {
    const box = this.canvas.getBoundingClientRect();
    if (box.width === 0) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    [this.width, this.height] = [box.width, box.height];
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.draw(); // a canvas of another size is empty: until the next frame it would be black
  }

  /** `isMoving`: coarsely, and again when nothing has moved for a moment. */
  private paint(isMoving = false): void {
    clearTimeout(this.rest);
    this.isMoving = isMoving;
    if (isMoving) this.rest = window.setTimeout(() => this.paint(), 150);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    if (!this.painting || this.width === 0) return; // before the first picture there is no context, which would be black
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context) return;
    const edges = new Set(this.selected >= 0 ? this.neighbours.edges[this.selected] : []);
    this.painting.draw(context, this.width, this.height, this.canvas.width / Math.max(1, this.width), this.camera, this.theme, {
      selected: this.selected, edges, found: this.found, hovered: this.hovered,
    }, this.isMoving);
    this.paintOverview();
  }

  private paintOverview(): void {
    const { made } = this.painting!;
    const isSmall = made.width * this.camera.scale < this.width * 1.2 && made.height * this.camera.scale < this.height * 1.2;
    this.overview.hidden = isSmall;
    if (isSmall) return;
    this.overviewImage ??= this.painting!.overview(120, 160);
    if (this.overview.width !== 120) [this.overview.width, this.overview.height] = [120, 160];
    const context = this.overview.getContext("2d")!;
    context.clearRect(0, 0, 120, 160);
    context.drawImage(this.overviewImage, 0, 0);
    const scale = Math.min(120 / Math.max(1, made.width), 160 / Math.max(1, made.height));
    const [left, top] = [(120 - made.width * scale) / 2, (160 - made.height * scale) / 2];
    const [w, height] = [Math.max(4, (this.width / this.camera.scale) * scale), Math.max(4, (this.height / this.camera.scale) * scale)];
    context.strokeStyle = this.theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + this.camera.x * scale - w / 2, top + this.camera.y * scale - height / 2, w, height);
  }

  private fit(): void {
    if (!this.painting || this.width === 0) return;
    const { made } = this.painting;
    const scale = Math.min(1.5, (this.width - 40) / Math.max(1, made.width), (this.height - 60) / Math.max(1, made.height));
    this.camera = { x: made.width / 2, y: made.height / 2, scale };
    this.paint();
  }

  private zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const { camera } = this;
    const scale = Math.max(0.002, Math.min(3, camera.scale * factor));
    const moved = 1 / camera.scale - 1 / scale;
    this.camera = { x: camera.x + (x - this.width / 2) * moved, y: camera.y + (y - this.height / 2) * moved, scale };
    this.paint(true);
  }

  private show(node: number): void {
    const { made } = this.painting!;
    const { camera } = this;
    const [dx, dy] = [Math.abs(made.x[node]! - camera.x) * camera.scale, Math.abs(made.y[node]! - camera.y) * camera.scale];
    const scale = Math.max(camera.scale, 0.6);
    if (dx > this.width / 2 - 80 || dy > this.height / 2 - 40 || scale !== camera.scale) this.camera = { x: made.x[node]!, y: made.y[node]!, scale };
  }

  // -- pointing, keys --------------------------------------------------------------------------

  private listen(): void {
    const { canvas } = this;
    const pointers = new Map<number, { x: number; y: number }>();
    let travelled = 0;
    const at = (event: { clientX: number; clientY: number }) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const nodeAt = (point: { x: number; y: number }) =>
      this.painting?.nodeAt(this.camera.x + (point.x - this.width / 2) / this.camera.scale, this.camera.y + (point.y - this.height / 2) / this.camera.scale) ?? -1;
    canvas.onpointerdown = (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      travelled = 0;
    };
    canvas.onpointermove = (event) => {
      const point = at(event);
      const last = pointers.get(event.pointerId);
      if (!last) {
        const node = nodeAt(point);
        if (node !== this.hovered) {
          this.hovered = node;
          canvas.style.cursor = node >= 0 ? "pointer" : "grab";
          this.paint();
        }
        return;
      }
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, each]) => each);
      pointers.set(event.pointerId, point);
      travelled += Math.hypot(point.x - last.x, point.y - last.y);
      const other = others[0];
      if (other) this.zoom(Math.hypot(point.x - other.x, point.y - other.y) / Math.max(1, Math.hypot(last.x - other.x, last.y - other.y)), (point.x + other.x) / 2, (point.y + other.y) / 2);
      const share = other ? 0.5 : 1;
      this.camera = { ...this.camera, x: this.camera.x - ((point.x - last.x) * share) / this.camera.scale, y: this.camera.y - ((point.y - last.y) * share) / this.camera.scale };
      this.paint(true);
    };
    canvas.onpointerup = (event) => {
      const point = pointers.get(event.pointerId);
      pointers.delete(event.pointerId);
      if (!point || travelled >= 5) return;
      const node = nodeAt(point);
      if (this.graph?.nodes[node]?.kind === "group") this.enter(node);
      else this.select(node, true);
    };
    canvas.onpointercancel = (event) => void pointers.delete(event.pointerId);
    canvas.onpointerleave = () => {
      if (this.hovered >= 0) {
        this.hovered = -1;
        this.paint();
      }
    };
    canvas.ondblclick = (event) => this.enter(nodeAt(at(event)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const point = at(event);
      if (event.shiftKey) {
        this.camera = { ...this.camera, x: this.camera.x + (event.deltaY + event.deltaX) / this.camera.scale };
        this.paint(true);
      } else this.zoom(Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) * (event.ctrlKey ? 0.01 : 0.004)), point.x, point.y);
    }, { passive: false });
    canvas.onkeydown = (event) => this.key(event);
    this.overview.onclick = (event) => {
      if (!this.painting) return;
      const { made } = this.painting;
      const scale = Math.min(120 / Math.max(1, made.width), 160 / Math.max(1, made.height));
      this.camera = { ...this.camera, x: (event.offsetX - (120 - made.width * scale) / 2) / scale, y: (event.offsetY - (160 - made.height * scale) / 2) / scale };
      this.paint();
    };
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.graph) return;
    const step = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" }[event.key];
    if (step) this.move(step);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "/") this.search.focus();
    else if (event.key === "n" || event.key === "N") this.next(event.key === "n" ? 1 : -1);
    else if (event.key === "Enter") this.enter(this.selected);
    else if (event.key === "Escape") this.select(-1, true);
    else if (event.key === "Backspace" && this.graph.opened.size > 0) this.context.setState({ gx: this.without([...this.graph.opened.keys()].at(-1)!), i: undefined });
    else return;
    event.preventDefault();
  }

  /** Along edges: up to the first operand, down to the first user, to the sides among nodes of the same layer. */
  private move(step: string): void {
    const { made } = this.painting!;
    if (made.x.length === 0) return;
    let next: number | undefined;
    const { camera } = this;
    const distance = (n: number) => Math.hypot(made.x[n]! - camera.x, made.y[n]! - camera.y);
    if (this.selected < 0) next = made.x.reduce((best, _, n) => (distance(n) < distance(best) ? n : best), 0);
    else if (step === "up" || step === "down") {
      const all = this.neighbours[step][this.selected]!;
      next = all.toSorted((a, b) => Math.abs(made.x[a]! - made.x[this.selected]!) - Math.abs(made.x[b]! - made.x[this.selected]!))[0];
    } else {
      const here = made.x[this.selected]!;
      let best = Infinity;
      made.layer.forEach((layer, n) => {
        const away = step === "left" ? here - made.x[n]! : made.x[n]! - here;
        if (layer === made.layer[this.selected] && away > 0 && away < best) [best, next] = [away, n];
      });
    }
    if (next === undefined) this.context.announce(`nothing ${step === "up" ? "above" : step === "down" ? "below" : `to the ${step}`}`);
    else this.select(next, true);
  }

  private select(node: number, isAsked: boolean): void {
    this.selected = node;
    const shown = this.graph?.nodes[node];
    if (isAsked) {
      this.context.setState({ i: shown && shown.kind === "instruction" ? shown.row.name : undefined }, { replace: true });
      if (shown) {
        this.show(node);
        this.context.announce(this.spoken(node));
      }
    }
    replace(this.focus, shown ? this.spoken(node) : "Nothing is selected. Click a node, or use the arrow keys.");
    replace(this.actions, shown ? this.actionsOf(node) : []);
    this.paint();
  }

  private spoken(n: number): string {
    const node = this.graph!.nodes[n]!;
    const names = (all: readonly number[]) => all.slice(0, 4).map((each) => this.graph!.nodes[each]!.title).join(", ") + (all.length > 4 ? `, and ${all.length - 4} more` : "");
    const { up, down } = this.neighbours;
    const about = node.about.join(" · ");
    const what = node.kind === "instruction" ? `${node.title}, ${about}, ${shortened(node.row.shape)}` : `${node.title}, ${about}`;
    const constants = node.constants.length > 0 ? `; ${node.constants.length} constant${node.constants.length > 1 ? "s" : ""}: ${shortened(node.constants.map((row) => row.name).join(", "))}` : "";
    return `${what}${up[n]!.length > 0 ? `; reads ${names(up[n]!)}` : ""}${down[n]!.length > 0 ? `; read by ${names(down[n]!)}` : ""}${constants}`;
  }

  private actionsOf(n: number): HTMLElement[] {
    const node = this.graph!.nodes[n]!;
    const { context, state } = this;
    const made: HTMLElement[] = [];
    const link = (text: string, patch: Parameters<Context["link"]>[0]) => made.push(h("a", { href: context.link(patch) }, text));
    const opened = [...(this.graph?.opened.keys() ?? [])];
    if (node.kind === "group") link("open this layer", { gx: [...opened, node.path].join(","), i: undefined });
    if (node.kind === "outside") link("close what is open", { gx: NOTHING, i: undefined });
    if (node.kind === "computation") link("open this computation", { c: node.path, g: undefined, gi: undefined, gx: undefined });
    if (node.kind !== "instruction") return made;
    const called = this.program.callsOf(node.row)[0];
    if (called !== undefined) {
      if (node.opcode !== "conditional" && node.rows.length === 1) link("show its instructions here", { gx: [...opened, node.row.name].join(",") });
      link(`open ${called}`, { c: called, gi: undefined, gx: undefined, u: undefined, i: undefined });
    }
    link("only its surroundings", { gi: `${node.row.name}~2`, u: undefined, g: undefined, gx: undefined });
    const [center] = (state.gi ?? "").split("~");
    if (center && center !== node.row.name && !state.u) link(`everything between ${center} and this`, { u: node.row.name });
    if (state.gi) link("the whole computation", { gi: undefined, u: undefined, gx: undefined });
    return made;
  }

  private enter(n: number): void {
    const node = this.graph?.nodes[n];
    if (!node) return;
    const first = this.actionsOf(n)[0] as HTMLAnchorElement | undefined;
    if (first && (node.kind !== "instruction" || this.program.callsOf(node.row).length > 0)) this.context.go(first.getAttribute("href")!);
  }

  // -- search, list ----------------------------------------------------------------------------

  private find(): void {
    const text = this.search.value.trim().toLowerCase();
    this.found = new Set();
    if (text && this.graph) {
      this.graph.nodes.forEach((node, n) => {
        const isFound = (row: Row) => row.name.toLowerCase().includes(text) || row.opcode === text || row.opName.toLowerCase().includes(text) || row.shape.toLowerCase().includes(text);
        if (node.title.toLowerCase().includes(text) || node.rows.some(isFound)) this.found.add(n);
      });
    }
    this.hits.textContent = !text ? "" : this.found.size === 0 ? "not found" : `${this.found.size.toLocaleString("en")} found`;
    this.search.title = this.found.size > 0 ? "Enter for the next" : "";
    this.paint();
  }

  private next(step: number): void {
    const all = [...this.found];
    if (all.length === 0) return;
    const at = all.indexOf(this.selected);
    this.select(all[(at + step + all.length) % all.length]!, true);
  }

  /** For screen readers, and for everybody who would rather read: the nodes in the order of the layout, with what they read and what reads them. */
  private fillList(first: number): void {
    if (!this.list.open || !this.graph) return;
    const { nodes } = this.graph;
    const { made } = this.painting!;
    const order = nodes.map((_, n) => n).sort((a, b) => made.layer[a]! - made.layer[b]! || made.x[a]! - made.x[b]!);
    const link = (n: number) => h("button.link", { type: "button", onclick: () => this.select(n, true) }, nodes[n]!.title);
    const items = order.slice(first, first + LISTED).map((n) =>
      h("li", {}, link(n), ` ${nodes[n]!.about.join(" · ")}`,
        this.neighbours.up[n]!.length > 0 && [" reads ", commas(this.neighbours.up[n]!.slice(0, 12).map(link))],
        this.neighbours.down[n]!.length > 0 && [", read by ", commas(this.neighbours.down[n]!.slice(0, 12).map(link))]));
    const page = (text: string, to: number) => h("button", { type: "button", onclick: () => this.fillList(to) }, text);
    replace(this.list.lastElementChild!, h("ol", { start: first + 1 }, items),
      first > 0 && page("previous", Math.max(0, first - LISTED)), first + LISTED < order.length && page("next", first + LISTED));
  }

  copies() {
    const png = () => new Promise<Blob>((resolve, reject) => this.canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser made no image"))), "image/png"));
    const markdown = () => `\`\`\`mermaid\n${this.mermaid()}\n\`\`\`\n`;
    return { png, markdown };
  }

  private mermaid(): string {
    const nodes = this.graph?.nodes.slice(0, 200) ?? [];
    const text = (value: string) => `"${value.replace(/["<>&#]/g, " ")}"`;
    const edges = (this.graph?.edges ?? []).filter(({ from, to }) => from < nodes.length && to < nodes.length);
    return ["flowchart TD", ...nodes.map((node, n) => `  n${n}[${text([node.title, ...node.about].join(" · "))}]`), ...edges.map(({ from, to, shape }) => `  n${from} -->${shape ? `|${text(shape)}|` : ""} n${to}`)].join("\n");
  }

  dispose(): void {
    this.unlisten();
    this.observer.disconnect();
    this.layouter.dispose();
    this.scheme.removeEventListener("change", this.restyle);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.rest);
  }
}

function later(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function commas(nodes: readonly HTMLElement[]): (HTMLElement | string)[] {
  return nodes.flatMap((node, i) => (i === 0 ? [node] : [", ", node]));
}

function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** A colour beside its meaning. Styles of elements are not inline styles of a document: the policy allows them. */
function swatch(colour: string): HTMLElement {
  const made = h("i.graph-swatch");
  made.style.background = colour;
  return made;
}

export const mount: Mount = (container, context) => new GraphView(container, context);
