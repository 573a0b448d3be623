/**
 * Integers of 64 bits. What comes from the server is `bigint`, or a `BigInt64Array` where it is many; what is given to this package may be a number as
 * well, which then has to be a safe integer: between -(2^53 - 1) and 2^53 - 1.
 */

import { mistake } from "./errors.js";

/** An integer that is given to this package. */
export type Integer = number | bigint;

/** Integers that are given to this package: an array of numbers or bigints, a `BigInt64Array`, an `Int32Array`, a `Float64Array`, … */
export type Integers = ArrayLike<Integer>;

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** An integer as a bigint. The error names `field`. */
export function toInt64(value: Integer, field: string): bigint {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) {
      throw mistake("INVALID_ARGUMENT", field, `expected a safe integer, found ${value}; pass a bigint`);
    }
    return BigInt(value);
  }
  if (typeof value !== "bigint" || BigInt.asIntN(64, value) !== value) {
    throw mistake("INVALID_ARGUMENT", field, `expected an integer of 64 bits, found ${String(value)}`);
  }
  return value;
}

/** Integers in one array; the array itself if it is a `BigInt64Array` already. The error names the first wrong one: `indices[3]`. */
export function toInt64Array(values: Integers, field: string): BigInt64Array {
  return values instanceof BigInt64Array ? values : BigInt64Array.from(values, (value, i) => toInt64(value, `${field}[${i}]`));
}

/**
 * Numbers of bigints, such as those of an answer.
 *
 * Throws an {@link XlashapeError} with reason `SIZE_OVERFLOW` if one of them is not a safe integer.
 */
export function toNumbers(values: ArrayLike<bigint>): number[] {
  return Array.from(values, (value, i) => {
    const number = Number(value);
    if (!Number.isSafeInteger(number)) {
      throw mistake("SIZE_OVERFLOW", `[${i}]`, `${value} is not a safe integer`);
    }
    return number;
  });
}

/** The bytes of integers on the wire, each in eight bytes, the lowest first. They share the memory of `values` where its order is the same. */
export function bytesOf(values: BigInt64Array): Uint8Array {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return IS_LITTLE_ENDIAN ? bytes : swapped(bytes);
}

/** The integers of bytes on the wire, which begin at a multiple of eight. They may share the memory of `bytes`. */
export function integersOf(bytes: Uint8Array<ArrayBuffer>): BigInt64Array {
  return new BigInt64Array((IS_LITTLE_ENDIAN ? bytes : swapped(bytes)).buffer);
}

function swapped(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  for (let i = 0; i < copy.length; i += 8) {
    copy.subarray(i, i + 8).reverse();
  }
  return copy;
}
