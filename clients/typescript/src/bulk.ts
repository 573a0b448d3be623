/** Questions about any number of integers: in one message if they are few, in parts otherwise. */

import type { DescMethodBiDiStreaming, DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";

import type { CallOptions } from "./calls.js";
import { Code, errorOf, XlashapeError } from "./errors.js";
import { bytesOf, integersOf } from "./integers.js";

/** The integers in one message: 2 MiB, half of what gRPC receives by default. */
const MESSAGE_INTEGERS = 1 << 18;
/** The integers in one message whose answer is several times as large. */
const SMALL_MESSAGE_INTEGERS = 1 << 14;
/** How many parts are on their way at once over a transport that has no streams. */
const AT_ONCE = 4;

/** A question about many integers: one message, and a stream of them both ways. */
export interface PackedQuestion {
  unary: DescMethodUnary;
  stream: DescMethodBiDiStreaming;
}

/** A message whose integers are bytes. */
type PackedMessage = Message & Record<string, unknown>;

/** Many integers, and how they are asked about. */
export interface BulkQuestion {
  question: PackedQuestion;
  /** What the first message says, beside the integers. */
  first: Record<string, unknown>;
  /** The fields of the integers: of the request, and of the answer. */
  fields: { request: string; answer: string; flags?: string };
  integers: BigInt64Array;
  /** Whether an answer is several times as large as its question. */
  isAnswerLarge: boolean;
}

/** How many integers belong together. */
export type Widths = Record<"question" | "answer", number>;

/** The indices of the elements at many positions. */
export interface BulkIndices {
  /** The indices one after another, each with one number for every dimension. The numbers of padding are -1. */
  indices: BigInt64Array;
  /** For each position whether it holds an element. If not, it is padding. */
  isElement: boolean[];
}

/** Whom to ask, and how. */
export interface BulkRoute extends CallOptions {
  transport: Transport;
  hasStreams: boolean;
}

/** Asks in one message if the integers are few, and otherwise in parts: as a stream, or with a call for each part where there are no streams. */
export async function ask(route: BulkRoute, bulk: BulkQuestion, widths: () => Promise<Widths>) {
  if (bulk.integers.length <= (bulk.isAnswerLarge ? SMALL_MESSAGE_INTEGERS : MESSAGE_INTEGERS)) {
    return joined(bulk, [await part(route, bulk, bulk.integers)]);
  }
  const { question, answer } = await widths();
  const rows = Math.floor(MESSAGE_INTEGERS / Math.max(question, answer + (bulk.fields.flags ? 1 : 0), 1));
  return joined(bulk, await askInParts(route, bulk, Math.max(rows, 1) * Math.max(question, 1)));
}

async function askInParts(route: BulkRoute, bulk: BulkQuestion, size: number): Promise<PackedMessage[]> {
  const { integers } = bulk;
  const starts = Array.from({ length: Math.ceil(integers.length / size) }, (_, i) => i * size);
  const answers: PackedMessage[] = [];
  if (route.hasStreams) {
    const request = async function* () {
      for (const start of starts) {
        const next = { [bulk.fields.request]: bytesOf(integers.subarray(start, start + size)) };
        yield (start === 0 ? { ...bulk.first, ...next } : next) as never;
      }
    };
    const stream = await route.transport.stream(bulk.question.stream, route.signal, route.timeoutMs, undefined, request());
    for await (const answer of stream.message) {
      answers.push(answer as PackedMessage);
    }
  } else {
    const end = route.timeoutMs ? Date.now() + route.timeoutMs : undefined;
    for (let i = 0; i < starts.length; i += AT_ONCE) {
      const left = end === undefined ? route : { ...route, timeoutMs: Math.max(end - Date.now(), 1) };
      const asked = starts.slice(i, i + AT_ONCE).map((start) =>
        part(left, bulk, integers.subarray(start, start + size))
          .catch((error: unknown) => Promise.reject(moved(errorOf(error), bulk.fields.request, start))));
      answers.push(...(await Promise.all(asked)));
    }
  }
  return answers;
}

async function part(route: BulkRoute, bulk: BulkQuestion, integers: BigInt64Array): Promise<PackedMessage> {
  const message = { ...bulk.first, [bulk.fields.request]: bytesOf(integers) } as never;
  const answer = await route.transport.unary(bulk.question.unary, route.signal, route.timeoutMs, undefined, message);
  return answer.message as PackedMessage;
}

function joined({ fields }: BulkQuestion, answers: readonly PackedMessage[]) {
  const parts = answers.map((answer) => answer[fields.answer] as Uint8Array);
  if (parts.some((bytes) => bytes.length % 8)) {
    throw new XlashapeError({ code: Code.Internal, reason: "INVALID_ANSWER", rawMessage: "the server's integers do not have eight bytes each" });
  }
  const all = new Uint8Array(parts.reduce((sum, bytes) => sum + bytes.length, 0));
  let end = 0;
  for (const bytes of parts) {
    all.set(bytes, end);
    end += bytes.length;
  }
  const { flags } = fields;
  return { integers: integersOf(all), flags: flags ? answers.flatMap((answer) => answer[flags] as boolean[]) : [] };
}

/** An error about a part, whose path counts integers from the beginning of the part, as one about all integers. */
function moved(error: XlashapeError, field: string, by: number): XlashapeError {
  const found = new RegExp(`^${field}\\[(\\d+)\\]`).exec(error.field);
  const path = found && `${field}[${Number(found[1]) + by}]${error.field.slice(found[0].length)}`;
  return path ? new XlashapeError({ ...error, field: path, cause: error.cause }) : error;
}
