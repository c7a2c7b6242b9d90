// What a cluster's administrators cannot change, as files that its API server reads and nobody in the cluster can write: its
// guard, and what belongs to the platform.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ControlPlanePlace } from "@gpve/domain/vcluster/control-plane.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { authorizationConfig, DEAD_END, hasPlatformRights } from "@gpve/domain/vcluster/platform-rights.ts";
import { admissionConfig, guardKind, guardManifests } from "@gpve/domain/vcluster/vnode/guard.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

type Guarded = Pick<KeptCluster, "version"> & { readonly spec: Pick<KeptCluster["spec"], "privileged"> };

/** Absent is what this version of Kubernetes does not read from files, and a guard where an administrator wants none. */
export function guardFiles(
  place: string,
  { version, spec }: Guarded,
): Pick<ControlPlanePlace, "guard" | "rights"> {
  const at = (name: string): string => join(place, "guard", name);
  return {
    ...(guardKind(version) === "files" && spec.privileged !== true
      ? { guard: { config: at("admission.json"), rules: at("rules") } }
      : {}),
    ...(hasPlatformRights(version)
      ? { rights: { config: at("authorization.json"), deadEnd: at("dead-end.json") } }
      : {}),
  };
}

export interface GuardMore {
  /** Replicas of the version before may serve beside it. */
  readonly amongOthers?: boolean;
  /** Ids of kubeconfigs that were taken back. */
  readonly revoked?: readonly string[];
}

export function writeGuard(
  place: string,
  cluster: Guarded,
  { amongOthers = false, revoked = [] }: GuardMore = {},
): void {
  const { guard, rights } = guardFiles(place, cluster);
  // The API server's own user reads them, and it is none of the owners.
  const write = (path: string, text: string): void => {
    if (readTextFile(path) !== text) writeFileAtomic(path, text, 0o644);
  };
  if (guard === undefined)
    for (const name of ["rules", "admission.json"])
      rmSync(join(place, "guard", name), { recursive: true, force: true });
  mkdirSync(join(place, "guard"), { recursive: true, mode: 0o755 });
  if (rights !== undefined) {
    write(rights.deadEnd, DEAD_END);
    // A guard of objects stays everybody's as long as somebody may stand under it.
    const kind = amongOthers ? "objects" : guardKind(cluster.version);
    rewrite(rights.config, authorizationConfig(rights.deadEnd, kind, revoked));
  }
  if (guard === undefined) return;
  mkdirSync(guard.rules, { recursive: true, mode: 0o755 });
  for (const [at, manifest] of guardManifests("files").entries())
    write(join(guard.rules, `${at}.json`), JSON.stringify(manifest));
  write(guard.config, admissionConfig(guard.rules));
}

/** In the very file that an API server which runs has before it: it reads it again when it changes, at the latest a minute
 * later. Half of it, after a crash, it does not take, and the next start writes it whole. */
function rewrite(path: string, text: string): void {
  const before = readTextFile(path);
  if (before === undefined) writeFileAtomic(path, text, 0o644);
  else if (before !== text) writeFileSync(path, text);
}
