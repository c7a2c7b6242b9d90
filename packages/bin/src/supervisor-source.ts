// Where the guest supervisor comes from: built into the single executable, or from the sources beside this file.
import { join, resolve } from "node:path";
import { getAsset, isSea } from "node:sea";
import type { SupervisorSource } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";

export const SUPERVISOR_ASSET = "gpve-supervisor";

export function supervisorSource(data: DataDir): SupervisorSource {
  const main = process.argv[1] ?? "";
  if (!isSea())
    return {
      sourceFolder: resolve(main, "../../../supervisor"),
      sharedFolder: resolve(main, "../../../../.cache"),
    };
  const path = join(data.path, "agent", "gpve-supervisor");
  const content = Buffer.from(getAsset(SUPERVISOR_ASSET));
  // Written anew at every start, by a rename: a guest's own supervisor keeps running from the old file.
  writeFileAtomic(path, content, 0o755);
  return { binary: path };
}
