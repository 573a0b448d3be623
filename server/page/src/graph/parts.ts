/**
 * The boxes of a graph: a tree of parts of a computation, of which some are open. A part is a layer by the names of operations, a run of instructions that
 * repeats, or a stretch between two places that few values cross. Parts that are alike, such as `layer_0` to `layer_31`, are one.
 *
 * There are never more than MOST_BOXES boxes: what was opened first is closed first, and then parts far from the one that was opened last are drawn as one.
 */

import { partsOf as namesIn } from "../layers.js";
import type { Row } from "../program.js";
import { repeats } from "./repeats.js";

/** Instructions that are drawn as one: the same one of each copy of a layer. */
export type Unit = readonly Row[];

export interface Part {
  /** Its way through the tree, by numbers: `/3/0`. */
  key: string;
  title: string;
  units: readonly Unit[];
  /** How many copies of a layer it stands for. */
  times: number;
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
/** Opcodes that tell what a part does, those first that tell most. */
const MAIN = [/^(?:while|conditional)$/, /^(?:dot|convolution|custom-call)$/, /^(?:all-|collective-|ragged-|reduce-scatter)/, /^(?:fusion|call|scatter|gather|sort|reduce)$/];
const MACHINERY = new Set(["while", "body", "cond", "scan", "closed_call", "checkpoint", "rematted_computation", "remat", "pjit", "main", "shard_map", "eval_jaxpr", ""]);

type Group = Omit<Part, "key" | "kind"> & { isLeaf?: boolean };

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
      const count = levels.reduce((sum, level) => sum + level.length, 0);
      if (count <= MOST_BOXES) return { boxes: levels.flat(), open };
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
  private levels(opened: readonly string[], open: Map<string, Part>): Part[][] {
    const isOpen = new Set(opened);
    const levels: Part[][] = [];
    for (let level = this.children("", this.rows.map((each) => [each])); level.length > 0; ) {
      const next: Part[] = [];
      levels.push([]);
      for (const part of level) {
        const [first, ...others] = part.units.flat();
        const inner = others.length === 0 && isOpen.has(first!.name) ? this.inside.get(first!.name) : undefined;
        const isOpened = inner !== undefined || (part.kind === "group" && isOpen.has(part.key));
        if (isOpened) open.set(inner ? first!.name : part.key, part);
        if (inner) next.push(...this.children(`${part.key}/${first!.name}`, inner.map((each) => [each])));
        else if (isOpened) next.push(...this.children(part.key, part.units));
        else levels.at(-1)!.push(part);
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
    const work = units.filter(([row]) => row!.opcode !== "parameter");
    let groups = this.divided(work);
    while (groups.length === 1 && groups[0]!.units.length > 1 && !groups[0]!.isLeaf) groups = this.divided(groups[0]!.units);
    const parameters = this.placed(units.filter(([row]) => row!.opcode === "parameter"), groups);
    return [...parameters, ...groups].map((group, i) => {
      const isParameters = group.units[0]![0]!.opcode === "parameter" && group.units.length > 1;
      return { ...group, key: `${key}/${i}`, kind: isParameters ? "parameters" : group.units.length > 1 && !group.isLeaf ? "group" : "instruction" };
    });
  }

  private divided(work: readonly Unit[]): Group[] {
    const leaves = work.length <= this.leaves * 8 ? this.alike(work) : undefined;
    if (leaves && leaves.length <= this.leaves) return leaves;
    return this.named(work) ?? this.cut(work);
  }

  /** Instructions one by one; three or more of an opcode that read from the same and are read by the same are one. */
  private alike(work: readonly Unit[]): Group[] {
    const around = new Map<Unit, [Set<string>, Set<string>]>(work.map((unit) => [unit, [new Set(), new Set()]]));
    const unitOf = new Map(work.flatMap((unit) => unit.map((row) => [row, unit] as const)));
    for (const [from, all] of this.after) {
      for (const to of all) {
        const [a, b] = [unitOf.get(from), unitOf.get(to)];
        if (a) around.get(a)![1].add((b ?? [to])[0]!.name);
        if (b) around.get(b)![0].add((a ?? [from])[0]!.name);
      }
    }
    const groups = new Map<string, Unit[]>();
    for (const [unit, sides] of around) {
      const word = [unit[0]!.opcode, ...sides.map((side) => [...side].sort().join("\n"))].join("\n\n");
      groups.set(word, [...(groups.get(word) ?? []), unit]);
    }
    return [...groups.values()].flatMap((all) =>
      all.length < 3 ? all.map((unit) => ({ title: unit[0]!.name, units: [unit], times: unit.length })) : [{ title: all[0]![0]!.name, units: all, times: all.length, isLeaf: true }]);
  }

  /** By the names of layers; none where fewer than half of the instructions have one. */
  private named(work: readonly Unit[]): Group[] | undefined {
    const scope = (unit: Unit, depth: number) => this.scopes.get(unit[0]!)?.[depth];
    for (let depth = 0; depth < MOST_SCOPES; depth++) {
      const found = new Map<string, Unit[]>();
      const rest: Unit[] = [];
      for (const unit of work) {
        const name = scope(unit, depth);
        if (name === undefined) rest.push(unit);
        else found.get(name)?.push(unit) ?? found.set(name, [unit]);
      }
      if (rest.length * 2 > work.length) return undefined;
      if (found.size === 1 && rest.length === 0) continue;
      let groups = this.folded(found, depth);
      if (groups.length > MOST_PARTS) {
        // `conv2_block1_out` is in `conv2`.
        const first = (name: string) => /^[^_.]*/.exec(name)![0];
        const fewer = new Set([...found.keys()].map(first));
        if (fewer.size > 1 && fewer.size < groups.length) {
          for (const unit of work) {
            for (const row of unit) {
              const names = this.scopes.get(row);
              const name = names?.[depth];
              if (name !== undefined && first(name) !== name) this.scopes.set(row, [...names!.slice(0, depth), first(name), name.slice(first(name).length + 1), ...names!.slice(depth + 1)]);
            }
          }
          depth--;
          continue;
        }
      }
      groups = [...groups, ...this.loose(rest, groups)].sort((a, b) => a.units[0]![0]!.number - b.units[0]![0]!.number);
      return groups.length > 1 || groups[0]!.units.length < work.length ? joined(groups) : undefined;
    }
    return undefined;
  }

  /** Layers whose names differ in numbers alone, and which hold the same operations, as one. */
  private folded(found: ReadonlyMap<string, Unit[]>, depth: number): Group[] {
    const same = new Map<string, [string, Unit[]][]>();
    for (const [name, units] of found) {
      const word = `${name.replace(/\d+/g, "#")} ${titleOf(units)}`;
      same.set(word, [...(same.get(word) ?? []), [name, units]]);
    }
    return [...same.values()].flatMap((members) => {
      if (members.length < 3) return members.map(([title, units]) => ({ title, units, times: units[0]!.length }));
      const units = new Map<string, Row[]>();
      for (const [, all] of members) {
        const seen = new Map<string, number>();
        for (const unit of all) {
          const word = `${this.scopes.get(unit[0]!)?.slice(depth + 1).join("/")} ${unit[0]!.opcode} ${arrayText(unit[0]!.shape)}`;
          const count = (seen.get(word) ?? 0) + 1;
          seen.set(word, count);
          units.set(`${word} ${count}`, [...(units.get(`${word} ${count}`) ?? []), ...unit]);
        }
      }
      return [{ title: rangeText(members.map(([name]) => name)), units: [...units.values()], times: members.length * members[0]![1][0]!.length }];
    });
  }

  /** Instructions beside layers: few stand alone, many are one group before, between or behind the layers. */
  private loose(rest: readonly Unit[], groups: readonly Group[]): Group[] {
    if (rest.length === 0) return [];
    if (rest.length <= Math.max(2, MOST_PARTS - groups.length)) return rest.map((unit) => ({ title: unit[0]!.name, units: [unit], times: unit.length }));
    const numbers = groups.flatMap(({ units }) => units.map(([row]) => row!.number));
    const [first, last] = [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
    const parts = [rest.filter(([row]) => row!.number < first), rest.filter(([row]) => row!.number >= first && row!.number <= last), rest.filter(([row]) => row!.number > last)];
    return parts.filter((units) => units.length > 0).map((units) => ({ title: titleOf(units), units, times: units[0]!.length }));
  }

  /** By runs that repeat, and elsewhere where few values cross from the instructions before to those behind. */
  private cut(work: readonly Unit[]): Group[] {
    const words = work.map(([row]) => `${row!.opcode} ${arrayText(row!.shape)}`);
    const runs = repeats(words).filter(({ period, copies }) => period * copies * MOST_PARTS >= work.length)
      .sort((a, b) => b.period * b.copies - a.period * a.copies).slice(0, 4).sort((a, b) => a.start - b.start);
    const groups: Group[] = [];
    const stretch = (from: number, to: number) => {
      if (from >= to) return;
      const count = Math.max(1, Math.round(((MOST_PARTS - runs.length) * (to - from)) / work.length));
      for (const units of this.stretches(work.slice(from, to), Math.min(count, MOST_PARTS - 2 * runs.length))) {
        groups.push({ title: titleOf(units), units, times: units[0]!.length });
      }
    };
    let at = 0;
    for (const { start, period, copies } of runs) {
      stretch(at, start);
      at = start + period * copies;
      const units = Array.from({ length: period }, (_, i) => Array.from({ length: copies }, (_, copy) => work[start + copy * period + i]!).flat());
      groups.push({ title: titleOf(units), units, times: copies * work[start]!.length });
    }
    stretch(at, work.length);
    return joined(groups);
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

/** Groups that follow each other as one where there are too many. */
function joined(groups: readonly Group[]): Group[] {
  if (groups.length <= MOST_PARTS) return [...groups];
  return Array.from({ length: MOST_PARTS }, (_, i) => groups.slice(Math.floor((i * groups.length) / MOST_PARTS), Math.floor(((i + 1) * groups.length) / MOST_PARTS))).map((all) =>
    all.length === 1 ? all[0]! : { title: `${all[0]!.title} … ${all.at(-1)!.title}`, units: all.flatMap(({ units }) => units), times: 1 });
}

/** Levels with at most MOST_BOXES parts: from the outside, those before and those behind what is open are one each. */
function merged(levels: readonly Part[][], count: number): Part[] {
  let left = count;
  return levels.flatMap((level, i) => {
    if (left <= MOST_BOXES || level.length < 3) return level;
    const next = levels.slice(i + 1).find((each) => each.length > 0)?.[0]?.units[0]?.[0]?.number ?? Infinity;
    const sides = [level.filter(({ units }) => units[0]![0]!.number < next), level.filter(({ units }) => units[0]![0]!.number >= next)].filter((each) => each.length > 0);
    left -= level.length - sides.length;
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
  if (!first || found.some((each) => !each || each[1] !== first[1] || each[3] !== first[3])) return `${names[0]}…`;
  const numbers = found.map((each) => Number(each![2])).sort((a, b) => a - b);
  return `${first[1]}${numbers[0]}…${numbers.at(-1)}${first[3]}`;
}
