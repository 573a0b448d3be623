/**
 * The boxes of a graph: a tree of parts of a computation, of which some are open. A part is a layer by the names of operations, a run of instructions that
 * repeats, or a stretch between two places that few values cross. Parts that are alike and follow each other, such as `layer_0` to `layer_31`, are one.
 *
 * No edges between boxes close a cycle: what is divided stands in an order in which operands come before what reads them, and each part is consecutive in it.
 * Of a part that stands for copies of a layer, all copies are one there: a value that one copy hands to another is no edge.
 *
 * There are never more than MOST_BOXES boxes: what was opened first is closed first, and then parts far from the one that was opened last are drawn as one.
 */

import { partsOf as namesIn } from "../layers.js";
import type { Row } from "../program.js";
import { type Repeat, repeats } from "./repeats.js";

/** Instructions that are drawn as one: the same one of each copy of a layer. */
export type Unit = readonly Row[];

export interface Part {
  /** Its way through the tree, by numbers: `/3/0`. */
  key: string;
  title: string;
  units: readonly Unit[];
  /** How many copies of a layer it stands for. */
  times: number;
  /** Whether one of these copies reads what another one makes. */
  isChain?: boolean | undefined;
  kind: "group" | "instruction" | "parameters" | "outside";
}

export interface Flow {
  from: Row;
  to: Row;
  shape: string;
}

export const MOST_BOXES = 60;
const MOST_PARTS = 12;
const MOST_LEAVES = 20;
const MOST_SCOPES = 12; // of a name
const MOST_STOPS = 200; // where layers read each other
/** Opcodes that tell what a part does, those first that tell most. */
const MAIN = [/^(?:while|conditional)$/, /^(?:dot|convolution|custom-call)$/, /^(?:all-|collective-|ragged-|reduce-scatter)/, /^(?:fusion|call|scatter|gather|sort|reduce)$/];
const MACHINERY = new Set(["while", "body", "cond", "scan", "closed_call", "checkpoint", "rematted_computation", "remat", "pjit", "main", "shard_map", "eval_jaxpr", ""]);

interface Group extends Omit<Part, "key" | "kind"> {
  isLeaf?: boolean;
  /** Of a part that stands for copies: which copy an instruction is in, and the units of all copies in order. */
  copies?: Map<Row, number>;
  unfolded?: readonly Unit[];
}

export function arrayText(shape: string): string {
  return shape.length > 60 && shape.startsWith("(") ? "tuple" : shape.replace(/\{[^{}]*\}/g, "");
}

/** The layers that a name is in, from the outside: `jit(f)/transpose(jvp(layer_3))/mlp/dot_general` is `backward`, `layer_3`, `mlp`. */
export function scopesOf(opName: string): string[] {
  const found: string[] = [];
  let isBackward = false;
  for (const each of namesIn(opName).slice(0, -1)) {
    let part = each.replace(/^\//, "");
    if (/^p?jit\(/.test(part)) continue;
    for (let inner = /^[\w.<>-]*\((.*)\)$/.exec(part); inner; inner = /^[\w.<>-]*\((.*)\)$/.exec(part)) {
      isBackward ||= part.startsWith("transpose(");
      part = inner[1]!;
    }
    if (!MACHINERY.has(part) && found.length < MOST_SCOPES) found.push(part);
  }
  return isBackward && found.length > 0 ? ["backward", ...found] : found;
}

export class Parts {
  private readonly scopes = new Map<Row, string[]>();
  private readonly after = new Map<Row, Row[]>();
  private readonly made = new Map<string, Part[]>();
  /** Of each part that stands for copies, by its key: which copy an instruction is in. */
  private readonly copies = new Map<string, Map<Row, number>>();

  /** `inside`: the instructions of each fusion, call or loop that is open, by its name. `leaves`: the most instructions that are drawn one by one. */
  constructor(
    private readonly rows: readonly Row[],
    flows: readonly Flow[],
    private readonly inside: ReadonlyMap<string, readonly Row[]> = new Map(),
    private readonly leaves = MOST_LEAVES,
  ) {
    for (const row of [...rows, ...[...inside.values()].flat()]) if (row.opName) this.scopes.set(row, scopesOf(row.opName));
    for (const { from, to } of flows) {
      const all = this.after.get(from);
      all ? all.push(to) : this.after.set(from, [to]);
    }
    // An instruction without a name is of the layer that reads it, or else of the one that it reads.
    for (const { from, to } of flows.toReversed()) if (!this.scopes.has(from) && this.scopes.has(to)) this.scopes.set(from, this.scopes.get(to)!);
    for (const { from, to } of flows) if (!this.scopes.has(to) && this.scopes.has(from) && from.opcode !== "parameter") this.scopes.set(to, this.scopes.get(from)!);
  }

  /** The parts that are drawn where these are open, in the order in which they were opened; and which stay open. What is around a call that is open is open too. */
  boxes(opened: readonly string[]): { boxes: Part[]; open: Map<string, Part> } {
    const calls = this.rows.filter(({ name }) => opened.includes(name));
    const kept = [...new Set([...calls.flatMap((row) => this.wayTo(row)), ...opened])];
    for (;;) {
      const open = new Map<string, Part>();
      const levels = this.levels(kept, open);
      const count = levels.reduce((sum, { parts }) => sum + parts.length, 0);
      if (count <= MOST_BOXES) return { boxes: levels.flatMap(({ parts }) => parts), open };
      const last = kept.at(-1)!;
      const called = calls.find(({ name }) => name === last);
      const key = called ? `${this.wayTo(called).at(-1) ?? ""}/${last}` : last;
      const other = kept.findIndex((each) => each !== last && !(each.startsWith("/") ? key.startsWith(`${each}/`) : key.includes(`/${each}/`)));
      if (other < 0) return { boxes: merged(levels, count), open };
      kept.splice(other, 1);
    }
  }

  /** The keys of the parts that an instruction is in, from the outside. */
  wayTo(row: Row): string[] {
    const way: string[] = [];
    for (let parts = this.children("", this.rows.map((each) => [each])); ; ) {
      const part = parts.find(({ units }) => units.some((unit) => unit.includes(row)));
      if (part?.kind !== "group") return way;
      way.push(part.key);
      parts = this.children(part.key, part.units);
    }
  }

  /** The parts that are drawn, level by level; the parts of one that is open are the level below, without it. */
  private levels(opened: readonly string[], open: Map<string, Part>): Level[] {
    const isOpen = new Set(opened);
    const levels: Level[] = [];
    for (let level = this.children("", this.rows.map((each) => [each])); level.length > 0; ) {
      const next: Part[] = [];
      const drawn: Level = { parts: [], before: 0 };
      levels.push(drawn);
      for (const part of level) {
        const [first, ...others] = part.units.flat();
        const inner = others.length === 0 && isOpen.has(first!.name) ? this.inside.get(first!.name) : undefined;
        const isOpened = inner !== undefined || (part.kind === "group" && isOpen.has(part.key));
        if (isOpened) open.set(inner ? first!.name : part.key, part);
        if (inner) {
          for (const copies of this.copies.values()) if (copies.has(first!)) for (const row of inner) copies.set(row, copies.get(first!)!);
          next.push(...this.children(`${part.key}/${first!.name}`, inner.map((each) => [each])));
        } else if (isOpened) next.push(...this.children(part.key, part.units));
        else drawn.parts.push(part);
        if (isOpened) drawn.before = drawn.parts.length;
      }
      level = next;
    }
    return levels;
  }

  private children(key: string, units: readonly Unit[]): Part[] {
    let made = this.made.get(key);
    if (!made) this.made.set(key, (made = this.partsOf(key, units)));
    return made;
  }

  private partsOf(key: string, units: readonly Unit[]): Part[] {
    const given = units.filter(([row]) => row!.opcode !== "parameter");
    const copies = this.copiesIn(key);
    let groups = this.divided(copies, (orderOf(this.reads(copies, given)) ?? [...given.keys()]).map((i) => given[i]!));
    while (groups.length === 1 && groups[0]!.units.length > 1 && !groups[0]!.isLeaf && !groups[0]!.copies) groups = this.divided(copies, groups[0]!.units);
    const parameters = this.placed(units.filter(([row]) => row!.opcode === "parameter"), groups);
    return [...parameters, ...groups].map(({ title, units: all, times, isChain, isLeaf, copies: own }, i): Part => {
      if (own) this.copies.set(`${key}/${i}`, own);
      const kind = all[0]![0]!.opcode === "parameter" && all.length > 1 ? "parameters" : all.length > 1 && !isLeaf ? "group" : "instruction";
      return { key: `${key}/${i}`, title, units: all, times, isChain, kind };
    });
  }

  /** Of each part that stands for copies and that all these are in: which copy an instruction is in. */
  private copiesIn(...keys: readonly string[]): Map<Row, number>[] {
    return [...this.copies].filter(([fold]) => keys.every((key) => `${key}/`.startsWith(`${fold}/`))).map(([, copies]) => copies);
  }

  /** Whether a value passes from a copy of a layer to another one, where both boxes stand for all copies. */
  isHandedOn(from: Row, to: Row, a: Part, b: Part): boolean {
    return from.opcode !== "parameter" && this.copies.size > 0 && this.copiesIn(a.key, b.key).some((copies) => copies.get(from) !== copies.get(to));
  }

  /** The units that each unit reads, by their numbers; in the same copy of each of these. */
  private reads(copies: readonly Map<Row, number>[], units: readonly Unit[]): number[][] {
    const numberOf = new Map(units.flatMap((unit, i) => unit.map((row) => [row, i] as const)));
    const found = units.map(() => new Set<number>());
    for (const [from, i] of numberOf) {
      for (const to of this.after.get(from) ?? []) {
        const reader = numberOf.get(to);
        if (reader !== undefined && copies.every((copy) => copy.get(from) === copy.get(to))) found[reader]!.add(i);
      }
    }
    return found.map((each) => [...each]);
  }

  private divided(copies: readonly Map<Row, number>[], work: readonly Unit[]): Group[] {
    const reads = this.reads(copies, work);
    const leaves = work.length <= this.leaves * 8 ? this.alike(work, reads) : undefined;
    if (leaves && leaves.length <= this.leaves) return leaves;
    return this.named(copies, work, reads) ?? this.cut(copies, work, reads);
  }

  /** Instructions one by one; three or more of an opcode that read from the same and are read by the same are one. */
  private alike(work: readonly Unit[], reads: readonly number[][]): Group[] {
    const sides = work.map(() => [new Set<number | string>(), new Set<number | string>()] as const);
    reads.forEach((all, i) => all.forEach((from) => (sides[i]![0].add(from), sides[from]![1].add(i))));
    const numberOf = new Map(work.flatMap((unit, i) => unit.map((row) => [row, i] as const)));
    for (const [from, all] of this.after) {
      for (const to of all) {
        const [a, b] = [numberOf.get(from), numberOf.get(to)];
        if (a !== undefined && b === undefined) sides[a]![1].add(to.name);
        if (b !== undefined && a === undefined) sides[b]![0].add(from.name);
      }
    }
    const groups = new Map<string, number[]>();
    work.forEach(([row], i) => {
      const word = [row!.opcode, ...sides[i]!.map((side) => [...side].sort().join("\n"))].join("\n\n");
      groups.set(word, [...(groups.get(word) ?? []), i]);
    });
    const made = [...groups.values()].flatMap((all) => (all.length < 3 ? all.map((i) => [i]) : [all]));
    const placeOf = new Map(made.flatMap((all, place) => all.map((i) => [i, place] as const)));
    const order = orderOf(made.map((all) => all.flatMap((i) => reads[i]!.map((from) => placeOf.get(from)!))))!;
    return order.map((place) => {
      const units = made[place]!.map((i) => work[i]!);
      return { title: units[0]![0]!.name, units, times: units.length > 1 ? units.length : units[0]!.length, isLeaf: units.length > 1 };
    });
  }

  /** By the names of layers; none where fewer than half of the instructions have one. */
  private named(copies: readonly Map<Row, number>[], work: readonly Unit[], reads: readonly number[][]): Group[] | undefined {
    for (let depth = 0; depth < MOST_SCOPES; depth++) {
      const names = work.map(([row]) => this.scopes.get(row!)?.[depth]);
      if (names.filter((name) => name === undefined).length * 2 > work.length) return undefined;
      if (new Set(names).size === 1) continue;
      const runs = runsOf(withoutGaps(names, reads), reads);
      if (!runs) return undefined;
      const groups = this.folded(copies, work, reads, runs, depth);
      if (groups.length > MOST_PARTS) {
        // `conv2_block1_out` is in `conv2`.
        const first = (name: string) => /^[^_.]*/.exec(name)![0];
        const fewer = new Set(names.flatMap((name) => (name === undefined ? [] : [first(name)])));
        if (fewer.size > 1 && fewer.size < groups.length) {
          this.rename(work, depth, (name) => (first(name) === name ? [name] : [first(name), name.slice(first(name).length + 1)]));
          depth--;
          continue;
        }
      }
      // Inside of copies of a layer, all have one name.
      for (const { unfolded } of groups) if (unfolded) this.rename(unfolded, depth, (name) => [patternOf(name)]);
      return groups.length > 1 || groups[0]!.copies ? joined(groups) : undefined;
    }
    return undefined;
  }

  private rename(units: readonly Unit[], depth: number, name: (old: string) => string[]): void {
    for (const row of units.flat()) {
      const names = this.scopes.get(row);
      if (names?.[depth] !== undefined) this.scopes.set(row, [...names.slice(0, depth), ...name(names[depth]), ...names.slice(depth + 1)]);
    }
  }

  /** Layers that follow each other, whose names differ in numbers alone, and which hold the same operations, as one. */
  private folded(copies: readonly Map<Row, number>[], work: readonly Unit[], reads: readonly number[][], runs: readonly Run[], depth: number): Group[] {
    const all = runs.map(({ name, members }) => ({ name, members, units: members.map((i) => work[i]!) }));
    const words = all.map(({ name, units }) => `${patternOf(withoutTime(name))} ${units.length === 1 ? units[0]![0]!.opcode : titleOf(units)}`);
    return this.between(all, repeats(words, 2), (some) => some.map(({ name, units }) => ({ title: name.startsWith(" ") ? titleOf(units) : name, units, times: units[0]!.length })),
      (some, period) => {
        const each = Array.from({ length: some.length / period }, (_, copy) => some.slice(copy * period, (copy + 1) * period));
        const title = [...each[0]!.keys()].map((k) => rangeText(each.map((runs) => withoutTime(runs[k]!.name)))).join(", ");
        return this.fold(copies, title, work, reads, each.map((runs) => runs.flatMap(({ members }) => members)),
          (i) => this.scopes.get(work[i]![0]!)?.slice(depth).map((name, k) => (k === 0 ? patternOf(name) : name)).join("/") ?? "");
      });
  }

  /** What repeats, by `fold`, and what is before, between and behind it, by `other`. */
  private between<T>(all: readonly T[], found: readonly Repeat[], other: (some: readonly T[]) => Group[], fold: (some: readonly T[], period: number) => Group): Group[] {
    const ends = found.map(({ start, period, copies }) => start + period * copies);
    return [...found.flatMap(({ start, period }, k) => [...other(all.slice(ends[k - 1] ?? 0, start)), fold(all.slice(start, ends[k]), period)]), ...other(all.slice(ends.at(-1) ?? 0))];
  }

  /** Copies of a layer as one part, whose units are the same instruction of each copy: those with the same operation, shape and word, one after the other. */
  private fold(
    copies: readonly Map<Row, number>[], title: string, work: readonly Unit[], reads: readonly number[][], members: readonly (readonly number[])[], wordOf: (i: number) => string,
  ): Group {
    const memberOf = new Map(members.flatMap((all, copy) => all.map((i) => [i, copy] as const)));
    const own = new Map([...memberOf].flatMap(([i, copy]) => work[i]!.map((row) => [row, copy] as const)));
    const steps = new Map<number, number>(); // from the beginning of the copy
    for (const [i, copy] of memberOf) steps.set(i, reads[i]!.reduce((most, from) => (memberOf.get(from) === copy ? Math.max(most, steps.get(from)! + 1) : most), 0));
    const join = (isByStep: boolean): Unit[] => {
      const units = new Map<string, Row[]>();
      for (const all of members) {
        const seen = new Map<string, number>();
        for (const i of all) {
          const word = [wordOf(i), work[i]![0]!.opcode, arrayText(work[i]![0]!.shape), isByStep && steps.get(i)].join(" ");
          seen.set(word, (seen.get(word) ?? 0) + 1);
          const full = `${word} ${seen.get(word)}`;
          units.set(full, [...(units.get(full) ?? []), ...work[i]!]);
        }
      }
      return [...units.values()];
    };
    let units = join(false);
    // Copies whose instructions stand in another order: those at the same distance from the beginning cannot read each other.
    if (!orderOf(this.reads([...copies, own], units))) units = join(true);
    const isChain = [...memberOf].some(([i, copy]) => reads[i]!.some((from) => (memberOf.get(from) ?? copy) !== copy));
    return { title, units, times: members.length * work[members[0]![0]!]!.length, isChain, copies: own, unfolded: [...memberOf.keys()].map((i) => work[i]!) };
  }

  /** By runs that repeat, and elsewhere where few values cross from the instructions before to those behind. */
  private cut(copies: readonly Map<Row, number>[], work: readonly Unit[], reads: readonly number[][]): Group[] {
    const words = work.map(([row]) => `${row!.opcode} ${arrayText(row!.shape)}`);
    const found = repeats(words).filter(({ period, copies: times }) => period * times * MOST_PARTS >= work.length)
      .sort((a, b) => b.period * b.copies - a.period * a.copies).slice(0, 4).sort((a, b) => a.start - b.start);
    const stretches = (some: readonly number[]) => {
      if (some.length === 0) return [];
      const count = Math.max(1, Math.round(((MOST_PARTS - found.length) * some.length) / work.length));
      return this.stretches(some.map((i) => work[i]!), Math.min(count, MOST_PARTS - 2 * found.length)).map((units) => ({ title: titleOf(units), units, times: units[0]!.length }));
    };
    return joined(this.between([...work.keys()], found, stretches, (some, period) => {
      const each = Array.from({ length: some.length / period }, (_, copy) => some.slice(copy * period, (copy + 1) * period));
      return this.fold(copies, titleOf(each[0]!.map((i) => work[i]!)), work, reads, each, (i) => `${(i - some[0]!) % period}`);
    }));
  }

  private stretches(work: readonly Unit[], count: number): Unit[][] {
    if (count <= 1) return [[...work]];
    const numberOf = new Map(work.flatMap((unit, i) => unit.map((row) => [row, i] as const)));
    const change = new Int32Array(work.length + 1);
    for (const [row, i] of numberOf) {
      const last = Math.max(i, ...(this.after.get(row) ?? []).map((to) => numberOf.get(to) ?? i));
      if (last > i) {
        change[i]!++;
        change[last]!--;
      }
    }
    let live = 0;
    const crossing = Int32Array.from(change, (each) => (live += each));
    const cuts = [0];
    for (let k = 1; k < count; k++) {
      const middle = Math.round((k * work.length) / count);
      const room = Math.floor(work.length / count / 3);
      let best = middle;
      for (let i = middle - room; i <= middle + room; i++) if (crossing[i - 1]! < crossing[best - 1]!) best = i;
      if (best > cuts.at(-1)! && best < work.length) cuts.push(best);
    }
    return cuts.map((cut, k) => work.slice(cut, cuts[k + 1] ?? work.length));
  }

  /** Puts each parameter that one part alone reads, but for the result, into that part. Beside layers the others are one; beside instructions those that the same ones read. */
  private placed(parameters: readonly Unit[], groups: readonly Group[]): Group[] {
    const groupOf = new Map(groups.flatMap((group, i) => group.units.flatMap((unit) => unit.map((row) => [row, i] as const))));
    const added = groups.map((): Unit[] => []);
    const areLayers = groups.some(({ units, isLeaf }) => units.length > 1 && !isLeaf);
    const others = new Map<string, Unit[]>();
    for (const unit of parameters) {
      const readers = unit.flatMap((row) => this.after.get(row) ?? []);
      const working = readers.filter((row) => !isResult(row));
      const numbers = [...new Set((working.length > 0 ? working : readers).map((row) => groupOf.get(row) ?? -1))].sort((a, b) => a - b);
      const only = numbers.length === 1 ? groups[numbers[0]!] : undefined;
      const word = areLayers ? "" : numbers.join();
      if (only && only.units.length > 1 && !only.isLeaf) added[numbers[0]!]!.push(unit);
      else others.set(word, [...(others.get(word) ?? []), unit]);
    }
    groups.forEach((group, i) => (group.units = [...group.units, ...added[i]!]));
    const parts = others.size > MOST_PARTS ? [[...others.values()].flat()] : [...others.values()].flatMap((units) => (units.length < 3 ? units.map((unit) => [unit]) : [units]));
    return parts.map((units) => ({ title: units.length > 1 ? `${units.length.toLocaleString("en")} parameters` : units[0]![0]!.name, units, times: 1 }));
  }
}

/** Whether an instruction gathers the result of its computation, and computes nothing. */
export function isResult(row: Row): boolean {
  return row.isRoot && row.opcode === "tuple";
}

interface Level {
  /** The parts that are drawn, without those that are open. */
  parts: Part[];
  /** How many of them stand before the last one that is open. */
  before: number;
}

interface Run {
  name: string;
  members: number[];
}

/** Numbers in an order in which each stands behind those it reads, and as they are where that leaves it open; none if some read each other. */
function orderOf(reads: readonly (readonly number[])[]): number[] | undefined {
  const order: number[] = [];
  const state = new Uint8Array(reads.length); // 1: waits for what it reads, 2: done
  for (const first of reads.keys()) {
    const path = [first];
    while (path.length > 0) {
      const at = path.at(-1)!;
      if (state[at] !== 0) {
        path.pop();
        if (state[at] === 1) order.push(at);
        state[at] = 2;
        continue;
      }
      state[at] = 1;
      for (const from of reads[at]!) {
        if (state[from] === 1 && from !== at) return undefined;
        if (state[from] === 0) path.push(from);
      }
    }
  }
  return order;
}

/** A name for each: between layers that of the last one that it is computed from. Of those before and behind all layers, few stand alone. */
function withoutGaps(names: readonly (string | undefined)[], reads: readonly (readonly number[])[]): string[] {
  const last: number[] = [];
  const isRead = new Uint8Array(names.length);
  names.forEach((name, i) => last.push(name === undefined ? reads[i]!.reduce((most, from) => Math.max(most, last[from]!), -1) : i));
  for (let i = names.length - 1; i >= 0; i--) if (names[i] !== undefined || isRead[i]) for (const from of reads[i]!) isRead[from] = 1;
  const filled = names.map((name, i) => name ?? (last[i]! < 0 ? " before" : isRead[i] ? names[last[i]!]! : " behind"));
  const areFew = filled.filter((name) => name.startsWith(" ")).length <= Math.max(2, MOST_PARTS - new Set(filled).size);
  return areFew ? filled.map((name, i) => (name.startsWith(" ") ? ` ${i}` : name)) : filled;
}

/**
 * All of each name, one name after the other, in an order in which they stand behind what they read: those first that read nothing of what is left, and of
 * these one whose name differs from the last one in numbers alone. Where names read each other, a name stands there several times, each time with as much as can.
 */
function runsOf(names: readonly string[], reads: readonly (readonly number[])[]): Run[] | undefined {
  const left = new Map<string, number[]>();
  names.forEach((name, i) => left.get(name)?.push(i) ?? left.set(name, [i]));
  const others = new Map([...left].map(([name, all]) => [name, all.reduce((sum, i) => sum + reads[i]!.filter((from) => names[from] !== name).length, 0)]));
  const readers: number[][] = names.map(() => []);
  reads.forEach((all, i) => all.forEach((from) => readers[from]!.push(i)));
  const isDone = new Uint8Array(names.length);
  const ready = new Set([...left.keys()].filter((name) => others.get(name) === 0));
  const times = new Map<string, number>();
  const runs: Run[] = [];
  let last = "";
  for (let stops = 0; left.size > 0; ) {
    let [name, members]: [string, number[]] = ["", []];
    if (ready.size > 0) {
      const rank = (each: string) => (patternOf(each) === last ? -names.length : 0) + left.get(each)![0]!;
      name = [...ready].reduce((best, each) => (rank(each) < rank(best) ? each : best));
      members = left.get(name)!;
    } else {
      if (++stops > MOST_STOPS) return undefined;
      for (const [each, all] of left) {
        const possible = new Set<number>();
        for (const i of all) if (reads[i]!.every((from) => isDone[from] || possible.has(from))) possible.add(i);
        if (possible.size > members.length) [name, members] = [each, [...possible]];
      }
    }
    const taken = new Set(members);
    const rest = left.get(name)!.filter((i) => !taken.has(i));
    rest.length > 0 ? left.set(name, rest) : left.delete(name);
    ready.delete(name);
    for (const i of members) {
      isDone[i] = 1;
      for (const reader of readers[i]!) {
        if (names[reader] === name) continue;
        const count = others.get(names[reader]!)! - 1;
        others.set(names[reader]!, count);
        if (count === 0) ready.add(names[reader]!);
      }
    }
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    last = patternOf(name);
    runs.push({ name: time > 1 ? `${name} (${time})` : name, members });
  }
  return runs;
}

/** `norm (2)`, the second run of a name, as `norm`. */
function withoutTime(name: string): string {
  return name.replace(/ \(\d+\)$/, "");
}

function patternOf(name: string): string {
  return name.replace(/\d+/g, "#");
}

/** Groups that follow each other as one where there are too many. */
function joined(groups: readonly Group[]): Group[] {
  if (groups.length <= MOST_PARTS) return [...groups];
  return Array.from({ length: MOST_PARTS }, (_, i) => groups.slice(Math.floor((i * groups.length) / MOST_PARTS), Math.floor(((i + 1) * groups.length) / MOST_PARTS))).map((all) =>
    all.length === 1 ? all[0]! : { title: `${all[0]!.title} … ${all.at(-1)!.title}`, units: all.flatMap(({ units, unfolded }) => unfolded ?? units), times: 1 });
}

/** Levels with at most MOST_BOXES parts: from the outside, those before and those behind what is open are one each. */
function merged(levels: readonly Level[], count: number): Part[] {
  let left = count;
  return levels.flatMap(({ parts, before }) => {
    if (left <= MOST_BOXES || parts.length < 3) return parts;
    const sides = [parts.slice(0, before), parts.slice(before)].filter((each) => each.length > 0);
    left -= parts.length - sides.length;
    return sides.map((all): Part => (all.length === 1 ? all[0]! : { key: `${all[0]!.key} …`, title: `${all.length} parts`, units: all.flatMap(({ units }) => units), times: 1, kind: "outside" }));
  });
}

/** The name of an instruction, or what stands out among several: `12 dot, 2 all-gather`. */
function titleOf(units: readonly Unit[]): string {
  if (units.length === 1) return units[0]![0]!.name;
  const counts = new Map<string, number>();
  for (const [row] of units) counts.set(row!.opcode, (counts.get(row!.opcode) ?? 0) + 1);
  const rank = (opcode: string) => [...MAIN, /./].findIndex((each) => each.test(opcode));
  const sorted = [...counts].sort(([a, m], [b, n]) => rank(a) - rank(b) || n - m || (a < b ? -1 : 1));
  return sorted.slice(0, 2).map(([opcode, number]) => `${number} ${opcode}`).join(", ");
}

/** `layer_0`, `layer_1`, `layer_2` → `layer_0…2`. */
export function rangeText(names: readonly string[]): string {
  const found = names.map((name) => /^(.*?)(\d+)(\D*)$/.exec(name));
  const first = found[0];
  if (names.every((name) => name === names[0])) return names[0]!;
  if (!first || found.some((each) => !each || each[1] !== first[1] || each[3] !== first[3])) return `${names[0]}…`;
  const numbers = found.map((each) => Number(each![2])).sort((a, b) => a - b);
  return `${first[1]}${numbers[0]}…${numbers.at(-1)}${first[3]}`;
}
