/**
 * A tree of a program's layers and operations, from names such as `jit(f)/main/layer_3/attn/dot_general`. Members that differ in their numbers alone, such as
 * layer_0 to layer_31, stand together.
 */

export interface Amounts {
  instructions: number;
  flops: number;
  bytes: number;
  paddedBytes: number;
  share: number;
}

export interface Layer extends Amounts {
  /** What it is called below its parent. */
  label: string;
  /** The beginning of the names of its operations, or for members that stand together a pattern of it. */
  path: string;
  level: number;
  children: Layer[];
  /** How many members stand together here; 0 if it is not such a node. */
  folded: number;
}

const NUMBERED = 3;
const MOST_PARTS = 100; // of a name; the rest is one part

/** The tree of operations with these names. `split` makes parts of a name. */
export function layersOf(operations: readonly (readonly [name: string, amounts: Amounts])[], split: (name: string) => string[]): Layer {
  const root = layer("", "", 0);
  const found = new Map<string, Layer>([["", root]]);
  for (const [name, amounts] of operations) {
    let at = root;
    add(root, amounts);
    let path = "";
    for (const part of split(name)) {
      path += part;
      let next = found.get(path);
      if (!next) {
        next = layer(part.replace(/^\/|\/$/g, "") || part, path, at.level + 1);
        found.set(path, next);
        at.children.push(next);
      }
      add(next, amounts);
      at = next;
    }
  }
  finish(root);
  return root;
}

/** `a/b(c/d)/e` as `a`, `/b(c/d)`, `/e`: what is between parentheses is one part. */
export function partsOf(name: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < name.length; i++) {
    const letter = name[i];
    depth += letter === "(" ? 1 : letter === ")" ? -1 : 0;
    if (letter === "/" && depth <= 0 && i > from && parts.length < MOST_PARTS) {
      parts.push(name.slice(from, i));
      from = i;
    }
  }
  parts.push(name.slice(from));
  return parts;
}

/** `model.py:73` as `model.py` and `:73`. */
export function linesOf(name: string): string[] {
  const at = name.lastIndexOf(":");
  return at > 0 ? [name.slice(0, at), name.slice(at)] : [name];
}

function layer(label: string, path: string, level: number): Layer {
  return { label, path, level, children: [], folded: 0, instructions: 0, flops: 0, bytes: 0, paddedBytes: 0, share: 0 };
}

function add(to: Layer, amounts: Amounts): void {
  to.instructions += amounts.instructions;
  to.flops += amounts.flops;
  to.bytes += amounts.bytes;
  to.paddedBytes += amounts.paddedBytes;
  to.share += amounts.share;
}

/** Joins chains of single members, folds numbered ones, and orders by bytes. Names are not deep in practice, but may be: no recursion. */
function finish(root: Layer): void {
  const open = [root];
  for (let at = open.pop(); at; at = open.pop()) {
    while (at !== root && at.children.length === 1) {
      const only: Layer = at.children[0]!;
      Object.assign(at, { label: `${at.label}${only.path.slice(at.path.length)}`, path: only.path, children: only.children });
    }
    if (at.folded === 0) {
      at.children = folded(at);
    }
    at.children.sort((a, b) => b.bytes - a.bytes || (a.label < b.label ? -1 : 1));
    for (const child of at.children) {
      child.level = at.level + 1;
      open.push(child);
    }
  }
}

function folded(parent: Layer): Layer[] {
  const groups = new Map<string, Layer[]>();
  for (const child of parent.children) {
    const pattern = child.label.replace(/\d+/g, "*");
    groups.set(pattern, [...(groups.get(pattern) ?? []), child]);
  }
  return [...groups].flatMap(([pattern, members]) => {
    if (members.length < NUMBERED || groups.size === 1 && parent.children.length === members.length && parent.level === 0) {
      return members;
    }
    const made = layer(pattern, members[0]!.path.replace(/\d+(?=[^/]*$)/g, "*"), parent.level + 1);
    made.folded = members.length;
    made.children = members;
    members.forEach((each) => add(made, each));
    return [made];
  });
}
