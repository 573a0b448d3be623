/** A client of one server, or of several that hold the same modules. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";

import { present } from "./answers.js";
import { type CallOptions, pause } from "./calls.js";
import { check, Code, errorOf, XlashapeError } from "./errors.js";
import type { Module, UploadModuleRequestSchema } from "./gen/xlashape/v1/hlo_service_pb.js";
import { ClientMethods } from "./methods.js";

/** The bytes of a part of a module that is sent in several messages. */
const PART_BYTES = 1 << 20;

/** The bytes of a message that a server takes by default. */
const MESSAGE_BYTES = 64 << 20;

/** A module on the server. */
export interface Uploaded {
  module: Module;
  /** Whether the content was sent. It is not if the server has the module already. */
  sent: boolean;
}

/** What the content of a module is read from: a file, a stream of the web, or in Node any readable stream, such as that of `fs.createReadStream`. */
export type ModuleSource = AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | Blob;

/** What holds for an upload of what is read. */
export interface UploadOptions extends CallOptions {
  /** Is told how many bytes were sent, after each part. */
  onProgress?: (sent: number) => void;
  /**
   * The bytes that a module may have which is held as a whole, over Connect. Default: 64 MiB, what a server takes in one message unless it is told
   * otherwise.
   */
  maxBytes?: number;
}

/**
 * Asks one server, or several that hold the same modules; `connect` makes it. It may be used for many calls at once.
 *
 * All methods that ask the server take {@link CallOptions} last, and reject with an {@link XlashapeError}.
 */
export class Client extends ClientMethods {
  /** Use `connect`. @internal */
  constructor(transport: Transport, hasStreams: boolean, private readonly disconnect: () => void) {
    super(transport, hasStreams);
  }

  /** Ends the connections, and all calls. */
  close(): void {
    this.disconnect();
  }

  /** `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Resolves once the server answers calls. Rejects with the reason why it is not reached when the time is over, and at once where the server refuses. */
  async waitUntilReady({ signal, timeoutMs = 60_000 }: CallOptions = {}): Promise<void> {
    const end = timeoutMs ? Date.now() + timeoutMs : Infinity;
    let unreached: XlashapeError | undefined;
    for (;;) {
      const left = timeoutMs ? Math.max(end - Date.now(), 1) : 0;
      const asked = this.byteSizes([], { timeoutMs: left, ...(signal && { signal }) });
      const error = await asked.then(() => undefined, (cause: unknown) => errorOf(cause));
      if (error === undefined) {
        return;
      }
      if (error.code === Code.DeadlineExceeded) {
        throw unreached ?? error; // the time was over during a try: an earlier one says more
      }
      if (error.code !== Code.Unavailable || Date.now() >= end) {
        throw error;
      }
      unreached = error;
      await pause(50, signal);
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
    const known = sha256 && await this.getModule(`modules/${sha256}`, options).catch((error: unknown) =>
      error instanceof XlashapeError && error.code === Code.NotFound ? undefined : Promise.reject(error));
    if (known) {
      return { module: known, sent: false };
    }
    const { module } = this.hasStreams && data.length > PART_BYTES
      ? await this.modules.uploadModule(messages(parts([data]), { sha256, sizeBytes: BigInt(data.length) }), options)
      : await this.modules.putModule({ data, sha256 }, options);
    return { module: present(module), sent: true };
  }

  /**
   * Stores a module that is sent while it is read, in parts of at most 1 MiB, whether or not the server has it. An error of the source ends the call,
   * stores nothing, and is what the promise rejects with.
   *
   * Over Connect there are no streams: there the module is sent in one message when all of it was read, and one
   * of more than `maxBytes` is not read to its end.
   */
  async uploadModuleFrom(source: ModuleSource, { onProgress, maxBytes = MESSAGE_BYTES, ...options }: UploadOptions = {}): Promise<Uploaded> {
    if (!this.hasStreams) {
      const data = await joined(chunks(source), maxBytes);
      const { module } = await this.modules.putModule({ data }, options);
      onProgress?.(data.length);
      return { module: present(module), sent: true };
    }
    let failure: { error: unknown } | undefined;
    const watched = async function* () {
      try {
        yield* parts(chunks(source), onProgress);
      } catch (error) {
        failure = { error };
        throw error; // without its last message the stream is refused
      }
    };
    const request = messages(watched());
    try {
      const { module } = await this.modules.uploadModule(request, options);
      return { module: present(module), sent: true };
    } catch (error) {
      throw failure === undefined ? error : failure.error;
    } finally {
      void request.return(undefined).catch(() => undefined); // closes the source of a call that has ended early
    }
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
    return joined(this.moduleParts(name, options));
  }
}

/** The messages of an upload. `first` is what else the first one says. */
async function* messages(
  content: AsyncIterable<Uint8Array>, first: MessageInitShape<typeof UploadModuleRequestSchema> = {},
): AsyncGenerator<MessageInitShape<typeof UploadModuleRequestSchema>> {
  let others = first;
  for await (const data of content) {
    yield { ...others, data, moreFollows: true };
    others = {};
  }
  yield others;
}

/** Content in parts of at most 1 MiB. `onProgress` is told how much was taken, when the next part is asked for. */
async function* parts(
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, onProgress?: (sent: number) => void,
): AsyncGenerator<Uint8Array> {
  let sent = 0;
  for await (const chunk of content) {
    for (let start = 0; start < chunk.length; start += PART_BYTES) {
      const data = chunk.subarray(start, start + PART_BYTES);
      yield data;
      sent += data.length;
      onProgress?.(sent);
    }
  }
}

/** What a source gives. Not every browser iterates over streams. */
async function* chunks(source: ModuleSource): AsyncGenerator<Uint8Array> {
  if (Symbol.asyncIterator in source) {
    yield* source;
    return;
  }
  const reader = (source instanceof Blob ? source.stream() : source).getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      yield next.value;
    }
  } finally {
    await reader.cancel();
  }
}

async function joined(chunks: AsyncIterable<Uint8Array>, maxBytes = Infinity): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    const most = `expected at most ${maxBytes} bytes in one message, found more`;
    check(bytes <= maxBytes, "LIMIT_EXCEEDED", "data", most, Code.ResourceExhausted);
    all.push(chunk);
  }
  return new Uint8Array(await new Blob(all as BlobPart[]).arrayBuffer());
}

/** The SHA-256 in hexadecimal; empty where it cannot be computed. */
async function hexDigest(data: Uint8Array): Promise<string> {
  const subtle = globalThis.crypto.subtle as SubtleCrypto | undefined; // browsers have it in secure contexts alone
  const digest = await subtle?.digest("SHA-256", data as Uint8Array<ArrayBuffer>);
  return digest ? Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") : "";
}
