import { existsSync, statSync } from "node:fs";
import type { FileFacts } from "@gpve/domain/guest/file-facts.ts";
import { isExecutable } from "../host/executable.ts";

export const hostFileFacts: FileFacts = {
  exists: existsSync,
  bytes: (path) => statSync(path, { throwIfNoEntry: false })?.size,
  isExecutable,
};
