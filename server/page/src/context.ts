/** What a view is, and what it may ask of the page around it. */

import type { Client } from "@xlashape/client/browser";

import type { Program } from "./program.js";
import type { Field, Patch, State } from "./state.js";

/** What a view has on the page while it is shown. */
export interface View {
  /** The fragment has changed; the view is still the same one. */
  update(state: State): void;
  dispose(): void;
  /** What "copy as" offers for what is shown now. */
  copies?(): Copies;
  /** What the inspector shows above the instruction: the whole of the row that was chosen. */
  details?(): Node | undefined;
}

export interface Copies {
  markdown?: () => string | Promise<string>;
  svg?: () => SVGSVGElement | string | Promise<string>;
  png?: () => Blob | Promise<Blob>;
  /** With `xs` for the library, and FILE for the module's file. */
  python?: () => string;
  /** `xlashape … FILE` */
  shell?: () => string;
  /** The RPC and its request, of which curl's command is made. */
  call?: () => { method: string; request: unknown };
}

export interface Context {
  /** The client of the server, or of the answers that a file carries. It is another one after the token has changed: do not keep it. */
  readonly client: Client;
  /** Whether answers come from this file, so that there are no others than those it carries. */
  readonly isRecorded: boolean;
  readonly state: State;
  /** Changes the fragment. `replace` makes no step of the browser's history: for what changes while a person moves something. */
  setState(patch: Patch, options?: { replace?: boolean }): void;
  /** The link to the state with these changes, for the `href` of an anchor. Links to an instruction: `{ i }`, to a view of it: `{ v: "graph", i }`. */
  link(patch: Patch): string;
  /** As if this link was clicked. */
  go(link: string): void;
  /** Shows what went wrong, above the view. `field`: of the state, whose value is to blame. */
  say(error: unknown, field?: Field): void;
  /** For screen readers. */
  announce(text: string): void;
  /** The instructions of a module, fetched once. */
  program(module: string): Program;
  /** The module of the state, as requests name it. */
  readonly module: { readonly name: string };
  /** The content that the state names by `r`, if this page has it. */
  content(): Content | undefined;
  /** The view's details have changed. */
  detailsChanged(): void;
}

/** Text or bytes that were given, and no server keeps. */
export interface Content {
  readonly kind: "report" | "profile";
  readonly bytes: Uint8Array;
}

/** Puts a view into an empty element. */
export type Mount = (container: HTMLElement, context: Context) => View;

/** What the page is about; a state may have several. */
export type Subject = "module" | "shape" | "map" | "report" | "diff" | "profile";

export interface ViewInfo {
  /** The value of `v`. */
  name: string;
  /** What it is called on the page. */
  title: string;
  /** What it shows, in a sentence. */
  about: string;
  /** What must be in the state. */
  subjects: readonly Subject[];
  /** Under which heading it stands. */
  group?: string;
  mount: Mount;
}
