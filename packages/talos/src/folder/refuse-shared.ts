// Two files with one set of secrets would be one cluster. A drill's scratch cluster is kept apart by its file.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterLock } from "./lock-file.ts";

/** `own` is the lock of the cluster `name`, `beside` are those of the others in its folder. */
export function refuseShared(
  name: string,
  own: ClusterLock,
  identity: string,
  beside: readonly ClusterLock[],
): void {
  const isDrill = (lock: ClusterLock): boolean =>
    lock.restoring !== undefined || lock.cluster.endsWith("-drill");
  const other = beside.find(
    (lock) => lock.identity === identity && lock.appliedAt !== null && !isDrill(lock),
  );
  if (other === undefined || isDrill({ ...own, cluster: name })) return;
  throw new AppError(
    "object.conflict",
    `${name} has the secrets of ${other.cluster}, which is there already`,
    {
      data: { finding: "secrets-shared", next: "Nothing was changed." },
    },
  );
}
