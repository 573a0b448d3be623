/** The instructions of a module and what connects them, fetched once as compact arrays, and kept. */

import type { Client } from "@xlashape/client/browser";
import type { GraphResponse } from "@xlashape/client/gen/xlashape/v1/view_service_pb";

export interface Row {
  /** Its place in the module's order, from 0. */
  readonly number: number;
  readonly name: string;
  readonly opcode: string;
  readonly shape: string;
  readonly computation: string;
  readonly isRoot: boolean;
  /** Of a parameter or an element of a tuple. */
  readonly index: number | undefined;
  readonly opName: string;
  readonly bytes: number | undefined;
  readonly paddingBytes: number | undefined;
  readonly source: string;
}

/** Edges by one of their ends: those of node n are `others[starts[n]]` to `others[starts[n + 1] - 1]`, in their order. */
interface Edges {
  starts: Uint32Array;
  others: Uint32Array;
}

export class Program {
  readonly rows: Row[] = [];
  /** What the server said, for who draws graphs. Empty until it has come. */
  graph: GraphResponse | undefined;
  /** When all rows are there, or fetching them has failed. */
  readonly ready: Promise<void>;
  private readonly listeners = new Set<() => void>();
  private ordered: readonly Row[] | undefined;
  private byName = new Map<string, number[]>();
  private operands: Edges = { starts: new Uint32Array(1), others: new Uint32Array(0) };
  private users: Edges = this.operands;
  private called = new Map<number, string[]>();

  constructor(readonly name: string, client: Client) {
    this.ready = this.fetch(client);
    this.ready.catch(() => undefined); // whoever waits for it is told
  }

  get isComplete(): boolean {
    return this.graph !== undefined;
  }

  /** Calls the listener when the rows are there. Returns what ends that. */
  onRows(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** In the module's order, but for the entry computation, which is what people look for. */
  entryFirst(): readonly Row[] {
    const entry = this.graph?.computationNames[this.graph.entry - 1];
    this.ordered ??= entry === undefined ? this.rows : [...this.rows.filter((row) => row.computation === entry), ...this.rows.filter((row) => row.computation !== entry)];
    return this.ordered;
  }

  /** What makes the result of the program: the root of the entry computation, or of a tuple the first part that is computed. */
  result(): Row | undefined {
    const [first] = this.entryFirst();
    const root = this.entryFirst().find((row) => row.isRoot && row.computation === first?.computation);
    return root?.opcode === "tuple" ? (this.operandsOf(root).find(({ opcode }) => opcode !== "parameter") ?? root) : root;
  }

  /** The instruction of this name; of several, the one in this computation. */
  find(name: string | undefined, computation?: string): Row | undefined {
    const found = name === undefined ? undefined : this.byName.get(name);
    return this.rows[found?.find((number) => this.rows[number]?.computation === computation) ?? found?.[0] ?? -1];
  }

  /** What it reads, in the order of its operands. */
  operandsOf(row: Row): Row[] {
    return this.ends(this.operands, row);
  }

  /** The instructions that read it, in the module's order. */
  usersOf(row: Row): Row[] {
    return [...new Set(this.ends(this.users, row))];
  }

  /** The computations that it calls. */
  callsOf(row: Row): readonly string[] {
    return this.called.get(row.number) ?? [];
  }

  private ends({ starts, others }: Edges, { number }: Row): Row[] {
    return Array.from(others.subarray(starts[number], starts[number + 1]), (other) => this.rows[other]!);
  }

  private async fetch(client: Client): Promise<void> {
    const graph = await client.graph({ module: { name: this.name } }, { timeoutMs: 300_000 });
    const roots = new Set(graph.roots);
    const known = (value: bigint | undefined): number | undefined => (value === undefined || value < 0n ? undefined : Number(value));
    const bytes = graph.shapeBytes.map(known);
    const paddingBytes = graph.shapePaddingBytes.map(known);
    const count = graph.names.length;
    for (let number = 0; number < count; number++) {
      const name = graph.names[number]!;
      const shape = graph.shapes[number]!;
      const index = graph.numbers[number]!;
      this.rows.push({
        number, name, opcode: graph.opcodeNames[graph.opcodes[number]!]!, shape: graph.shapeTexts[shape]!, computation: graph.computationNames[graph.computations[number]!]!,
        isRoot: roots.has(number + 1), index: index > 0 ? index - 1 : undefined, opName: graph.opNameTexts[graph.opNames[number]!] ?? "",
        bytes: bytes[shape], paddingBytes: paddingBytes[shape], source: graph.sourceTexts[graph.sources[number]!] ?? "",
      });
      const same = this.byName.get(name);
      same ? same.push(number) : this.byName.set(name, [number]);
    }
    this.users = edges(count, graph.edgeSources, graph.edgeTargets, graph.edgeTargets);
    this.operands = edges(count, graph.edgeTargets, graph.edgeSources, graph.edgeOperands);
    graph.callers.forEach((caller, i) => {
      const name = graph.computationNames[graph.called[i]!] ?? "";
      const all = this.called.get(caller);
      all ? all.push(name) : this.called.set(caller, [name]);
    });
    this.graph = graph;
    this.ordered = undefined;
    for (const listener of this.listeners) {
      listener();
    }
  }
}

/** The edges by the end in `by`; those of one node are ordered by `order`. */
function edges(count: number, by: readonly number[], to: readonly number[], order: readonly number[]): Edges {
  const starts = new Uint32Array(count + 1);
  for (const node of by) {
    starts[node + 1]!++;
  }
  for (let i = 0; i < count; i++) {
    starts[i + 1]! += starts[i]!;
  }
  const next = starts.slice();
  const others = new Uint32Array(by.length);
  const sorted = Uint32Array.from(by.keys()).sort((a, b) => order[a]! - order[b]!);
  for (const edge of sorted) {
    others[next[by[edge]!]!++] = to[edge]!;
  }
  return { starts, others };
}
