/** What an element of an output reads, from the maps that the server gave, evaluated here. */

import { EvaluableMap } from "@xlashape/client/browser";
import type { MapRow } from "@xlashape/client/gen/xlashape/v1/report_service_pb";
import { Knowledge } from "@xlashape/client/gen/xlashape/v1/types_pb";

/** The most reads of one element that are listed. */
export const MOST_READS = 4096;

export interface Source {
  /** The number of the operand. */
  operand: number;
  name: string;
  leaf: number;
  knowledge: Knowledge;
  maps: { map: EvaluableMap; text: string; runtime: string[] }[];
}

export interface Reads {
  /** Indices, in the order of the ranges, each once. */
  indices: number[][];
  /** How many times something is read. */
  count: number;
  /** Whether there are more than are listed. */
  isCut: boolean;
  /** Whether offsets that are known at run time have their lowest values. */
  hasRuntime: boolean;
}

export function sourcesOf(rows: readonly MapRow[]): Source[] {
  const found = new Map<string, Source>();
  for (const { operand = 0n, operandName = "", leaf = 0n, knowledge, map = "", indexing } of rows) {
    const key = `${operand} ${leaf}`;
    let source = found.get(key);
    if (!source) found.set(key, (source = { operand: Number(operand), name: operandName, leaf: Number(leaf), knowledge, maps: [] }));
    if (knowledge === Knowledge.UNKNOWN || !indexing?.map) continue;
    source.maps.push({ map: new EvaluableMap(indexing.map), text: map, runtime: indexing.runtime.map(({ instruction }) => instruction) });
  }
  return [...found.values()];
}

const product = (sizes: readonly number[]) => sizes.reduce((all, size) => all * size, 1);

/** The elements that an element of the output reads by these maps. */
export function readsOf(maps: Source["maps"], index: readonly number[]): Reads {
  const indices: number[][] = [];
  const seen = new Set<string>();
  let count = 0;
  let isCut = false;
  let hasRuntime = false;
  for (const { map } of maps) {
    const { ranges, runtime } = map.message;
    hasRuntime ||= runtime.length > 0;
    const spans = ranges.map(({ bounds }) => [Number(bounds?.lower ?? 0n), Number((bounds?.upper ?? -1n) - (bounds?.lower ?? 0n)) + 1] as const);
    const total = product(spans.map(([, size]) => Math.max(0, size)));
    count += total;
    const shown = Math.min(total, MOST_READS);
    isCut ||= shown < total;
    const lowest = runtime.map(({ bounds }) => Number(bounds?.lower ?? 0n));
    const points: number[] = [];
    for (let k = 0; k < shown; k++) {
      const digits: number[] = [];
      let rest = k;
      for (const [lower, size] of spans.toReversed()) {
        digits.unshift(lower + (rest % size));
        rest = Math.floor(rest / size);
      }
      points.push(...index, ...digits, ...lowest);
    }
    if (shown === 0) continue;
    const { results, inDomain } = map.evaluateBatch(points, shown);
    inDomain.forEach((isIn, k) => {
      if (!isIn) {
        count--;
        return;
      }
      const found = Array.from(results.slice(k * map.resultCount, (k + 1) * map.resultCount), Number);
      const word = found.join();
      if (!seen.has(word)) {
        seen.add(word);
        indices.push(found);
      }
    });
  }
  return { indices, count, isCut, hasRuntime };
}

/** The segments of memory that some positions lie in, and how few could hold as many elements. */
export function segmentsOf(positions: readonly bigint[], bits: bigint, segmentBytes: bigint): { segments: number; least: number } {
  const segments = new Set(positions.map((position) => (position * bits) / 8n / segmentBytes));
  const span = 8n * segmentBytes;
  return { segments: segments.size, least: Number((BigInt(positions.length) * bits + span - 1n) / span) };
}
