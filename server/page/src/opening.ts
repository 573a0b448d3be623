/** What was pasted, dropped or opened: what it is, and the state that shows it. */

import { type Client } from "@xlashape/client/browser";
import { ContentKind } from "@xlashape/client/gen/xlashape/v1/view_service_pb";

import { gunzipped, packed } from "./carried.js";
import { grouped } from "./columns.js";
import type { Content } from "./context.js";
import type { Patch } from "./state.js";

/** Characters of what a link carries. */
const MOST_OF_MODULE = 8_000;
const MOST_OF_TEXT = 30_000;

export interface Opened {
  /** What it is, for people. */
  summary: string;
  state: Patch;
  /** What no server keeps, and the name that the state has for it. */
  content?: Content;
}

/** Asks the server what this is, and stores it if it is a module. `note` is told what is going on. */
export async function opened(client: Client, given: Uint8Array, signal: AbortSignal, note: (text: string) => void): Promise<Opened> {
  const bytes = await gunzipped(given);
  if (isModule(bytes)) {
    note("sending a module…");
    return stored(client, bytes, signal);
  }
  note("asking the server what it is…");
  const { kind, text, instruction, summary } = await client.views.recognize({ content: bytes }, { signal });
  switch (kind) {
    case ContentKind.SHAPE:
    case ContentKind.LAYOUT:
      return { summary, state: { v: "shape", s: text } };
    case ContentKind.MAP:
      return { summary, state: { v: "map", p: text } };
    case ContentKind.REPORT:
      return { summary, state: { v: "why", r: await digest(bytes), x: await packed(bytes, MOST_OF_TEXT) }, content: { kind: "report", bytes } };
    case ContentKind.PROFILE:
      return { summary, state: { v: "profile", r: await digest(bytes), x: await packed(bytes, MOST_OF_TEXT) }, content: { kind: "profile", bytes } };
    default: {
      note(`sending ${summary}…`);
      return stored(client, text ? new TextEncoder().encode(text) : bytes, signal, instruction);
    }
  }
}

/** Whether this is beyond doubt the text of a module, which need not be read twice. */
function isModule(bytes: Uint8Array): boolean {
  return /^\s*HloModule\s/.test(new TextDecoder().decode(bytes.subarray(0, 200)));
}

async function stored(client: Client, bytes: Uint8Array, signal: AbortSignal, instruction = ""): Promise<Opened> {
  const { module } = await client.uploadModule(bytes, { signal, timeoutMs: 300_000 });
  const state = { m: module.name.replace("modules/", ""), x: await packed(bytes, MOST_OF_MODULE) };
  const summary = instruction ? `an instruction, ${module.moduleName}` : `a module, ${module.moduleName.slice(0, 100)}, with ${grouped(module.instructionCount)} instructions`;
  return { summary, state: instruction ? { ...state, v: "element", i: instruction } : { ...state, v: "summary" } };
}

/** The state that shows one thing, or two modules beside each other. */
export async function openedAll(client: Client, given: readonly Uint8Array[], signal: AbortSignal, note: (text: string) => void): Promise<Opened> {
  const [first, second] = given;
  const a = await opened(client, first!, signal, note);
  if (!second) {
    return a;
  }
  const b = await opened(client, second, signal, note);
  const profile = [a, b].find((each) => each.content?.kind === "profile");
  const module = [a, b].find((each) => each.state.m);
  if (profile && module) {
    return { ...profile, summary: `${a.summary}, and ${b.summary}`, state: { ...profile.state, m: module.state.m, x2: profile.state.x && module.state.x } };
  }
  if (!a.state.m || !b.state.m) {
    throw new Error(`Two files are compared if both are modules, or a module and a profile of it: the first is ${a.summary}, the second ${b.summary}.`);
  }
  return { summary: `${a.summary}, and ${b.summary}`, state: { v: "diff", m: a.state.m, m2: b.state.m, x: a.state.x, x2: b.state.x } };
}

/** The SHA-256 in hexadecimal; where browsers do not compute it, a number of this page. */
async function digest(bytes: Uint8Array): Promise<string> {
  const subtle = crypto.subtle as SubtleCrypto | undefined;
  const hash = await subtle?.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return hash ? Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("").slice(0, 16) : `${bytes.length}`;
}
