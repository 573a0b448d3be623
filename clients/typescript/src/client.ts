/** A client of one server, or of several that hold the same modules. */

import type { Transport } from "@connectrpc/connect";

import { present } from "./answers.js";
import { type CallOptions, pause } from "./calls.js";
import { Code, XlashapeError } from "./errors.js";
import type { Module } from "./gen/xlashape/v1/hlo_service_pb.js";
import { ClientMethods } from "./methods.js";

/** The bytes of a part of a module that is sent in several messages. */
const PART_BYTES = 1 << 20;

/** A module on the server. */
export interface Uploaded {
  module: Module;
  /** Whether the content was sent. It is not if the server has the module already. */
  sent: boolean;
}

/**
 * Asks one server, or several that hold the same modules; `connect` makes it. It may be used for many calls at once.
 *
 * All methods that ask the server take {@link CallOptions} last, and reject with an {@link XlashapeError}.
 */
export class Client extends ClientMethods {
  /** Use `connect`. @internal */
  constructor(transport: Transport, hasRequestStreams: boolean, private readonly disconnect: () => void) {
    super(transport, hasRequestStreams);
  }

  /** Ends the connections, and all calls. */
  close(): void {
    this.disconnect();
  }

  /** `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Resolves once the server answers calls. Rejects with the last error when the time is over, and at once where the server refuses. */
  async waitUntilReady({ signal, timeoutMs = 60_000 }: CallOptions = {}): Promise<void> {
    const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
    for (;;) {
      try {
        await this.byteSizes([], { timeoutMs: timeoutMs ? Math.max(end - Date.now(), 1) : 0, ...(signal && { signal }) });
        return;
      } catch (error) {
        if (!(error instanceof XlashapeError && error.code === Code.Unavailable && Date.now() < end)) {
          throw error;
        }
        await pause(50, signal);
      }
    }
  }

  /**
   * Stores a module: HLO text, the bytes of an `xla.HloModuleProto` or `xla.HloProto`, or a file (a `Blob`, in Node from `fs.openAsBlob`). A module that the
   * server has already is not sent again, unless the page is not in a secure context: there browsers do not compute digests.
   */
  async uploadModule(content: string | Uint8Array | Blob, options?: CallOptions): Promise<Uploaded> {
    const data = typeof content === "string" ? new TextEncoder().encode(content)
      : content instanceof Uint8Array ? content : new Uint8Array(await content.arrayBuffer());
    const sha256 = await hexDigest(data);
    if (sha256 !== "") {
      try {
        return { module: await this.getModule(`modules/${sha256}`, options), sent: false };
      } catch (error) {
        if (!(error instanceof XlashapeError && error.code === Code.NotFound)) {
          throw error;
        }
      }
    }
    const isInParts = this.hasRequestStreams && data.length > PART_BYTES;
    const { module } = isInParts ? await this.modules.uploadModule(parts(data, sha256), options) : await this.modules.putModule({ data, sha256 }, options);
    return { module: present(module), sent: true };
  }

  /** The content of a stored module as it was uploaded, in parts. */
  async *moduleParts(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    let contentOffset = 0n;
    for (;;) {
      const request = { name, includeContent: true, contentOffset, contentLimit: BigInt(PART_BYTES) };
      const { module, content } = await this.modules.getModule(request, options);
      contentOffset += BigInt(content.length);
      if (content.length > 0) {
        yield content;
      }
      if (content.length === 0 || contentOffset >= present(module).sizeBytes) {
        return;
      }
    }
  }

  /** The content of a stored module as it was uploaded. */
  async downloadModule(name: string, options?: CallOptions): Promise<Uint8Array> {
    const all: Uint8Array[] = [];
    for await (const part of this.moduleParts(name, options)) {
      all.push(part);
    }
    return new Uint8Array(await new Blob(all as BlobPart[]).arrayBuffer());
  }
}

async function* parts(data: Uint8Array, sha256: string): AsyncGenerator<{ data: Uint8Array; sha256?: string; sizeBytes?: bigint }> {
  for (let start = 0; start < data.length; start += PART_BYTES) {
    const part = data.subarray(start, start + PART_BYTES);
    yield start === 0 ? { data: part, sha256, sizeBytes: BigInt(data.length) } : { data: part };
  }
}

/** The SHA-256 in hexadecimal; empty where it cannot be computed. */
async function hexDigest(data: Uint8Array): Promise<string> {
  const subtle = globalThis.crypto.subtle as SubtleCrypto | undefined; // browsers have it in secure contexts alone
  const digest = await subtle?.digest("SHA-256", data as Uint8Array<ArrayBuffer>);
  return digest ? Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") : "";
}
