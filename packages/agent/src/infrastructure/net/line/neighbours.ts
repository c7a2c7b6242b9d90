// What the node has learned of others on its own networks: whose MAC address answers for an address, and behind which port
// of a bridge a MAC address is.
import type { Exec } from "@gpve/kit/exec.ts";

export interface Neighbour {
  readonly address: string;
  /** Lower case. */
  readonly mac: string;
  /** Somebody answered for it not long ago. */
  readonly isFresh: boolean;
}

/** Those that answered; not those that are just asked for. */
export async function neighboursOn(device: string, exec: Exec): Promise<Neighbour[]> {
  const { stdout } = await exec("ip", ["-j", "neigh", "show", "dev", device]);
  return parseNeighbours(stdout);
}

export function parseNeighbours(json: string): Neighbour[] {
  const rows = JSON.parse(json.trim() === "" ? "[]" : json) as readonly {
    readonly dst?: string;
    readonly lladdr?: string;
    readonly state?: readonly string[];
  }[];
  return rows.flatMap(({ dst, lladdr, state = [] }) =>
    dst === undefined || lladdr === undefined || state.includes("FAILED") || state.includes("INCOMPLETE")
      ? []
      : [{ address: dst, mac: lladdr.toLowerCase(), isFresh: !state.includes("STALE") }],
  );
}

/** Ports of a bridge that have sent with this MAC address last; one, but for VLANs. */
export async function portsOf(mac: string, bridge: string, exec: Exec): Promise<string[]> {
  const { stdout } = await exec("bridge", ["-j", "fdb", "show", "br", bridge]);
  return parseLearned(stdout, mac);
}

export function parseLearned(json: string, mac: string): string[] {
  const rows = JSON.parse(json.trim() === "" ? "[]" : json) as readonly {
    readonly mac?: string;
    readonly ifname?: string;
    readonly master?: string;
    readonly state?: string;
  }[];
  const ports = rows
    .filter((row) => row.mac?.toLowerCase() === mac && row.master !== undefined && row.state !== "permanent")
    .flatMap(({ ifname }) => ifname ?? []);
  return [...new Set(ports)];
}
