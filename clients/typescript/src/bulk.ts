/** Questions about any number of integers: in one message if they are few, in several calls otherwise. */

import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";

import type { CallOptions } from "./calls.js";
import { check, Code, errorOf, XlashapeError } from "./errors.js";
import { bytesOf, integersOf } from "./integers.js";

/** The integers in one message: 2 MiB, half of what gRPC receives by default. */
const MESSAGE_INTEGERS = 1 << 18;
/** The integers in one message whose answer is several times as large. */
const SMALL_MESSAGE_INTEGERS = 1 << 14;
/** How many calls are on their way at once. */
const AT_ONCE = 4;

/** Many integers, and how they are asked about. */
export interface BulkQuestion {
  /** The RPC, in whose messages the integers are bytes. */
  rpc: DescMethodUnary;
  /** What each message says, beside the integers. */
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
export type BulkRoute = CallOptions & { transport: Transport };

/** Asks in one call if the integers are few, and otherwise in parts of whole rows. The time of the call is that of all parts. */
export async function ask(route: BulkRoute, { rpc, first, fields, integers, isAnswerLarge }: BulkQuestion, widths: () => Promise<Widths>) {
  const { transport, signal, timeoutMs } = route;
  const end = timeoutMs ? Date.now() + timeoutMs : undefined;
  let size = integers.length;
  if (size > (isAnswerLarge ? SMALL_MESSAGE_INTEGERS : MESSAGE_INTEGERS)) {
    const { question, answer } = await widths();
    const rows = Math.floor(MESSAGE_INTEGERS / Math.max(question, answer + (fields.flags ? 1 : 0), 1));
    size = Math.max(rows, 1) * Math.max(question, 1);
  }
  const part = async (start: number) => {
    const message = { ...first, [fields.request]: bytesOf(integers.subarray(start, start + size)) } as never;
    const left = end === undefined ? timeoutMs : Math.max(end - Date.now(), 1);
    const answer = await transport.unary(rpc, signal, left, undefined, message).catch((error: unknown) => {
      throw moved(errorOf(error), fields.request, start);
    });
    return answer.message as Message & Record<string, unknown>;
  };
  const starts = Array.from({ length: Math.max(Math.ceil(integers.length / Math.max(size, 1)), 1) }, (_, i) => i * size);
  const answers: Awaited<ReturnType<typeof part>>[] = [];
  while (starts.length > 0) {
    answers.push(...await Promise.all(starts.splice(0, AT_ONCE).map(part)));
  }
  const found = new Uint8Array(await new Blob(answers.map((answer) => answer[fields.answer] as BlobPart)).arrayBuffer());
  check(found.length % 8 === 0, "INVALID_ANSWER", "", "the server's integers do not have eight bytes each", Code.Internal);
  return { integers: integersOf(found), flags: fields.flags ? answers.flatMap((answer) => answer[fields.flags!] as boolean[]) : [] };
}

/** An error about a part, whose path counts integers from the beginning of the part, as one about all integers. */
function moved(error: XlashapeError, field: string, by: number): XlashapeError {
  const found = new RegExp(`^${field}\\[(\\d+)\\]`).exec(error.field);
  const path = found && `${field}[${Number(found[1]) + by}]${error.field.slice(found[0].length)}`;
  return path ? new XlashapeError({ ...error, field: path, cause: error.cause }) : error;
}
