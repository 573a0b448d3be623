/**
 * Answers that a file carries, in place of a server: what `xlashape report` has asked the handlers, request by request.
 *
 * The element holds records of three parts each: the name of an RPC, the bytes of a request, and those of its answer. Before each part stand four bytes with
 * its length, the lowest first. All of it is compressed with gzip, and written in base64.
 */

import { create, type DescMessage, type DescMethodStreaming, type DescMethodUnary, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { StreamResponse, Transport, UnaryResponse } from "@connectrpc/connect";
import { Client, Code, XlashapeError } from "@xlashape/client/browser";
import { type GetTextRequest, GetTextRequestSchema, type GetTextResponse, GetTextResponseSchema } from "@xlashape/client/gen/xlashape/v1/view_service_pb";

/** By the name of an RPC: the answers by the bytes of their requests, in the order of the file. */
type Records = Map<string, Map<string, Uint8Array>>;

/** Of an answer of a report: as many as are recorded at once. */
const MOST_ROWS = 2000;
const MOST_LINES = 5000;
const MOST_FOUND = 10_000;

export function recordedClient(element: Element): Client {
  return new Client(new Recorded(records(element.textContent ?? "")), false, () => undefined);
}

/** The records in the text of the element. */
export async function records(text: string): Promise<Records> {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const data = new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  const view = new DataView(data.buffer);
  const found: Records = new Map();
  let at = 0;
  const part = () => {
    const start = at + 4;
    at = start + view.getUint32(at, true);
    return data.subarray(start, at);
  };
  while (at < data.length) {
    const name = new TextDecoder().decode(part());
    const answers = found.get(name) ?? new Map<string, Uint8Array>();
    found.set(name, answers.set(key(part()), part()));
  }
  return found;
}

/** Bytes as a text with a character for each. */
function key(bytes: Uint8Array): string {
  let text = "";
  for (let start = 0; start < bytes.length; start += 8192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  }
  return text;
}

class Recorded implements Transport {
  private lines: string[] | undefined;

  constructor(private readonly known: Promise<Records>) {}

  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>, _signal: AbortSignal | undefined, _timeoutMs: number | undefined, _header: HeadersInit | undefined, input: MessageInitShape<I>,
  ): Promise<UnaryResponse<I, O>> {
    const answers = (await this.known).get(method.name);
    const request = create(method.input, input);
    const table = request as { pageSize?: number };
    if (table.pageSize === 0) {
      table.pageSize = MOST_ROWS; // for which 0 stands
    }
    const data = answers?.get(key(toBinary(method.input, request)));
    let message = data && fromBinary(method.output, data);
    if (!message && answers && method.input.typeName === GetTextRequestSchema.typeName) {
      message = this.slice(answers, request as unknown as GetTextRequest) as unknown as MessageShape<O>;
    }
    if (!message) {
      throw unknown();
    }
    return { stream: false, service: method.parent, method, header: new Headers(), trailer: new Headers(), message };
  }

  stream<I extends DescMessage, O extends DescMessage>(_method: DescMethodStreaming<I, O>): Promise<StreamResponse<I, O>> {
    return Promise.reject(unknown());
  }

  /** Any lines of the text, which the file has as a whole. */
  private slice(answers: Map<string, Uint8Array>, request: GetTextRequest): GetTextResponse {
    const parts = Array.from(answers.values(), (data) => fromBinary(GetTextResponseSchema, data));
    const definitions = parts[0]?.definitions;
    if (!definitions) {
      throw unknown();
    }
    this.lines ??= parts.flatMap((part) => part.lines);
    const lines = this.lines;
    let first = Number(request.firstLine);
    if (request.name) {
      const ends = [...definitions.computationLines, BigInt(lines.length)];
      const within = definitions.computations.indexOf(request.computation);
      const from = within < 0 ? 0n : ends[within]!, to = within < 0 ? BigInt(lines.length) : ends[within + 1]!;
      const computation = request.computation ? -1 : definitions.computations.indexOf(request.name);
      const line = computation >= 0 ? ends[computation]
        : definitions.instructionLines.find((each, i) => each >= from && each < to && definitions.instructions[i] === request.name);
      if (line === undefined) {
        throw new XlashapeError({ code: Code.NotFound, reason: "NOT_FOUND", field: "name", rawMessage: `there is no instruction '${request.name}'`, details: { kind: "instruction" } });
      }
      first = Number(line);
    }
    const wanted = request.find.toLowerCase();
    const found = wanted ? lines.flatMap((line, number) => (line.toLowerCase().includes(wanted) ? [BigInt(number)] : [])) : [];
    return create(GetTextResponseSchema, {
      lines: lines.slice(first, first + Math.min(request.maxLines || MOST_LINES, MOST_LINES)),
      firstLine: BigInt(first),
      lineCount: BigInt(lines.length),
      foundLines: found.slice(0, MOST_FOUND),
      foundCount: BigInt(found.length),
      ...(request.includeDefinitions ? { definitions } : {}),
    });
  }
}

function unknown(): XlashapeError {
  return new XlashapeError({ code: Code.Unimplemented, reason: "NOT_RECORDED", rawMessage: "this file does not carry that answer: open its module with `xlashape open FILE`" });
}
