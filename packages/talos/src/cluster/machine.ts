// One machine of a cluster, with everything that is decided about it.
import type { Static } from "typebox";
import type { pool } from "./machine-schema.ts";

export type MachineSize = Static<typeof pool>["machine"];

export interface Machine {
  readonly name: string;
  /** What the machine calls itself; its name, unless the file says another. */
  readonly hostname: string;
  readonly role: "controlplane" | "worker";
  /** "cp" for control planes. */
  readonly pool: string;
  /** From 1 on, within its pool. */
  readonly number: number;
  readonly provider: string;
  /** The platform's node. */
  readonly host: string;
  readonly vmid: number;
  /** Without the network's length; the first is the one it is reached by. */
  readonly addresses: readonly string[];
  readonly mac: string;
  readonly uuid: string;
  readonly size: MachineSize;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
  readonly arch: string;
  /** Those of its pool beside the cluster's own. */
  readonly extensions: readonly string[];
  /** Of its role or pool, then its own. */
  readonly patchFiles: readonly string[];
}

/** Of a machine that the file no longer has, too: names tell it. */
export function roleOf(cluster: string, machine: string): Machine["role"] {
  const before = `${cluster}-cp-`;
  const isNumbered = machine.startsWith(before) && /^\d+$/.test(machine.slice(before.length));
  return isNumbered ? "controlplane" : "worker";
}

/** What an earlier run decided about a machine, and what stays. */
export interface Pinned {
  readonly provider: string;
  readonly host: string;
  readonly vmid: number;
  readonly addresses: readonly string[];
  /** Where it is not its name. */
  readonly hostname?: string;
}
