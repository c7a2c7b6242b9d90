// The real confinement of image tools, for tests.
import { join, resolve } from "node:path";
import type { GuestBounds } from "@gpve/domain/guest/guest-processes.ts";
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { ToolCgroups } from "../infrastructure/cgroup/tool-cgroups.ts";
import { confinedTools } from "../infrastructure/image-tools/confined-tools.ts";
import type { ImageTools } from "../infrastructure/image-tools/image-tools.ts";
import { supervisorBinary } from "../infrastructure/supervisor/build.ts";

export const CAN_CONFINE = process.getuid?.() === 0;
/** Its cgroups go by it. */
export const TOOLS_INSTANCE = `tools${process.pid}`;

export interface ConfinedToolsOptions {
  readonly bounds?: Required<Omit<GuestBounds, "cpus">>;
  /** As root confines, or as an ordinary user does. */
  readonly as?: "root" | "user";
  readonly exec?: Exec;
}

/** `folder`: one of the test's own. */
export function confinedImageTools(folder: string, options: ConfinedToolsOptions = {}): ImageTools {
  const packages = resolve(import.meta.dirname, "../../..");
  const build = { sourceFolder: join(packages, "supervisor"), cacheFolder: join(packages, "../.cache") };
  let binary: Promise<string> | undefined;
  return confinedTools({
    exec: options.exec ?? exec,
    root: join(folder, "tool-root"),
    cgroups: options.as === "user" ? undefined : new ToolCgroups(TOOLS_INSTANCE, options.bounds),
    supervisor: () => (binary ??= supervisorBinary(build)),
  });
}
