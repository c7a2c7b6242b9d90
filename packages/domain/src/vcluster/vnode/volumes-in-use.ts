import { AppError } from "@gpve/contracts/errors.ts";

/** Of a cluster that is to be deleted. What is in them goes with it, and cannot be had back: that has to be said. */
export function requireNoVolumes(name: string, count: number): void {
  if (count === 0) return;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' has ${count} persistent volume${count === 1 ? "" : "s"} in use, which would be lost with it: delete their claims first (kubectl get pvc --all-namespaces), back it up (gpvectl vc backup ${name}), or delete it with them (gpvectl vc delete ${name} --yes --volumes; ?force=1)`,
  );
}
