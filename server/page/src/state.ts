/** What the page shows, as the fragment of its address: a flat record of texts. A copied link shows the same to a colleague. */

/** Every name of the record and its meaning, in the order in which links have them. A view that needs another name adds it here. */
export const FIELDS = {
  v: "the view: a name of views/index.ts",
  m: "the module: the SHA-256 of its content in hexadecimal",
  m2: "of a comparison, the second module",
  s: "a shape, in XLA's text",
  b: "with s: the same array in another layout, to compare with",
  p: "an indexing map, in XLA's text",
  r: "text with shapes in it, such as a report about memory that has run out, or a profile: the SHA-256 of its content, which is in x or in this page",
  c: "a computation",
  i: "an instruction",
  t: "the table of a report",
  a: "what that table depends on, such as what it groups by",
  d: "options of a report: name=value, separated by `;`",
  f: "the filters of a table, separated by `;`",
  o: "the column that a table is sorted by, with :asc or :desc",
  k: "the columns of a table that are shown besides the usual ones, separated by commas",
  j: "the row of a table that is shown whole: its number in the report, from 0",
  n: "a line of the text, from 1",
  q: "what is searched for",
  h: "the target, such as h100 or tpu-v5e",
  e: "an element: its index, separated by commas, or the number of an output and its index",
  g: "of the graph, what nodes are grouped by",
  gi: "of the graph, the instruction in the middle, with ~ and how many edges around it",
  gx: "of the graph, what is open: numbers of layers, such as /2/0, and names of fusions, calls and loops, separated by commas",
  u: "of the graph, the instruction that the way ends at",
  w: "of the graph, what the colours mean",
  z: "of a picture, its options",
  x: "the input itself: deflated, in base64url",
  x2: "of a comparison, the second input",
  token: "on this machine alone: what the server of `xlashape open` asks for, so that reloads and new tabs have it. Copied links do not",
} as const;

export type Field = keyof typeof FIELDS;
export type State = Readonly<Partial<Record<Field, string>>>;
export type Patch = Readonly<Partial<Record<Field, string | undefined>>>;

const NAMES = Object.keys(FIELDS) as Field[];

export function stateOf(fragment: string): State {
  const given = new URLSearchParams(fragment.replace(/^#(?=[a-z]+$)/, "v=").replace(/^#/, ""));
  const state: Partial<Record<Field, string>> = {};
  for (const name of NAMES) {
    const value = given.get(name);
    if (value) {
      state[name] = value;
    }
  }
  return state;
}

/** Equal states have equal fragments. */
export function fragmentOf(state: Patch): string {
  return `#${new URLSearchParams(NAMES.flatMap((name) => (state[name] ? [[name, state[name]]] : [])))}`;
}

/** `undefined` and the empty text take a name away. */
export function patched(state: State, patch: Patch): State {
  const entries = Object.entries({ ...state, ...patch }).filter(([, value]) => value);
  return Object.fromEntries(entries) as State;
}

/** The address of this page with another fragment. A fragment alone would belong to the page around a frame without an address of its own, as in a notebook. */
export function addressWith(fragment: string): string {
  return location.href.replace(/#.*/s, "") + fragment;
}
