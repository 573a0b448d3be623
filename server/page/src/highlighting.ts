/** The parts of a line of HLO text. */

export type PartKind = "text" | "shape" | "opcode" | "name" | "comment" | "string";

export interface Part {
  kind: PartKind;
  text: string;
}

const PART = /("(?:[^"\\]|\\.)*"?)|(\/\*.*?(?:\*\/|$)|\/\/.*$)|([a-z]\w*\[[^\]]*\](?:\{[^}]*\})?)|(%?[A-Za-z_][\w.-]*)/g;

/** Strings, comments, shapes, opcodes (words before a parenthesis) and words, which may be names. Their texts together are the line. */
export function partsOfLine(line: string): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const match of line.matchAll(PART)) {
    if (match.index > end) {
      parts.push({ kind: "text", text: line.slice(end, match.index) });
    }
    end = match.index + match[0].length;
    const kind = match[1] ? "string" : match[2] ? "comment" : match[3] ? "shape" : line[end] === "(" && !match[0].startsWith("%") ? "opcode" : "name";
    parts.push({ kind, text: match[0] });
  }
  if (end < line.length) {
    parts.push({ kind: "text", text: line.slice(end) });
  }
  return parts;
}
