// What may be asked of a move in PVE and has no effect here: its task says so, for nothing is to look as if it had been
// followed.
import { given } from "@gpve/contracts/given.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";

export interface MoveWishes {
  readonly type?: string;
  readonly network?: string;
  readonly withConnections?: true;
}

/** Of the request; undefined = none. */
export function moveWishes(
  params: PveParams["POST /nodes/{node}/qemu/{vmid}/migrate"],
): MoveWishes | undefined {
  const { migration_type: type, migration_network: network } = params;
  const withConnections = params["with-conntrack-state"] === true ? (true as const) : undefined;
  const wishes = given({ type, network, withConnections });
  return Object.keys(wishes).length === 0 ? undefined : wishes;
}

/** A line for each that is not followed. `datacenter`: its option `migration`, which is asked for where nothing else is. */
export function unheeded(wishes: MoveWishes = {}, datacenter = ""): readonly string[] {
  const ofAll = /(?:^|,)(?:type=)?(secure|insecure)(?:,|$)/.exec(datacenter)?.[1];
  const network = wishes.network ?? /(?:^|,)network=([^,]+)/.exec(datacenter)?.[1];
  const lines: string[] = [];
  if ((wishes.type ?? ofAll) === "insecure")
    lines.push("migration type 'insecure' has no effect: whatever goes between nodes is encrypted");
  if (network !== undefined)
    lines.push(
      `migration network '${network}' has no effect: nodes reach each other at the address by which they are known`,
    );
  if (wishes.withConnections === true)
    lines.push("with-conntrack-state has no effect: what the firewall knows of connections stays here");
  return lines;
}
