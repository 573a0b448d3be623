/** Answers as JSON. */

import { createRegistry, type JsonValue, type Message, toJson as messageToJson } from "@bufbuild/protobuf";

import { mistake } from "./errors.js";
import { file_xlashape_v1_hlo_service } from "./gen/xlashape/v1/hlo_service_pb.js";
import { file_xlashape_v1_indexing_service } from "./gen/xlashape/v1/indexing_service_pb.js";
import { file_xlashape_v1_report_service } from "./gen/xlashape/v1/report_service_pb.js";
import { file_xlashape_v1_shape_service } from "./gen/xlashape/v1/shape_service_pb.js";
import { file_xlashape_v1_types } from "./gen/xlashape/v1/types_pb.js";
import { file_xlashape_v1_view_service } from "./gen/xlashape/v1/view_service_pb.js";

const registry = /* @__PURE__ */ createRegistry(
  file_xlashape_v1_types, file_xlashape_v1_shape_service, file_xlashape_v1_hlo_service, file_xlashape_v1_indexing_service,
  file_xlashape_v1_report_service, file_xlashape_v1_view_service,
);

/**
 * A message of an answer as a JSON value, by protobuf's rules: integers of 64 bits are texts, bytes base64. `JSON.stringify` refuses messages, since they
 * hold bigints.
 *
 * ```ts
 * toJson(await client.byteSize("f32[2,3]")); // { byteSize: "24", elementCount: "6", logicalBytes: "24", … }
 * ```
 */
export function toJson(message: Message): JsonValue {
  const schema = registry.getMessage(message.$typeName);
  if (!schema) {
    throw mistake("INVALID_ARGUMENT", "message", `expected a message of xlashape.v1, found ${message.$typeName}`);
  }
  return messageToJson(schema, message, { registry });
}
