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
  /** Members of its etcd show what its new authority signed from the next start on; all trust both. */
  turn(name: string): void;
  /** The old one is trusted no more from the next start on. */
  drop(name: string): void;
}

export const DEFAULT_GRACE_HOURS = 168;
const HOUR_MS = 3_600_000;

export function graceMs(hours: number = DEFAULT_GRACE_HOURS): number {
  return hours * HOUR_MS;
}

/** What a server has a node of a cluster on several do, one after the other. */
export type RotationPart =
  | "begin"
  | "control plane"
  | "workers"
  | "pods"
  | "settle"
  | "turn"
  | "forget"
  | "leavings";

/** Throws where its node cannot exchange its authority alone: others sign for it too. */
export function requireRotatable({
  name,
  overlay,
}: {
  readonly name: string;
  readonly overlay?: ClusterOverlay;
}): void {
  if (overlay === undefined) return;
  throw new AppError(
    "feature.unsupported",
    `virtual cluster '${name}' is on several nodes, each of which signs for it: a server leads the exchange of its authority`,
  );
}

/** When the one before is to be dropped by itself, where it can be. */
export function formerTrustedUntil(rotation: ClusterRotation | undefined): number | undefined {
  return rotation?.isWhole === true ? rotation.until : undefined;
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
