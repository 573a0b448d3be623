/** The maps of all instructions of a module over a transport without streams: the instructions in pages, and a call for the maps of each. */

import { create } from "@bufbuild/protobuf";

import { type CallOptions } from "./calls.js";
import { Code, errorOf, type XlashapeError } from "./errors.js";
import type { Instruction } from "./gen/xlashape/v1/hlo_service_pb.js";
import { type IndexingMapsRequest, type IndexingMapsResponse, IndexingMapsResponseSchema } from "./gen/xlashape/v1/indexing_service_pb.js";
import { Direction } from "./gen/xlashape/v1/types_pb.js";
import type { About } from "./inputs.js";
import type { ClientMethods } from "./methods.js";

/** How many calls are on their way at once. */
const AT_ONCE = 4;

/** The codes of errors about one instruction. Others, such as that of a server that is gone, end the question about all. */
const ABOUT_ONE: readonly Code[] = [Code.InvalidArgument, Code.Unimplemented, Code.ResourceExhausted];
const ENDS_ALL: readonly (string | undefined)[] = ["worker_memory", "call_seconds"];

/** What `IndexingMaps` answers, of calls with one answer each. */
export async function* mapsOfEach(
  client: ClientMethods, request: About<IndexingMapsRequest>, options: CallOptions | undefined,
): AsyncGenerator<IndexingMapsResponse> {
  const { reportErrors, ...asked } = request;
  const end = options?.timeoutMs ? Date.now() + options.timeoutMs : undefined;
  const left = () => (end === undefined ? options : { ...options, timeoutMs: Math.max(end - Date.now(), 1) });
  const one = async (instruction: string, computation: string | undefined) => {
    const { $typeName: _, ...answer } = await client.instructionMaps({ ...asked, instruction, ...(computation && { computation }) }, left());
    return create(IndexingMapsResponseSchema, answer);
  };
  if (asked.instruction) {
    yield await one(asked.instruction, asked.computation);
    return;
  }
  const oneOfMany = async ({ name, computation, opcode }: Instruction): Promise<IndexingMapsResponse[]> => {
    try {
      return [await one(name, computation)];
    } catch (cause) {
      const error = errorOf(cause);
      if (error.field === "index" && (asked.index ?? -1) >= 0) {
        return []; // the instruction has no such output or operand
      }
      if (!reportErrors || !ABOUT_ONE.includes(error.code) || ENDS_ALL.includes(error.details["limit"])) {
        throw error;
      }
      const direction = asked.direction || Direction.OUTPUT_TO_INPUT;
      return [create(IndexingMapsResponseSchema, { instruction: name, computation, opcode, direction, error: told(error) })];
    }
  };
  const isLacking = ({ shape, operands }: Instruction) =>
    (asked.index ?? -1) >= (asked.direction === Direction.INPUT_TO_OUTPUT ? operands.length : shape.startsWith("(") ? Infinity : 1);
  let waiting: Instruction[] = [];
  const listed = client.listInstructions({ module: asked.module, ...(asked.computation && { computation: asked.computation }) }, left());
  for await (const instruction of listed) {
    if (!isLacking(instruction)) {
      waiting.push(instruction);
    }
    if (waiting.length === AT_ONCE) {
      yield* (await Promise.all(waiting.map(oneOfMany))).flat();
      waiting = [];
    }
  }
  yield* (await Promise.all(waiting.map(oneOfMany))).flat();
}

function told({ reason, rawMessage, field, line, column, details }: XlashapeError) {
  const place = { ...(field && { field }), ...(line && { line: String(line), column: String(column) }) };
  return { reason, message: rawMessage, details: { ...details, ...place } };
}
