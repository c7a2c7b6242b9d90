// A cluster's certificate authority is exchanged in two parts. First a new one is trusted beside the old one, and signs all that
// is made from then on; the API server still shows a certificate of the old one, so that kubeconfigs of before are good. When
// the old one is dropped, by command or when its time is over, they are not.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterOverlay } from "../overlay.ts";

export interface ClusterRotation {
  /** When the old one is dropped by itself; milliseconds since the epoch. */
  readonly until: number;
  /** Control plane and workers have what the new one signed. */
  readonly isWhole?: true;
}

export interface ClusterAuthorities {
  /** undefined = there is one alone. */
  rotation(name: string): ClusterRotation | undefined;
  /** Whom clients are to trust; PEM. */
  trust(name: string): string;
  /** Makes a new one, and keeps the old one beside it. What is signed follows when the cluster is started again. */
  begin(name: string, until: number): Promise<void>;
  settle(name: string): void;
  /** The old one is trusted no more from the next start on. */
  drop(name: string): void;
}

export const DEFAULT_GRACE_HOURS = 168;
const HOUR_MS = 3_600_000;

export function graceMs(hours: number = DEFAULT_GRACE_HOURS): number {
  return hours * HOUR_MS;
}

/** Throws where its authority cannot be exchanged by us, with the reason and a way. */
export function requireRotatable({
  name,
  overlay,
}: {
  readonly name: string;
  readonly overlay?: ClusterOverlay;
}): void {
  if (overlay === undefined) return;
  const what = overlay.nodes.some(({ slot }) => slot !== undefined)
    ? "has its control plane on several nodes"
    : "has workers on several nodes";
  throw new AppError(
    "feature.unsupported",
    `virtual cluster '${name}' ${what}, each of which signs for it: its authority can be exchanged while all of it is on one node. Its certificates are renewed as ever; for another authority make a new cluster`,
  );
}

/** Throws where it cannot be dropped now. */
export function requireDroppable(name: string, rotation: ClusterRotation | undefined): void {
  if (rotation === undefined)
    throw new AppError(
      "object.conflict",
      `virtual cluster '${name}' has one authority alone: there is none to drop; gpvectl vc rotate-ca ${name} makes a new one`,
    );
  if (rotation.isWhole !== true)
    throw new AppError(
      "object.conflict",
      `not all of virtual cluster '${name}' has what its new authority signed: gpvectl vc rotate-ca ${name} goes on with that; then the old one can be dropped`,
    );
}

/** Throws where a second one would be begun before the first has ended. */
export function requireNoRotation(name: string, rotation: ClusterRotation | undefined): void {
  if (rotation?.isWhole !== true) return;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' has a new authority already, and trusts the old one until ${new Date(rotation.until).toISOString()}: drop that first (gpvectl vc rotate-ca ${name} --drop-old --yes)`,
  );
}
