/** Answers as JSON. */

import { type JsonValue, type Message, toJson as messageToJson } from "@bufbuild/protobuf";

import { check } from "./errors.js";
import { registry } from "./registry.js";

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
  const expected = `expected a message of xlashape.v1, found ${message.$typeName}`;
  check(schema !== undefined, "INVALID_ARGUMENT", "message", expected);
  return messageToJson(schema, message, { registry });
}
