/** Inputs that a link carries: deflated, in base64url. */

/** The text for a link, or undefined where it would be longer than `most` characters. */
export async function packed(bytes: Uint8Array, most: number): Promise<string | undefined> {
  if (bytes.length > 64 * most) {
    return undefined;
  }
  const data = await through(bytes, new CompressionStream("deflate-raw"));
  if (data.length * 4 > most * 3) {
    return undefined;
  }
  let binary = "";
  for (let i = 0; i < data.length; i += 0x8000) {
    binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
  }
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const MOST_BYTES = 64 << 20;

/** What a link carries. Throws an Error where it is damaged, or larger than any link that this page makes. */
export async function unpacked(text: string): Promise<Uint8Array> {
  let data: Uint8Array;
  try {
    data = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return await through(data, new DecompressionStream("deflate-raw"));
  } catch {
    throw new Error("The link is damaged: what it carries cannot be read.");
  }
}

/** The content without gzip's compression. */
export async function gunzipped(bytes: Uint8Array): Promise<Uint8Array> {
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? through(bytes, new DecompressionStream("gzip")) : bytes;
}

async function through(bytes: Uint8Array, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  const reader = new Blob([bytes as BlobPart]).stream().pipeThrough(stream as unknown as TransformStream<Uint8Array, Uint8Array>).getReader();
  const parts: BlobPart[] = [];
  let size = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return new Uint8Array(await new Blob(parts).arrayBuffer());
    }
    size += value.length;
    if (size > MOST_BYTES * 8) {
      throw new Error("too large");
    }
    parts.push(value as BlobPart);
  }
}
