/**
 * Runs of instructions that repeat: the layers of a model that was unrolled.
 *
 * Instructions stand in the order of the module, so that copies of a layer follow each other: words of opcode and shape repeat with a period. Periods are
 * proposed by the distances between equal words, and of all runs those are taken that save the most nodes.
 */

export interface Repeat {
  /** The first instruction, how many a copy has, and how many copies there are. */
  start: number;
  period: number;
  copies: number;
}

const LEAST_COPIES = 3;
const LEAST_SAVED = 6; // words
const PERIODS = 24; // candidates

export function repeats(words: readonly string[], least = LEAST_SAVED): Repeat[] {
  const numbers = new Map<string, number>();
  const tokens = Int32Array.from(words, (word) => {
    const known = numbers.get(word);
    if (known !== undefined) return known;
    numbers.set(word, numbers.size);
    return numbers.size - 1;
  });
  const votes = new Map<number, number>();
  const last = new Int32Array(numbers.size).fill(-1);
  tokens.forEach((token, i) => {
    const gap = i - last[token]!;
    if (last[token]! >= 0) votes.set(gap, (votes.get(gap) ?? 0) + 1);
    last[token] = i;
  });
  // A period of a whole layer has fewer votes for each instruction than those of its parts, and saves as much.
  const periods = [...votes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, PERIODS).map(([gap]) => gap);
  const found: Repeat[] = [];
  for (const period of periods) {
    let start = 0;
    for (let i = 0; i <= tokens.length - period; i++) {
      if (i < tokens.length - period && tokens[i] === tokens[i + period]) continue;
      const copies = Math.floor((i - start) / period) + 1;
      if (copies >= LEAST_COPIES && (copies - 1) * period >= least) found.push({ start, period, copies });
      start = i + 1;
    }
  }
  found.sort((a, b) => (b.copies - 1) * b.period - (a.copies - 1) * a.period || a.period - b.period || a.start - b.start);
  const taken = new Uint8Array(tokens.length);
  return found
    .filter(({ start, period, copies }) => {
      const end = start + period * copies;
      for (let i = start; i < end; i++) if (taken[i]) return false;
      taken.fill(1, start, end);
      return true;
    })
    .sort((a, b) => a.start - b.start);
}
