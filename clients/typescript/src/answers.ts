/** What methods make of answers: items that have to be as many as those of the request, and iterators over pages. */

import { Code, XlashapeError } from "./errors.js";

/** Checks that the server answered each item of a request. */
export function sameNumber<T>(answers: T[], expected: number): T[] {
  if (answers.length !== expected) {
    throw invalidAnswer(`the server answered ${answers.length} of ${expected} items`);
  }
  return answers;
}

/** The message that the server has to answer with. */
export function present<T>(value: T | undefined): T {
  if (value === undefined) {
    throw invalidAnswer("the server's answer lacks a message");
  }
  return value;
}

function invalidAnswer(rawMessage: string): XlashapeError {
  return new XlashapeError({ code: Code.Internal, reason: "INVALID_ANSWER", rawMessage });
}

/** An option as a field of a request, if it is given. */
export function given<Options, Name extends keyof Options>(options: Options | undefined, name: Name): Partial<Pick<Options, Name>> {
  return options?.[name] === undefined ? {} : ({ [name]: options[name] } as Partial<Pick<Options, Name>>);
}

/** The items of all pages. `fetchPage` gives the items of the page of a token, and the token of the next page, which is empty after the last one. */
export async function* pages<Item>(first: string | undefined, fetchPage: (pageToken: string) => Promise<[Item[], string]>): AsyncGenerator<Item> {
  let pageToken = first ?? "";
  do {
    const [items, next] = await fetchPage(pageToken);
    yield* items;
    pageToken = next;
  } while (pageToken !== "");
}
