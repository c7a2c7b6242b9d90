// Wires what works on images: confined as far as we may.
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { ToolCgroups } from "./infrastructure/cgroup/tool-cgroups.ts";
import { hasUserNamespaces } from "./infrastructure/guest-process/confinement.ts";
import { confinedTools } from "./infrastructure/image-tools/confined-tools.ts";
import { plainTools, type ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { supervisorBinary, type SupervisorSource } from "./infrastructure/supervisor/build.ts";

export function composeImageTools(settings: {
  readonly data: DataDir;
  readonly exec: Exec;
  readonly supervisor: SupervisorSource;
}): ImageTools {
  const { data, exec, supervisor } = settings;
  const isRoot = process.getuid?.() === 0;
  let binary: Promise<string> | undefined;
  const confined = confinedTools({
    exec,
    root: data.file("run", "tool-root"),
    cgroups: isRoot ? new ToolCgroups(data.instanceId) : undefined,
    supervisor: () => {
      binary ??=
        "binary" in supervisor
          ? Promise.resolve(supervisor.binary)
          : supervisorBinary({ ...supervisor, cacheFolder: data.file("agent"), exec });
      return binary;
    },
  });
  if (isRoot) return confined;
  let mayConfine: Promise<boolean> | undefined;
  return async (...work) => {
    const tools = (await (mayConfine ??= hasUserNamespaces(exec))) ? confined : plainTools(exec);
    return tools(...work);
  };
}
