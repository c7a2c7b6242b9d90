// User-mode networks are processes in the host's network, through which guests would reach what listens on this machine's
// own addresses (10.0.2.2 is its 127.0.0.1). Their users are a range of their own, and nothing that these send stays on this
// machine: they open no connection to it, except to its name servers; what is asked of them (the guest's SSH) they answer.
import { isIPv4, isIPv6 } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { USER_NETWORK_UIDS } from "../../guest-process/guest-uid.ts";
import { emptied, OwnTables, type OwnTablesOptions, removeTables } from "./own-tables.ts";

export interface HostWallOptions extends OwnTablesOptions {
  /** The host's, which user-mode networks ask for their guests. */
  readonly nameServers: () => readonly string[];
}

const USERS = `${USER_NETWORK_UIDS.first}-${USER_NETWORK_UIDS.last}`;
const FAMILIES = ["inet"] as const;

export class HostWall {
  readonly #options: HostWallOptions;
  /** Networks that are behind it. */
  readonly #ids = new Set<string>();
  readonly #tables: OwnTables<string>;

  constructor(options: HostWallOptions) {
    this.#options = options;
    this.#tables = new OwnTables(
      options,
      FAMILIES,
      () => this.#ids,
      () => hostWallCommands(options.table, options.nameServers()),
    );
  }

  /** Resolves when it stands; without it no such network must start. */
  async add(id: string): Promise<void> {
    this.#ids.add(id);
    try {
      await this.ensure();
    } catch (cause) {
      this.#ids.delete(id);
      throw new AppError(
        "feature.unsupported",
        `cannot keep a user-mode network from this machine's own services: ${messageOf(cause)}. Install nftables, or give the card a bridge`,
        { cause, pveStatus: 500 },
      );
    }
  }

  async remove(id: string): Promise<void> {
    if (this.#ids.delete(id)) await this.ensure();
  }

  /** Networks that ran before we did. Without any, nothing of an earlier agent's stays. */
  async adopt(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#ids.add(id);
    await this.ensure();
  }

  async ensure(): Promise<void> {
    await this.#tables.ensure();
  }

  async isWhole(): Promise<boolean> {
    const servers = usable(this.#options.nameServers());
    return this.#ids.size === 0 || this.#tables.have([USERS, "jump machine", "chain machine", ...servers]);
  }
}

export function hostWallCommands(table: string, nameServers: readonly string[]): string[] {
  const own = `inet ${table}`;
  const servers = usable(nameServers);
  return [
    ...emptied(own),
    `add chain ${own} machine;`,
    `add chain ${own} outward { type filter hook output priority 0; policy accept; };`,
    `add rule ${own} outward meta skuid ${USERS} oifname "lo" jump machine;`,
    ...servers.map(
      (server) =>
        `add rule ${own} machine ${isIPv4(server) ? "ip" : "ip6"} daddr ${server} meta l4proto { tcp, udp } th dport 53 accept;`,
    ),
    // Without a look at connections, which would cost all traffic of the host: one begins with SYN alone.
    `add rule ${own} machine tcp flags & (syn | ack) != syn accept;`,
    `add rule ${own} machine counter drop;`,
  ];
}

export function removeHostWall(options: OwnTablesOptions): Promise<void> {
  return removeTables(options, FAMILIES);
}

function usable(nameServers: readonly string[]): string[] {
  return nameServers.filter((server) => isIPv4(server) || (isIPv6(server) && !server.includes("%")));
}
