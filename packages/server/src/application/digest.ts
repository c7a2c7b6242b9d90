// What was seen is what is changed, also where another changes it at the same time: clients send back the digest they read.
import { createHash } from "node:crypto";
import { refused } from "@gpve/domain/request/failures.ts";

export function digestOf(shown: unknown): string {
  return createHash("sha1").update(JSON.stringify(shown)).digest("hex");
}

/** PVE's text. An empty one asks for nothing, as there. */
export function requireDigestOf(shown: unknown, digest: string | undefined): void {
  if (digest === undefined || digest === "" || digest === digestOf(shown)) return;
  throw refused("detected modified configuration - file changed by other user? Try again.\n");
}
