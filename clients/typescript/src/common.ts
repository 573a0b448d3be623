/** What Node and browsers have in common. */

export type { BulkIndices } from "./bulk.js";
export type { CallOptions } from "./calls.js";
export { Client } from "./client.js";
export { Code, type ErrorParts, XlashapeError } from "./errors.js";
export { EvaluableMap, type Evaluated } from "./evaluable-map.js";
export { LinearOrder } from "./gen/xlashape/v1/shape_service_pb.js";
export { Direction, TextStyle } from "./gen/xlashape/v1/types_pb.js";
export type { MapLike, ModuleLike, ShapeLike } from "./inputs.js";
export { type Integer, type Integers, toNumbers } from "./integers.js";
export { toJson } from "./json.js";
export { type ConnectOptions, type TlsOptions, type TransportName, VERSION } from "./options.js";
export type { ModuleSource, Uploaded, UploadOptions } from "./methods.js";
export { Reason } from "./reasons.js";
