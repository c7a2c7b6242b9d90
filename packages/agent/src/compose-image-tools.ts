// Wires what works on images: confined where we are root.
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { ToolCgroups } from "./infrastructure/cgroup/tool-cgroups.ts";
import { confinedTools } from "./infrastructure/image-tools/confined-tools.ts";
import { plainTools, type ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { supervisorBinary } from "./infrastructure/supervisor/build.ts";

export function composeImageTools(settings: {
  readonly data: DataDir;
  readonly exec: Exec;
  readonly supervisor: { readonly sourceFolder: string } | { readonly binary: string };
}): ImageTools {
  const { data, exec, supervisor } = settings;
  if (process.getuid?.() !== 0) return plainTools(exec);
  let binary: Promise<string> | undefined;
  return confinedTools({
    exec,
    root: data.file("run", "tool-root"),
    cgroups: new ToolCgroups(data.instanceId),
    supervisor: () => {
      binary ??=
        "binary" in supervisor
          ? Promise.resolve(supervisor.binary)
          : supervisorBinary({ ...supervisor, cacheFolder: data.file("agent"), exec });
      return binary;
    },
  });
}
