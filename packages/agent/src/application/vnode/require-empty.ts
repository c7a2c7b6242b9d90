import { AppError } from "@gpve/contracts/errors.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";

/** A volume is a folder of its worker, and would go with it. */
export function requireEmpty(
  vnodes: Pick<VnodeHost, "volumes">,
  cluster: string,
  leaving: readonly KeptVnode[],
): void {
  for (const vnode of leaving) {
    const has = vnodes.volumes(cluster, vnode);
    if (has.length === 0) continue;
    const many = has.length === 1 ? "a persistent volume" : `${has.length} persistent volumes`;
    throw new AppError(
      "object.conflict",
      `${vnode.name} has ${many}, which would go with it: delete what claims it first (${has.slice(0, 3).join(", ")}; kubectl get pvc --all-namespaces)`,
    );
  }
}
