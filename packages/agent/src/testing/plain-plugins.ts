// Plugins and tools with nothing around them: no confinement, no guards, no secrets.
import { exec, type Exec } from "@gpve/kit/exec.ts";
import { plainTools } from "../infrastructure/image-tools/image-tools.ts";
import type { PluginDeps } from "../infrastructure/storage/storage-plugins.ts";

export const plainPlugins = (by: Exec = exec): PluginDeps => ({
  exec: by,
  tools: plainTools(by),
  backupTime: () => undefined,
  guard: async () => undefined,
  secretOf: async () => undefined,
  secretFolder: "/run/none",
});
