// Where tenants come in: one address for each cluster, served by a process that outlives the agent. Workers have an address
// of their own behind it, which wakes nobody.
import type { ElsewhereRoute } from "./cluster-places.ts";

/** open: connections go through. hold: they wait, and somebody is told. closed: they are refused. */
export type FrontMode = "open" | "hold" | "closed";

export interface FrontRoute {
  readonly name: string;
  readonly port: number;
  /** Names by which clients ask for it at the port that all clusters share (SNI). */
  readonly serverNames: readonly string[];
  readonly target: { readonly host: string; readonly port: number };
  readonly mode: FrontMode;
}

export interface FrontActivity {
  /** When bytes of a tenant last went through, in either direction; milliseconds since the epoch, 0 = never. */
  readonly lastAt: number;
  readonly connections: number;
  /** Of those that wait for it to wake. */
  readonly held: number;
  /** Why nobody can connect. */
  readonly trouble?: string;
}

export interface ClusterFront {
  /** Where clients of that port connect. */
  url(port: number): string;
  /** All of them at once; resolves when it is so. Where there are none, the process ends. `elsewhere`: the ways to clusters of
   * other nodes; undefined = as it was told last. */
  show(routes: readonly FrontRoute[], elsewhere: readonly ElsewhereRoute[] | undefined): Promise<void>;
  activity(name: string): FrontActivity;
  /** Ends the connections that wait for a cluster that does not wake. */
  refuse(name: string): void;
  /** Called when somebody connects to a cluster that is held. */
  onWake(listener: (name: string) => void): void;
  close(): void;
}

const SUFFIX = ".vc.gpve";

/** By which a cluster is asked for at a port that several share. */
export function serverName(name: string, tenant: string): string {
  return `${name}.${tenant.toLowerCase().replaceAll("/", ".")}${SUFFIX}`;
}

/** Whether it can be that of a cluster. */
export function isServerName(text: string): boolean {
  return text.endsWith(SUFFIX);
}
