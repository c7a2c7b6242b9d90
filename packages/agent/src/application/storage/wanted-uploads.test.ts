import { expect, test } from "vitest";
import { wantedUploads } from "./wanted-uploads.ts";

test("an upload is wanted until the operation that reads it has ended; a copy has none", () => {
  const upload = (spooled: string) => ({ kind: "upload", volid: "local:iso/a.iso", spooled });
  const operations = [
    { type: "imgcopy", state: "running", args: upload("/u/1") },
    { type: "imgcopy", state: "queued", args: upload("/u/2") },
    { type: "imgcopy", state: "done", args: upload("/u/3") },
    { type: "imgcopy", state: "failed", args: upload("/u/4") },
    { type: "imgcopy", state: "running", args: { kind: "copy", source: "a", target: "b" } },
    { type: "qmcreate", state: "running", args: { spooled: "/u/5" } },
  ] as const;
  expect([...wantedUploads(operations)]).toEqual(["/u/1", "/u/2"]);
});
