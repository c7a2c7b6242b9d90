// How far guests can be held here, in the words that the node's status shows.
import type { Confinement } from "@gpve/domain/guest/guest-processes.ts";
import type { Capability } from "@gpve/domain/node/runtime.ts";
import type { Exec } from "@gpve/kit/exec.ts";

export function confinementOf(isRoot: boolean, userNamespaces: boolean): Confinement {
  if (isRoot)
    return {
      level: "full",
      detail: "each guest has its own uid, cgroup, mounts, empty network and seccomp filter",
    };
  if (userNamespaces)
    return {
      level: "partial",
      detail:
        "not root: each guest has its own mounts, empty network and seccomp filter, but runs as this user and without limits of its own. Run the agent as root to confine guests fully",
    };
  return {
    level: "none",
    detail:
      "not root, and this kernel lets users make no namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor): guests run as this user with a seccomp filter and nothing else. Run the agent as root to confine them",
  };
}

/** Tried, since kernels, sysctls and security modules all have a say. */
export async function hasUserNamespaces(exec: Exec): Promise<boolean> {
  try {
    await exec("unshare", ["--user", "--mount", "--net", "true"], { timeoutMs: 10_000 });
    return true;
  } catch {
    return false;
  }
}

/** Root confines without them. */
export async function needsUserNamespaces(exec: Exec): Promise<boolean> {
  return process.getuid?.() !== 0 && (await hasUserNamespaces(exec));
}

/** For the node's list of what it can do. */
export async function confinementCapability(exec: Exec): Promise<Capability> {
  const isRoot = process.getuid?.() === 0;
  const { level, detail } = confinementOf(isRoot, !isRoot && (await hasUserNamespaces(exec)));
  const said = { name: "confinement", detail: `${level}: ${detail}` };
  return level === "full"
    ? { ...said, available: true }
    : { ...said, available: false, fix: "run the agent as root" };
}
