/** The nodes and edges that a graph shows: instructions, with constants and tuples folded, and repeated layers or operations of the framework as one node. */

import type { Row } from "../program.js";
import { repeats } from "./repeats.js";

export interface GraphNode {
  /** Stays the same when the graph is made again: what is selected is known by it. */
  key: string;
  kind: "instruction" | "group" | "outside" | "computation" | "parameters";
  /** Two lines. */
  title: string;
  about: string;
  opcode: string;
  /** The instruction, or the first of them. */
  row: Row;
  /** The instructions. */
  rows: Row[];
  /** How many copies of it are folded into this node. */
  times: number;
  /** Of a group: the way to it through the names of operations. Of a computation: its name. */
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
  /** From a copy of a repeated layer to the next. */
  isNext: boolean;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** The names of the groups around what is shown, from the outside. */
  path: string[];
  /** The instructions that it was made of. */
  count: number;
}

/** What to show. */
export interface Scope {
  /** `layers`: repeated layers folded; `operations`: by the names of operations; `all`: every instruction; `computations`: which computation calls which. */
  grouping: "layers" | "operations" | "all" | "computations";
  computation: string;
  /** Of `operations`: the group whose parts are shown, with `/` between names. */
  group?: string;
  /** The instruction whose surroundings are shown. */
  center?: Row | undefined;
  distance?: number;
  /** Everything between `center` and this one. */
  to?: Row | undefined;
  /** Fusions and calls whose instructions are shown in their place. */
  opened?: ReadonlySet<string>;
}

/** What the model needs of a program. */
export interface Source {
  readonly rows: readonly Row[];
  operandsOf(row: Row): readonly (Row | undefined)[];
  callsOf(row: Row): readonly string[];
}

export function arrayText(shape: string): string {
  return shape.length > 60 && shape.startsWith("(") ? "tuple" : shape.replace(/\{[^{}]*\}/g, "");
}

export function sizeText(bytes: number): string {
  for (const [unit, size] of [["EiB", 2 ** 60], ["PiB", 2 ** 50], ["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
    if (bytes >= size) return `${(bytes / size).toPrecision(3)} ${unit}`;
  }
  return `${bytes} B`;
}

interface Flow {
  from: Row;
  to: Row;
  shape: string;
}

/** The instructions of a scope, and the values that pass between them. */
class Selection {
  readonly rows: Row[] = [];
  readonly flows: Flow[] = [];
  readonly constants = new Map<Row, Row[]>();
  private readonly inside = new Set<Row>();
  private readonly byComputation = new Map<string, Row[]>();
  private readonly roots = new Map<string, Row>();
  private readonly parameters = new Map<Row, Row | undefined>();

  constructor(
    private readonly source: Source,
    private readonly isFolded: boolean,
    computation: string,
    opened: ReadonlySet<string>,
  ) {
    for (const row of source.rows) {
      const all = this.byComputation.get(row.computation);
      all ? all.push(row) : this.byComputation.set(row.computation, [row]);
      if (row.isRoot) this.roots.set(row.computation, row);
    }
    this.add(computation, opened, 0);
    this.rows.sort((a, b) => a.number - b.number);
    for (const row of this.rows) this.inside.add(row);
    const shown: Row[] = [];
    const hidden = new Set<Row>();
    for (const row of this.rows) {
      if (this.isFolded && this.isHidden(row)) hidden.add(row);
      else shown.push(row);
    }
    for (const row of shown) {
      for (const operand of source.operandsOf(row)) if (operand) this.connect(operand, row, operand.shape, hidden);
    }
    this.rows = shown;
  }

  private add(computation: string, opened: ReadonlySet<string>, depth: number): void {
    for (const row of this.byComputation.get(computation) ?? []) {
      const called = this.source.callsOf(row)[0];
      if (called === undefined || !opened.has(row.name) || depth > 8 || row.opcode === "while" || row.opcode === "conditional") {
        this.rows.push(row);
        continue;
      }
      const operands = this.source.operandsOf(row);
      for (const inner of this.byComputation.get(called) ?? []) {
        if (inner.opcode === "parameter" && inner.index !== undefined) this.parameters.set(inner, operands[inner.index]);
      }
      const root = this.roots.get(called);
      if (root) this.parameters.set(row, root); // whoever reads the call reads the root
      this.add(called, opened, depth + 1);
    }
    this.rows.splice(0, this.rows.length, ...this.rows.filter((row) => !this.parameters.has(row)));
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

/** Three or more instructions of one opcode that read from the same nodes and are read by the same nodes get one place together, such as parameters. */
function withAlike(selection: Selection, places: Map<Row, Place>): Map<Row, Place> {
  const around = new Map<Row, [above: Set<string>, below: Set<string>]>();
  const keyOf = (row: Row) => places.get(row)?.key ?? row.name;
  for (const { from, to } of selection.flows) {
    for (const [row, other, side] of [[from, to, 1], [to, from, 0]] as const) {
      if (places.has(row)) continue;
      let sides = around.get(row);
      if (!sides) around.set(row, (sides = [new Set(), new Set()]));
      sides[side].add(keyOf(other));
    }
  }
  const alike = new Map<string, Row[]>();
  for (const [row, sides] of around) {
    const word = [row.opcode, ...sides.map((side) => [...side].sort().join("\n"))].join("\n\n");
    const all = alike.get(word);
    all ? all.push(row) : alike.set(word, [row]);
  }
  for (const all of alike.values()) {
    const first = all[0]!;
    if (all.length < 3) continue;
    const isParameters = first.opcode === "parameter";
    const place: Place = { key: `alike ${first.name}`, kind: isParameters ? "parameters" : "instruction", title: isParameters ? `${all.length} parameters` : first.name, path: "", times: isParameters ? 1 : all.length };
    for (const row of all) places.set(row, place);
  }
  return places;
}

export function graphOf(source: Source, scope: Scope): Graph {
  if (scope.grouping === "computations") return computationsOf(source);
  const selection = new Selection(source, scope.grouping !== "all", scope.computation, scope.opened ?? new Set());
  const { center, to } = scope;
  let isPart = false;
  if (center) {
    isPart = true;
    const middle = selection.rows.filter((row) => row === center || (scope.opened?.has(center.name) && source.callsOf(center).includes(row.computation)));
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
  }
  const count = selection.rows.length;
  if (scope.grouping === "operations") {
    const { places, path } = operationsOf(selection, scope.group ?? "");
    return { ...merged(selection, withAlike(selection, places)), path, count };
  }
  const places = new Map<Row, Place>();
  if (scope.grouping === "layers" && !isPart) {
    const words = selection.rows.map((row) => `${row.opcode} ${arrayText(row.shape)}`);
    for (const { start, period, copies } of repeats(words)) {
      for (let i = 0; i < period * copies; i++) {
        const first = selection.rows[start + (i % period)]!;
        places.set(selection.rows[start + i]!, { key: `${first.name} ×`, kind: "instruction", title: first.name, path: "", times: copies });
      }
    }
  }
  if (scope.grouping === "layers") withAlike(selection, places);
  return { ...merged(selection, places), path: [], count };
}

/** The node that an instruction belongs to; instructions without one are nodes of their own. */
interface Place {
  key: string;
  kind: GraphNode["kind"];
  title: string;
  path: string;
  times: number;
}

function merged(selection: Selection, places: ReadonlyMap<Row, Place>): Pick<Graph, "nodes" | "edges"> {
  const nodes: GraphNode[] = [];
  const numbers = new Map<string, number>();
  const numberOf = new Map<Row, number>();
  for (const row of selection.rows) {
    const place = places.get(row);
    const key = place?.key ?? row.name;
    let number = numbers.get(key);
    if (number === undefined) {
      number = nodes.length;
      numbers.set(key, number);
      nodes.push({
        key, kind: place?.kind ?? "instruction", title: place?.title ?? row.name, about: "", opcode: row.opcode, row, rows: [], times: place?.times ?? 1,
        path: place?.path ?? "", constants: [], bytes: 0, padding: 0,
      });
    }
    const node = nodes[number]!;
    node.rows.push(row);
    node.bytes += row.bytes ?? 0;
    node.padding += row.paddingBytes ?? 0;
    for (const constant of selection.constants.get(row) ?? []) node.constants.push(constant);
    numberOf.set(row, number);
  }
  for (const node of nodes) {
    if (node.rows.length > 1 && node.kind !== "instruction") node.opcode = node.rows.every(({ opcode }) => opcode === node.opcode) ? node.opcode : "group";
    const size = node.bytes > 0 ? ` · ${sizeText(node.bytes)}` : "";
    const several = node.times > 1 ? `×${node.times} ` : "";
    const range = `${node.rows[0]!.name} … ${node.rows.at(-1)!.name}`;
    node.about = node.kind === "parameters" ? `${range}${size}` : node.kind === "instruction" ? `${several}${node.opcode}${size}` : `${several}${node.rows.length.toLocaleString("en")} instructions${size}`;
  }
  const edges = new Map<number, GraphEdge>();
  for (const { from, to, shape } of selection.flows) {
    const [a, b] = [numberOf.get(from)!, numberOf.get(to)!];
    if (a === b) continue;
    const key = a * nodes.length + b;
    const edge = edges.get(key);
    const text = arrayText(shape);
    if (!edge) edges.set(key, { from: a, to: b, shape: text, count: 1, isNext: nodes[a]!.times > 1 && from.number > to.number });
    else {
      edge.count++;
      if (edge.shape !== text) edge.shape = "";
    }
  }
  return { nodes, edges: [...edges.values()] };
}

/** Names of operations, such as `jit(f)/layer_3/dot_general`; an instruction without one has that of the first one it is used by, or of an operand. */
function namesOf(selection: Selection): Map<Row, string[]> {
  const names = new Map<Row, string[]>();
  const of = (row: Row) => names.get(row);
  for (const row of selection.rows) if (row.opName) names.set(row, row.opName.split("/").filter(Boolean));
  for (const { from, to } of selection.flows.toReversed()) {
    const name = of(to);
    if (!of(from) && name && from.opcode !== "parameter") names.set(from, name);
  }
  for (const { from, to } of selection.flows) {
    const name = of(from);
    if (!of(to) && name && from.opcode !== "parameter") names.set(to, name);
  }
  return names;
}

function operationsOf(selection: Selection, group: string): { places: Map<Row, Place>; path: string[] } {
  const names = namesOf(selection);
  const wanted = group ? group.split("/") : [];
  const isInside = (name: readonly string[] | undefined, path: readonly string[]) => name !== undefined && path.every((part, i) => name[i] === part);
  const inside = selection.rows.filter((row) => isInside(names.get(row), wanted));
  // A group with nothing but one group in it is that one.
  const path = [...wanted];
  for (;;) {
    const next = inside.find((row) => row.opcode !== "parameter") && names.get(inside.find((row) => row.opcode !== "parameter")!)?.[path.length];
    if (next === undefined || !inside.every((row) => row.opcode === "parameter" || (names.get(row)?.[path.length] === next && names.get(row)!.length > path.length + 1))) break;
    path.push(next);
  }
  const depth = path.length;
  // Groups that differ in a number alone and hold the same operations are layers.
  const parts = new Map<string, Row[]>();
  for (const row of inside) {
    const part = names.get(row)?.[depth];
    if (part === undefined || names.get(row)!.length <= depth + 1) continue;
    const all = parts.get(part);
    all ? all.push(row) : parts.set(part, [row]);
  }
  const layers = new Map<string, string[]>();
  for (const [part, rows] of parts) {
    const counts = new Map<string, number>();
    for (const { opcode } of rows) counts.set(opcode, (counts.get(opcode) ?? 0) + 1);
    const main = [...counts].filter(([opcode]) => opcode === "dot" || opcode === "convolution" || opcode === "fusion" || opcode === "custom-call").sort();
    const word = `${part.replace(/\d+/g, "#")} ${JSON.stringify(main)}`;
    const all = layers.get(word);
    all ? all.push(part) : layers.set(word, [part]);
  }
  const layerOf = new Map<string, string[]>();
  for (const all of layers.values()) if (all.length >= 3) for (const part of all) layerOf.set(part, all);
  const places = new Map<Row, Place>();
  const prefix = path.join("/");
  for (const row of selection.rows) {
    const name = names.get(row);
    if (!name || row.opcode === "parameter") {
      if (wanted.length > 0) continue;
      continue;
    }
    if (!isInside(name, path)) {
      let shared = 0;
      while (shared < depth && name[shared] === path[shared]) shared++;
      const outer = name.slice(0, shared + 1).join("/");
      places.set(row, { key: `outside ${outer}`, kind: "outside", title: name[shared] ?? row.name, path: name.slice(0, shared).join("/"), times: 1 });
      continue;
    }
    const part = name[depth];
    if (part === undefined || !parts.has(part) || parts.get(part)!.length < 2) continue;
    const all = layerOf.get(part) ?? [part];
    const first = all[0]!;
    const title = all.length > 1 ? rangeText(all) : part;
    places.set(row, { key: `group ${prefix}/${first}`, kind: "group", title, path: [...path, first].join("/"), times: all.length });
  }
  return { places, path };
}

/** `layer_0`, `layer_1`, `layer_2` → `layer_0…2`. */
export function rangeText(names: readonly string[]): string {
  const found = names.map((name) => /^(.*?)(\d+)(\D*)$/.exec(name));
  const first = found[0];
  if (!first || found.some((each) => !each || each[1] !== first[1] || each[3] !== first[3])) return `${names[0]}…`;
  const numbers = found.map((each) => Number(each![2])).sort((a, b) => a - b);
  return `${first[1]}${numbers[0]}…${numbers.at(-1)}${first[3]}`;
}

/** The computations of a module, each with the instructions that call it. */
function computationsOf(source: Source): Graph {
  const rows = new Map<string, Row[]>();
  for (const row of source.rows) {
    const all = rows.get(row.computation);
    all ? all.push(row) : rows.set(row.computation, [row]);
  }
  const shapes = new Map<string, number>();
  const nodes: GraphNode[] = [];
  const edges = new Map<number, GraphEdge>();
  const numberOf = new Map<string, number>();
  // Computations with equal instructions and callers are one: the hundreds of sums that reductions call.
  for (const [name, all] of rows) {
    const word = all.length <= 12 ? all.map((row) => `${row.opcode} ${arrayText(row.shape)}`).join() : name;
    const same = shapes.get(word);
    if (same !== undefined) {
      numberOf.set(name, same);
      nodes[same]!.times++;
      nodes[same]!.rows.push(...all);
      continue;
    }
    shapes.set(word, nodes.length);
    numberOf.set(name, nodes.length);
    nodes.push({
      key: `computation ${name}`, kind: "computation", title: name, about: "", opcode: "group", row: all.find((row) => row.isRoot) ?? all[0]!, rows: [...all], times: 1, path: name,
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
      } else edges.set(key, { from: a, to: b, shape: row.opcode, count: 1, isNext: false });
    }
  }
  for (const node of nodes) {
    node.bytes = node.rows.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
    node.padding = node.rows.reduce((sum, row) => sum + (row.paddingBytes ?? 0), 0);
    node.about = `${node.times > 1 ? `×${node.times} ` : ""}${node.rows.length.toLocaleString("en")} instructions`;
  }
  return { nodes, edges: [...edges.values()], path: [], count: source.rows.length };
}

/** Whether names of operations make groups here. */
export function hasOperations(rows: readonly Row[], computation: string): boolean {
  let named = 0;
  let all = 0;
  for (const row of rows) {
    if (row.computation !== computation || row.opcode === "parameter" || row.opcode === "constant") continue;
    all++;
    if (row.opName.includes("/")) named++;
  }
  return named * 2 > all;
}
