/** What methods check of answers. */

import { Code, mistake } from "./errors.js";

/** Checks that the server answered each item of a request. */
export function sameNumber<T>(answers: T[], expected: number): T[] {
  if (answers.length !== expected) {
    throw mistake("INVALID_ANSWER", "", `the server answered ${answers.length} of ${expected} items`, Code.Internal);
  }
  return answers;
}

/** The message that the server has to answer with. */
export function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw mistake("INVALID_ANSWER", "", "the server's answer lacks a message", Code.Internal);
  }
  return value;
}
