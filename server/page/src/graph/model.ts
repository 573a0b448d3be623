/** The nodes and edges that a graph shows: parts of a computation, or instructions, with constants and tuples folded. */

import { bytesText } from "../columns.js";
import type { Row } from "../program.js";
import { arrayText, type Flow, isResult, MOST_BOXES, type Part, Parts } from "./parts.js";

export interface GraphNode {
  /** Stays the same when the graph is made again: what is selected is known by it. */
  key: string;
  kind: "instruction" | "group" | "outside" | "computation" | "parameters";
  title: string;
  /** One or two lines below it. */
  about: string[];
  opcode: string;
  /** The instruction, or the first of them. */
  row: Row;
  /** The instructions. */
  rows: Row[];
  /** How many copies of it are folded into this node; whether one of them reads what another one makes; and of a part of them, whether the next copy reads it. */
  times: number;
  isChain?: boolean | undefined;
  isHandedOn: boolean;
  /** Of a group: its key. Of a computation: its name. */
  path: string;
  /** Constants that it takes, which are not drawn. */
  constants: Row[];
  bytes: number;
  padding: number;
}

export interface GraphEdge {
  from: number;
  to: number;
  /** What is passed, if it is one shape. */
  shape: string;
  /** How many values. */
  count: number;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** The parts that are open, from the outside, by what the scope calls them. */
  opened: ReadonlyMap<string, Part>;
  /** The instructions that it was made of. */
  count: number;
}

/** What to show. */
export interface Scope {
  /** `layers`: the parts of a computation; `computations`: which computation calls which. */
  grouping: "layers" | "computations";
  computation: string;
  /** The instruction whose surroundings are shown. */
  center?: Row | undefined;
  distance?: number;
  /** The instruction that is selected: while nothing is opened, the parts around it are. */
  row?: Row | undefined;
  /** Everything between `center` and this one. */
  to?: Row | undefined;
  /** The keys of parts, and the names of fusions, calls and loops, whose parts are shown in their place, in the order in which they were opened. */
  opened?: readonly string[];
}

/** What the model needs of a program. */
export interface Source {
  readonly rows: readonly Row[];
  operandsOf(row: Row): readonly (Row | undefined)[];
  callsOf(row: Row): readonly string[];
}

/** The instructions of a scope, and the values that pass between them. */
class Selection {
  readonly rows: Row[] = [];
  readonly flows: Flow[] = [];
  readonly constants = new Map<Row, Row[]>();
  /** The calls whose instructions stand in their place; two calls of one computation do not have them both. */
  readonly opened = new Set<Row>();
  private readonly inside = new Set<Row>();
  private readonly byComputation = new Map<string, Row[]>();
  private readonly roots = new Map<string, Row>();
  private readonly parameters = new Map<Row, Row | undefined>();

  constructor(
    private readonly source: Source,
    computation: string,
    opened: ReadonlySet<string>,
  ) {
    for (const row of source.rows) {
      const all = this.byComputation.get(row.computation);
      all ? all.push(row) : this.byComputation.set(row.computation, [row]);
      if (row.isRoot) this.roots.set(row.computation, row);
    }
    this.add(computation, opened, new Set([computation]));
    this.rows.sort((a, b) => a.number - b.number);
    for (const row of this.rows) this.inside.add(row);
    const shown: Row[] = [];
    const hidden = new Set<Row>();
    for (const row of this.rows) {
      if (this.isHidden(row)) hidden.add(row);
      else shown.push(row);
    }
    for (const row of shown) {
      for (const operand of source.operandsOf(row)) if (operand) this.connect(operand, row, operand.shape, hidden);
    }
    this.rows = shown;
  }

  private add(computation: string, opened: ReadonlySet<string>, added: Set<string>): void {
    for (const row of this.byComputation.get(computation) ?? []) {
      const called = opened.has(row.name) ? this.called(row) : undefined;
      if (called === undefined || added.has(called)) {
        this.rows.push(row);
        continue;
      }
      added.add(called);
      this.opened.add(row);
      const operands = this.source.operandsOf(row);
      for (const inner of this.byComputation.get(called) ?? []) {
        if (inner.opcode === "parameter" && inner.index !== undefined) this.parameters.set(inner, operands[inner.index]);
      }
      const root = this.roots.get(called);
      if (root) this.parameters.set(row, root); // whoever reads the call reads the root
      this.add(called, opened, added);
    }
    this.rows.splice(0, this.rows.length, ...this.rows.filter((row) => !this.parameters.has(row)));
  }

  /** The computation whose instructions stand for a call: of a loop the body, which has more of them than the condition. */
  called(row: Row): string | undefined {
    const size = (name: string) => this.byComputation.get(name)?.length ?? 0;
    return row.opcode === "conditional" ? undefined : this.source.callsOf(row).toSorted((a, b) => size(b) - size(a))[0];
  }

  private isHidden(row: Row): boolean {
    if (row.isRoot && !this.parameters.has(row)) return false;
    if (row.opcode === "get-tuple-element" || row.opcode === "constant") return true;
    if (row.opcode === "broadcast" || row.opcode === "bitcast") {
      const operand = this.source.operandsOf(row)[0];
      return operand?.opcode === "constant";
    }
    return row.opcode === "tuple";
  }

  /** The flow from where a value is made; through calls that are opened, and through hidden instructions. `elements`: which element of a tuple, from the outside. */
  private connect(from: Row, to: Row, shape: string, hidden: Set<Row>, depth = 0, elements: readonly number[] = []): void {
    let at: Row | undefined = from;
    for (let steps = 0; at && this.parameters.has(at) && steps < 64; steps++) at = this.parameters.get(at);
    if (!at || !this.inside.has(at)) return;
    if (!hidden.has(at)) {
      this.flows.push({ from: at, to, shape });
      return;
    }
    const operands = this.source.operandsOf(at);
    if (at.opcode === "constant" || (at.opcode !== "tuple" && operands[0]?.opcode === "constant")) {
      const all = this.constants.get(to);
      all ? all.push(at) : this.constants.set(to, [at]);
      return;
    }
    if (depth > 64) return;
    if (at.opcode === "tuple") {
      const [index, ...rest] = elements;
      const all = index === undefined ? operands : operands.slice(index, index + 1);
      for (const operand of all) if (operand) this.connect(operand, to, index === undefined ? operand.shape : shape, hidden, depth + 1, rest);
    } else if (operands[0]) {
      const element = at.opcode === "get-tuple-element" ? at.index : undefined;
      this.connect(operands[0], to, shape, hidden, depth + 1, element === undefined ? elements : [element, ...elements]);
    }
  }

  /** Only these instructions. */
  limit(kept: ReadonlySet<Row>): void {
    this.rows.splice(0, this.rows.length, ...this.rows.filter((row) => kept.has(row)));
    this.flows.splice(0, this.flows.length, ...this.flows.filter(({ from, to }) => kept.has(from) && kept.has(to)));
  }

  /** The instructions that are reached from some along edges, or against them, in at most so many steps. */
  reach(from: readonly Row[], isDown: boolean, steps = Infinity): Set<Row> {
    const next = new Map<Row, Row[]>();
    for (const flow of this.flows) {
      const [a, b] = isDown ? [flow.from, flow.to] : [flow.to, flow.from];
      const all = next.get(a);
      all ? all.push(b) : next.set(a, [b]);
    }
    const found = new Set(from);
    let edge = [...from];
    for (let step = 0; step < steps && edge.length > 0; step++) {
      const reached: Row[] = [];
      for (const row of edge) {
        for (const other of next.get(row) ?? []) {
          if (!found.has(other)) {
            found.add(other);
            reached.push(other);
          }
        }
      }
      edge = reached;
    }
    return found;
  }
}

export function graphOf(source: Source, scope: Scope): Graph {
  if (scope.grouping === "computations") return computationsOf(source);
  const { center, to, opened = [] } = scope;
  const whole = new Selection(source, scope.computation, new Set());
  const names = new Set(opened.filter((each) => !each.startsWith("/")));
  const selection = names.size > 0 ? new Selection(source, scope.computation, names) : whole;
  let parts: Parts;
  if (center) {
    const middle = selection.rows.filter((row) => row === center || (names.has(center.name) && selection.called(center) === row.computation));
    if (to) {
      const between = (a: Row, b: Row) => {
        const above = selection.reach([b], false);
        return new Set([...selection.reach([a], true)].filter((row) => above.has(row)));
      };
      const found = between(center, to);
      selection.limit(found.size > 0 ? found : between(to, center));
    } else {
      const distance = scope.distance ?? 2;
      selection.limit(new Set([...selection.reach(middle, true, distance), ...selection.reach(middle, false, distance)]));
    }
    parts = new Parts(selection.rows, selection.flows, new Map(), MOST_BOXES);
  } else {
    const inside = new Map<string, Row[]>();
    const base = new Set(whole.rows);
    for (const row of source.rows) {
      const called = selection.opened.has(row) ? selection.called(row) : undefined;
      if (called !== undefined) inside.set(row.name, selection.rows.filter((each) => each.computation === called && !base.has(each)));
    }
    parts = new Parts(whole.rows, [...whole.flows, ...selection.flows.filter((flow) => !base.has(flow.from) && !base.has(flow.to))], inside);
  }
  const count = selection.rows.length;
  const { boxes, open } = parts.boxes(opened.length > 0 || !scope.row ? opened : parts.wayTo(scope.row));
  // A call that is drawn as one with others, or was closed again, is not open.
  const left = opened.filter((each) => each.startsWith("/") || open.has(each));
  if (!center && left.length < opened.length) return graphOf(source, { ...scope, row: undefined, opened: left });
  const places = new Map<Row, Part>();
  for (const box of boxes) for (const row of box.units.flat()) places.set(row, box);
  return { ...merged(selection, places, parts), opened: open, count };
}

function merged(selection: Selection, places: ReadonlyMap<Row, Part>, parts: Parts): Pick<Graph, "nodes" | "edges"> {
  const nodes: GraphNode[] = [];
  const numbers = new Map<string, number>();
  const numberOf = new Map<Row, number>();
  for (const row of selection.rows) {
    const place = places.get(row);
    if (!place) continue; // of a loop that is closed
    const { key, kind, title, times, isChain } = place;
    let number = numbers.get(key);
    if (number === undefined) {
      number = nodes.length;
      numbers.set(key, number);
      nodes.push({
        key, kind, title, about: [], opcode: row.opcode, row, rows: [], times, isChain, isHandedOn: false, path: key, constants: [], bytes: 0, padding: 0,
      });
    }
    const node = nodes[number]!;
    node.rows.push(row);
    node.bytes += row.bytes ?? 0;
    node.padding += row.paddingBytes ?? 0;
    for (const constant of selection.constants.get(row) ?? []) node.constants.push(constant);
    numberOf.set(row, number);
  }
  const edges = new Map<number, GraphEdge>();
  for (const { from, to, shape } of selection.flows) {
    const [a, b] = [numberOf.get(from), numberOf.get(to)];
    if (a === undefined || b === undefined || a === b) continue;
    if (from.opcode === "parameter" && nodes[a]!.kind === "group" && isResult(to)) continue; // handed on as it is, beside what the layer makes of it
    if (parts.isHandedOn(from, to, places.get(from)!, places.get(to)!)) {
      nodes[a]!.isHandedOn = true;
      continue;
    }
    const key = a * nodes.length + b;
    const edge = edges.get(key);
    const text = arrayText(shape);
    if (!edge) edges.set(key, { from: a, to: b, shape: text, count: 1 });
    else {
      edge.count++;
      if (edge.shape !== text) edge.shape = "";
    }
  }
  for (const node of nodes) {
    if (node.rows.length > 1 && node.kind !== "instruction") node.opcode = node.rows.every(({ opcode }) => opcode === node.opcode) ? node.opcode : "group";
    node.about = aboutOf(node);
  }
  return { nodes, edges: [...edges.values()] };
}

function aboutOf({ kind, opcode, rows, times, isChain, isHandedOn, bytes }: GraphNode): string[] {
  const size = bytes > 0 && (opcode === "parameter" ? bytesText(bytes) : `${bytesText(bytes)} of results`);
  const several = times > 1 && `×${times}${isChain === undefined ? "" : isChain ? " in sequence" : " in parallel"}`;
  const line = (...words: (string | false)[]) => words.filter(Boolean).join(" · ");
  const [first, second] = kind === "parameters" ? [`${rows[0]!.name} … ${rows.at(-1)!.name}`, line(size)]
    : kind === "instruction" ? [line(several, opcode, size), line(isHandedOn && "read by the next copy")]
    : [line(several, countOf(rows.length, "instruction")), line(size, isHandedOn && "read by the next copy")];
  return [first, second].filter((each) => each !== "");
}

export function countOf(count: number, what: string): string {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

/** The computations of a module, each with the instructions that call it. Those that are one node are equally far from those that call none: no edges close a cycle. */
function computationsOf(source: Source): Graph {
  const rows = new Map<string, Row[]>();
  for (const row of source.rows) {
    const all = rows.get(row.computation);
    all ? all.push(row) : rows.set(row.computation, [row]);
  }
  const callsOf = new Map([...rows].map(([name, all]) => [name, new Set(all.flatMap((row) => source.callsOf(row)).filter((called) => rows.has(called)))]));
  const depths = new Map([...rows.keys()].map((name) => [name, 0]));
  for (let isDeeper = true, left = rows.size; isDeeper && left > 0; left--) {
    isDeeper = false;
    for (const [name, calls] of callsOf) {
      const depth = [...calls].reduce((most, called) => Math.max(most, depths.get(called)! + 1), 0);
      isDeeper ||= depth > depths.get(name)!;
      depths.set(name, depth);
    }
  }
  const height = Math.max(...depths.values()) + 1;
  const wordOf = (name: string, all: readonly Row[]) => (all.length <= 12 ? all.map((row) => `${row.opcode} ${arrayText(row.shape)}`).join() : name);
  const sizes = new Map<string, number>();
  for (const [name, all] of rows) sizes.set(wordOf(name, all), (sizes.get(wordOf(name, all)) ?? 0) + all.length);
  // The largest ones each have a node, the others of a depth one together.
  const large = new Set([...sizes].sort((a, b) => b[1] - a[1]).slice(0, Math.max(0, (MOST_BOXES >> 1) - height)).map(([word]) => word));
  const nodes: GraphNode[] = [];
  const edges = new Map<number, GraphEdge>();
  const numberOf = new Map<string, number>();
  const numbers = new Map<string, number>();
  for (const [name, all] of rows) {
    const word = `${Math.floor(depths.get(name)! * Math.min(1, MOST_BOXES / height))} ${large.has(wordOf(name, all)) ? wordOf(name, all) : ""}`;
    const number = numbers.get(word) ?? nodes.length;
    numberOf.set(name, number);
    numbers.set(word, number);
    if (number < nodes.length) {
      nodes[number]!.times++;
      nodes[number]!.rows.push(...all);
      continue;
    }
    nodes.push({
      key: `computation ${name}`, kind: "computation", title: name, about: [], opcode: "group", row: all.find((row) => row.isRoot) ?? all[0]!, rows: [...all], times: 1, isHandedOn: false, path: name,
      constants: [], bytes: 0, padding: 0,
    });
  }
  for (const row of source.rows) {
    for (const called of source.callsOf(row)) {
      const [a, b] = [numberOf.get(row.computation)!, numberOf.get(called)];
      if (b === undefined || a === b) continue;
      const key = a * nodes.length + b;
      const edge = edges.get(key);
      if (edge) {
        edge.count++;
        if (edge.shape !== row.opcode) edge.shape = "";
      } else edges.set(key, { from: a, to: b, shape: row.opcode, count: 1 });
    }
  }
  for (const node of nodes) {
    node.bytes = node.rows.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
    node.padding = node.rows.reduce((sum, row) => sum + (row.paddingBytes ?? 0), 0);
    node.about = [`${node.times > 1 ? `×${node.times} · ` : ""}${countOf(node.rows.length, "instruction")}`];
  }
  return { nodes, edges: [...edges.values()], opened: new Map(), count: source.rows.length };
}
