// The real confinement of image tools, for tests that run as root.
import { join, resolve } from "node:path";
import type { GuestBounds } from "@gpve/domain/guest/guest-processes.ts";
import { exec } from "@gpve/kit/exec.ts";
import { ToolCgroups } from "../infrastructure/cgroup/tool-cgroups.ts";
import { confinedTools } from "../infrastructure/image-tools/confined-tools.ts";
import type { ImageTools } from "../infrastructure/image-tools/image-tools.ts";
import { supervisorBinary } from "../infrastructure/supervisor/build.ts";

export const CAN_CONFINE = process.getuid?.() === 0;
/** Its cgroups go by it. */
export const TOOLS_INSTANCE = `tools${process.pid}`;

/** `folder`: one of the test's own. */
export function confinedImageTools(folder: string, bounds?: Required<GuestBounds>): ImageTools {
  const packages = resolve(import.meta.dirname, "../../..");
  const build = { sourceFolder: join(packages, "supervisor"), cacheFolder: join(packages, "../.cache") };
  let binary: Promise<string> | undefined;
  return confinedTools({
    exec,
    root: join(folder, "tool-root"),
    cgroups: new ToolCgroups(TOOLS_INSTANCE, bounds),
    supervisor: () => (binary ??= supervisorBinary(build)),
  });
}
