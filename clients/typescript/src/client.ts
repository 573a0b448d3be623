/** A client of one server, or of several that hold the same modules. */

import type { DescMessage, DescMethodServerStreaming, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type Client as Generated, createClient, type Transport } from "@connectrpc/connect";

import { askInParts, askOnce, type BulkQuestion, type BulkRoute, MESSAGE_INTEGERS, SMALL_MESSAGE_INTEGERS } from "./bulk.js";
import type { CallOptions } from "./calls.js";
import { Code, XlashapeError } from "./errors.js";
import { type ByteSizesRequest, HloService, type Instruction, type InstructionSize, type ListInstructionsRequest, type Module } from "./gen/xlashape/v1/hlo_service_pb.js";
import {
  IndexingService, type IndexingMapsRequest, type IndexingMapsResponse, type InstructionMapsRequest, type InstructionMapsResponse,
  type OperandReadsRequest, type OperandReadsResponse, type OperandTilesRequest, type OperandTilesResponse,
} from "./gen/xlashape/v1/indexing_service_pb.js";
import { type LinearOrder, type ShapeDescription, ShapeService, type ShapeSize } from "./gen/xlashape/v1/shape_service_pb.js";
import type { MapInput, MapOutput } from "./gen/xlashape/v1/types_pb.js";
import { type Evaluated, IndexingMap } from "./indexing-map.js";
import { type MapLike, mapInput, type ModuleLike, moduleInput, type ShapeLike, shapeInput } from "./inputs.js";
import { type Integer, type Integers, toInt64, toInt64Array } from "./integers.js";
import { evaluateMap, linearIndices, multiIndices } from "./packed.js";

/** The bytes of a part of a module that is sent in several messages. */
const PART_BYTES = 1 << 20;

/** A request about a module, with the module in any form, and without the fields that have their default. */
type About<Request> = { module: ModuleLike } & Partial<Omit<Request, "module" | "$typeName" | "$unknown">>;

/** A module on the server. */
export interface Uploaded {
  module: Module;
  /** Whether the content was sent. It is not if the server has the module already. */
  sent: boolean;
}

/** The indices of the elements at many positions. */
export interface BulkIndices {
  /** The indices one after another, each with one number for every dimension. The numbers of padding are -1. */
  indices: BigInt64Array;
  /** For each position whether it holds an element. If not, it is padding. */
  isElement: boolean[];
}

/**
 * Asks one server, or several that hold the same modules; `connect` makes it. It may be used for many calls at once.
 *
 * All methods that ask the server take {@link CallOptions} last, and reject with an {@link XlashapeError}.
 */
export class Client {
  /** The generated clients, for calls that the methods of this class do not cover. To end a stream of theirs early takes a signal. */
  readonly shapes: Generated<typeof ShapeService>;
  readonly modules: Generated<typeof HloService>;
  readonly indexing: Generated<typeof IndexingService>;

  /** Use `connect`. @internal */
  constructor(
    /** The transport of all calls, for generated clients of other services such as `grpc.health.v1.Health`. */
    readonly transport: Transport,
    private readonly hasRequestStreams: boolean,
    private readonly disconnect: () => void,
  ) {
    this.shapes = createClient(ShapeService, transport);
    this.modules = createClient(HloService, transport);
    this.indexing = createClient(IndexingService, transport);
  }

  /** Ends the connections, and all calls. */
  close(): void {
    this.disconnect();
  }

  /** Describes a shape: its canonical text, sizes, layout, and why its buffer is larger than its elements. */
  async describeShape(shape: ShapeLike, options?: CallOptions): Promise<ShapeDescription> {
    return (await this.describeShapes([shape], options))[0]!;
  }

  /** Describes each shape, in one call. */
  async describeShapes(shapes: readonly ShapeLike[], options?: CallOptions): Promise<ShapeDescription[]> {
    const { descriptions } = await this.shapes.describeShape({ shapes: shapes.map(shapeInput) }, options);
    return sameNumber(descriptions, shapes.length);
  }

  /** The sizes of a shape in elements and bytes. */
  async byteSize(shape: ShapeLike, options?: CallOptions): Promise<ShapeSize> {
    return (await this.byteSizes([shape], options))[0]!;
  }

  /** The sizes of each shape, in one call. */
  async byteSizes(shapes: readonly ShapeLike[], options?: CallOptions): Promise<ShapeSize[]> {
    const { sizes } = await this.shapes.byteSize({ shapes: shapes.map(shapeInput) }, options);
    return sameNumber(sizes, shapes.length);
  }

  /** The position in the buffer, in elements, of the element at an index: one number for every dimension. */
  async linearIndex(shape: ShapeLike, index: Integers, options?: CallOptions & { order?: LinearOrder }): Promise<bigint> {
    const indices = Array.from(index, (value, i) => toInt64(value, `indices[${i}]`));
    const { positions } = await this.shapes.linearIndex({ shape: shapeInput(shape), indices, count: 1n, ...orderOf(options) }, options);
    return sameNumber(positions, 1)[0]!;
  }

  /**
   * The positions of the elements at any number of indices, which stand one after another, each with one number for every dimension. Many are sent as a
   * stream, or in several calls. It is not for scalars, whose indices have no numbers.
   */
  async linearIndices(shape: ShapeLike, indices: Integers, options?: CallOptions & { order?: LinearOrder }): Promise<BigInt64Array> {
    const bulk: BulkQuestion = {
      question: linearIndices(), first: { shape: shapeInput(shape), ...orderOf(options) }, fields: { request: "indices", answer: "positions" },
      integers: toInt64Array(indices, "indices"), width: 1, most: MESSAGE_INTEGERS,
    };
    if (indices.length <= MESSAGE_INTEGERS) {
      return (await askOnce(this.route(options), bulk)).integers;
    }
    bulk.width = Number((await this.describeShape(shape, options)).rank ?? 1n);
    return (await askInParts(this.route(options), bulk)).integers;
  }

  /** The index of the element at a position of the buffer; undefined if the position is padding. */
  async multiIndex(shape: ShapeLike, position: Integer, options?: CallOptions & { order?: LinearOrder }): Promise<bigint[] | undefined> {
    const positions = [toInt64(position, "positions[0]")];
    const { indices, isElement } = await this.shapes.multiIndex({ shape: shapeInput(shape), positions, ...orderOf(options) }, options);
    return sameNumber(isElement, 1)[0] ? indices : undefined;
  }

  /** The indices of the elements at any number of positions. Many are sent as a stream, or in several calls. */
  async multiIndices(shape: ShapeLike, positions: Integers, options?: CallOptions & { order?: LinearOrder }): Promise<BulkIndices> {
    const bulk: BulkQuestion = {
      question: multiIndices(), first: { shape: shapeInput(shape), ...orderOf(options) },
      fields: { request: "positions", answer: "indices", flags: "isElement" },
      integers: toInt64Array(positions, "positions"), width: 1, most: MESSAGE_INTEGERS,
    };
    let answer = positions.length <= SMALL_MESSAGE_INTEGERS ? await askOnce(this.route(options), bulk) : undefined;
    if (!answer) {
      const { rank = 1n } = await this.describeShape(shape, options);
      answer = await askInParts(this.route(options), { ...bulk, most: Math.floor(MESSAGE_INTEGERS / (Number(rank) + 1)) });
    }
    return { indices: answer.integers, isElement: sameNumber(answer.flags, positions.length) };
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

  /** Describes a stored module, by its name: `modules/{sha256}`. The code of the error is `Code.NotFound` if the server does not have it, or no longer. */
  async getModule(name: string, options?: CallOptions): Promise<Module> {
    return present((await this.modules.getModule({ name }, options)).module);
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
  async moduleContent(name: string, options?: CallOptions): Promise<Uint8Array> {
    const all: Uint8Array[] = [];
    for await (const part of this.moduleParts(name, options)) {
      all.push(part);
    }
    return new Uint8Array(await new Blob(all as BlobPart[]).arrayBuffer());
  }

  /** Removes a stored module. */
  async deleteModule(name: string, options?: CallOptions): Promise<void> {
    await this.modules.deleteModule({ name }, options);
  }

  /** The instructions of a module, which are fetched by pages as they are needed. */
  listInstructions(request: About<ListInstructionsRequest>, options?: CallOptions): AsyncGenerator<Instruction> {
    const module = moduleInput(request.module);
    return pages(request.pageToken, (pageToken) => this.modules.listInstructions({ ...request, module, pageToken }, options));
  }

  /** The bytes that the results of a module's instructions take, which are fetched by pages as they are needed. */
  instructionSizes(request: About<ByteSizesRequest>, options?: CallOptions): AsyncGenerator<InstructionSize> {
    const module = moduleInput(request.module);
    return pages(request.pageToken, (pageToken) => this.modules.byteSizes({ ...request, module, pageToken }, options));
  }

  /** The maps of a module's instructions, or of one. Leaving the loop ends the call. */
  indexingMaps(request: About<IndexingMapsRequest>, options?: CallOptions): AsyncGenerator<IndexingMapsResponse> {
    return this.answers(IndexingService.method.indexingMaps, { ...request, module: moduleInput(request.module) }, options);
  }

  /** The maps of one instruction. */
  async instructionMaps(request: About<InstructionMapsRequest>, options?: CallOptions): Promise<InstructionMapsResponse> {
    return await this.indexing.instructionMaps({ ...request, module: moduleInput(request.module) }, options);
  }

  /** How efficiently a module's instructions, or one, read their operands. Leaving the loop ends the call. */
  operandReads(request: About<OperandReadsRequest>, options?: CallOptions): AsyncGenerator<OperandReadsResponse> {
    return this.answers(IndexingService.method.operandReads, { ...request, module: moduleInput(request.module) }, options);
  }

  /** The tile of each operand that a tile of an instruction's output reads. */
  async operandTiles(request: About<OperandTilesRequest>, options?: CallOptions): Promise<OperandTilesResponse> {
    return await this.indexing.operandTiles({ ...request, module: moduleInput(request.module) }, options);
  }

  /** Simplifies a map. */
  async simplifyMap(map: MapLike, options?: CallOptions): Promise<MapOutput> {
    const { maps } = await this.indexing.simplifyMap({ maps: [mapInput(map)] }, options);
    return present(sameNumber(maps, 1)[0]!.map);
  }

  /** The composition of two or more maps, the first of which is applied first. */
  async composeMaps(chain: readonly MapLike[], options?: CallOptions): Promise<MapOutput> {
    const { maps } = await this.indexing.composeMaps({ chains: [{ maps: chain.map(mapInput) }] }, options);
    return sameNumber(maps, 1)[0]!;
  }

  /**
   * Lets the server evaluate a map at any number of points, which stand one after another, each with one number for every variable. Many are sent as a
   * stream, or in several calls. {@link IndexingMap} does the same without the server, and also for a map without variables, whose points have no numbers.
   */
  async evaluateMap(map: MapLike, points: Integers, options?: CallOptions): Promise<Evaluated<BigInt64Array>> {
    const input = mapInput(map);
    const bulk: BulkQuestion = {
      question: evaluateMap(), first: { map: input }, fields: { request: "points", answer: "results", flags: "inDomain" },
      integers: toInt64Array(points, "points"), width: 1, most: MESSAGE_INTEGERS,
    };
    if (points.length <= SMALL_MESSAGE_INTEGERS) {
      const { integers, flags } = await askOnce(this.route(options), bulk);
      return { results: integers, inDomain: flags };
    }
    const { variableCount, resultCount } = mapOf(input);
    const most = Math.floor(MESSAGE_INTEGERS / Math.max(resultCount, variableCount, 1)) * Math.max(variableCount, 1);
    const { integers, flags } = await askInParts(this.route(options), { ...bulk, width: variableCount, most });
    return { results: integers, inDomain: flags };
  }

  /** The generated clients do not end a call whose loop is left. */
  private async *answers<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>, request: MessageInitShape<I>, options: CallOptions | undefined,
  ): AsyncGenerator<MessageShape<O>> {
    const requests = (async function* () {
      yield request;
    })();
    yield* (await this.transport.stream(method, options?.signal, options?.timeoutMs, undefined, requests)).message;
  }

  private route(options: CallOptions | undefined): BulkRoute {
    return { transport: this.transport, hasRequestStreams: this.hasRequestStreams, signal: options?.signal, timeoutMs: options?.timeoutMs };
  }
}

function orderOf(options: { order?: LinearOrder } | undefined): { order?: LinearOrder } {
  return options?.order === undefined ? {} : { order: options.order };
}

function mapOf({ form }: MapInput): IndexingMap {
  return form.case === "map" ? new IndexingMap(form.value) : IndexingMap.parse(form.value ?? "");
}

async function* pages<Page extends { nextPageToken: string; instructions: Item[] }, Item = Page["instructions"][number]>(
  first: string | undefined, fetchPage: (pageToken: string) => Promise<Page>,
): AsyncGenerator<Page["instructions"][number]> {
  let pageToken = first ?? "";
  do {
    const page = await fetchPage(pageToken);
    yield* page.instructions;
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
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

/** Checks that the server answered each item of a request. */
function sameNumber<T>(answers: T[], expected: number): T[] {
  if (answers.length !== expected) {
    throw invalidAnswer(`the server answered ${answers.length} of ${expected} items`);
  }
  return answers;
}

function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw invalidAnswer("the server's answer lacks a message");
  }
  return value;
}

function invalidAnswer(rawMessage: string): XlashapeError {
  return new XlashapeError({ code: Code.Internal, reason: "INVALID_ANSWER", rawMessage });
}
