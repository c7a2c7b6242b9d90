// What works on images on this node: confined as far as we may.
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { ToolCgroups } from "../cgroup/tool-cgroups.ts";
import { hasUserNamespaces } from "../guest-process/confinement.ts";
import { supervisorOf, type SupervisorSource } from "../supervisor/build.ts";
import { confinedTools } from "./confined-tools.ts";
import { plainTools, type ImageTools } from "./image-tools.ts";

export function ownImageTools(settings: {
  readonly data: Pick<DataDir, "file" | "instanceId">;
  readonly exec: Exec;
  readonly supervisor: SupervisorSource;
  readonly isRoot?: boolean;
}): ImageTools {
  const { data, exec, isRoot = process.getuid?.() === 0 } = settings;
  let binary: Promise<string> | undefined;
  const confined = confinedTools({
    exec,
    root: data.file("run", "tool-root"),
    cgroups: isRoot ? new ToolCgroups(data.instanceId) : undefined,
    supervisor: () => (binary ??= supervisorOf(settings.supervisor, { data, exec })),
  });
  if (isRoot) return confined;
  let mayConfine: Promise<boolean> | undefined;
  return async (...work) => {
    const tools = (await (mayConfine ??= hasUserNamespaces(exec))) ? confined : plainTools(exec);
    return tools(...work);
  };
}
