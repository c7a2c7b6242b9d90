// Received bodies that an operation will still put into a storage.
import { isEnded } from "@gpve/kit/operation/states.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import { COPY_IMAGE, type CopyArgs, type UploadArgs } from "./receive-file.ts";

export function wantedUploads(
  operations: Iterable<Pick<OperationView, "type" | "state" | "args">>,
): ReadonlySet<string> {
  const wanted = new Set<string>();
  for (const { type, state, args } of operations) {
    if (type !== COPY_IMAGE || isEnded(state)) continue;
    const asked = args as UploadArgs | CopyArgs;
    if (asked.kind === "upload") wanted.add(asked.spooled);
  }
  return wanted;
}
