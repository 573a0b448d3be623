/** "Copy as": the link, and what is shown in the forms that other tools take. */

import type { Context, Copies, View } from "./context.js";
import { dropdown } from "./controls.js";
import { h, replace } from "./dom.js";
import { addressWith } from "./state.js";

export function copyMenu(context: Context, view: () => View | undefined): HTMLElement {
  const box = dropdown("Copy", (panel, close) => {
    const copies = view()?.copies?.() ?? {};
    const entry = (label: string, make: () => Promise<Blob> | Blob, about: string): HTMLElement =>
      h("li", {}, h("button", { type: "button", title: about, onclick: () => {
        close();
        void copied(label, make, context);
      } }, label));
    replace(panel, h("ul.menu", {}, entry("Link", () => plain(linkOf(context)), context.state.token ? "to exactly this, without the token of this server" : "to exactly this"), entries(copies).map(([label, make, about]) => entry(label, make, about))));
  }, "copy");
  return box;
}

function linkOf(context: Context): string {
  const link = context.link({ token: undefined });
  return context.isRecorded ? link : addressWith(link);
}

function entries(copies: Copies): (readonly [string, () => Promise<Blob> | Blob, string])[] {
  const text = (make: () => unknown) => async (): Promise<Blob> => plain(await make() as string);
  const all: (readonly [string, () => Promise<Blob> | Blob, string] | undefined)[] = [
    copies.markdown && ["Markdown", text(copies.markdown), "for an issue or a chat"],
    copies.svg && ["SVG", text(async () => svgText(await copies.svg!())), "the picture, to be edited"],
    copies.svg || copies.png ? ["PNG", async () => (copies.png ? copies.png() : pngOf(svgText(await copies.svg!()))), "the picture, to be pasted"] : undefined,
    copies.python && ["Python", text(copies.python), "the same with the library"],
    copies.shell && ["Shell", text(copies.shell), "the same on the command line"],
    copies.call && ["curl", text(() => curl(copies.call!())), "the same from the server"],
  ];
  return all.filter((each) => each !== undefined);
}

const plain = (text: string): Blob => new Blob([text], { type: "text/plain" });
const svgText = (picture: SVGSVGElement | string): string => (typeof picture === "string" ? picture : new XMLSerializer().serializeToString(picture));

async function copied(label: string, make: () => Promise<Blob> | Blob, context: Context): Promise<void> {
  try {
    const blob = await make();
    if (blob.type.startsWith("text/")) {
      await writeText(await blob.text());
    } else {
      await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
    }
    context.announce(`${label} copied`);
    flash(`${label} copied`);
  } catch (error) {
    context.say(error);
  }
}

/** Browsers have no clipboard for pages without TLS, but on loopback. */
async function writeText(text: string): Promise<void> {
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) {
    await clipboard.writeText(text);
    return;
  }
  const area = h("textarea.spoken", {});
  area.value = text;
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) {
    throw new Error("This browser does not let pages without TLS copy.");
  }
}

function flash(text: string): void {
  const note = h("p.flash", { "aria-hidden": "true" }, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 1600);
}

function curl({ method, request }: { method: string; request: unknown }): string {
  const body = JSON.stringify(request, (_, value: unknown) => {
    if (typeof value === "bigint") {
      return String(value);
    }
    if (value instanceof Uint8Array) {
      return "BASE64";
    }
    // A oneof of the client is a field of its case in JSON.
    const forms = value as { source?: Case; form?: Case } | null;
    const one = forms && typeof forms === "object" ? forms.source ?? forms.form : undefined;
    return one?.case ? { [one.case]: one.value } : value;
  });
  const base = new URL(".", location.href).href.replace(/\/$/, "");
  return `curl -s ${base}/${method} -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'`;
}

interface Case {
  case?: string;
  value?: unknown;
}

/** The picture in pixels, twice as many as it has by itself. */
export async function pngOf(text: string): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = h("canvas", { width: image.naturalWidth * 2 || 1600, height: image.naturalHeight * 2 || 1200 });
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large for a PNG."))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
