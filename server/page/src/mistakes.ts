/** Mistakes in sentences for people. */

import { Code, XlashapeError } from "@xlashape/client/browser";

export function isModuleGone(error: XlashapeError): boolean {
  return error.code === Code.NotFound && (error.details["kind"] === "module" || error.details["name"]?.startsWith("modules/") === true);
}

/** What went wrong, in sentences for people. */
export function told(error: unknown): string {
  if (!(error instanceof XlashapeError)) {
    return error instanceof Error ? error.message : String(error);
  }
  switch (error.code) {
    case Code.Unavailable:
      return "The server does not answer. Nothing is lost: try again when it is back.";
    case Code.DeadlineExceeded:
      return "The server took too long. Nothing is lost: try again, or ask about less.";
    case Code.Unauthenticated:
      return "The server wants a token. The address that `xlashape open` prints has it.";
    case Code.NotFound:
      return isModuleGone(error) ? "The server no longer has this module, which it keeps for a while: open the file again." : error.rawMessage;
    default:
      return error.rawMessage || error.message;
  }
}
