// User-mode networks are processes in the host's network, through which guests would reach what listens on this machine's
// own addresses (10.0.2.2 is its 127.0.0.1). Their users are a range of their own, and nothing that these send stays on this
// machine: they open no connection to it, except to its name servers; what is asked of them (the guest's SSH) they answer.
import { isIPv4, isIPv6 } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { USER_NETWORK_UIDS } from "../guest-process/guest-uid.ts";

export interface HostWallOptions {
  readonly exec: Exec;
  /** The table's name. */
  readonly table: string;
  /** The host's, which user-mode networks ask for their guests. */
  readonly nameServers: () => readonly string[];
}

const USERS = `${USER_NETWORK_UIDS.first}-${USER_NETWORK_UIDS.last}`;

export class HostWall {
  readonly #options: HostWallOptions;
  /** Networks that are behind it. */
  readonly #ids = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: HostWallOptions) {
    this.#options = options;
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

  /** Makes the kernel have what we have; one after the other. */
  ensure(): Promise<void> {
    const write = this.#writing.then(() => this.#write());
    this.#writing = write.catch((err: unknown) => ignore(err, "told to whoever wanted it"));
    return write;
  }

  async isWhole(): Promise<boolean> {
    if (this.#ids.size === 0) return true;
    try {
      const { exec, table, nameServers } = this.#options;
      const { stdout } = await exec("nft", ["list", "table", "inet", table]);
      return [USERS, "jump machine", "chain machine", ...usable(nameServers())].every((each) =>
        stdout.includes(each),
      );
    } catch (err) {
      ignore(err, `no table: ${messageOf(err)}`);
      return false;
    }
  }

  async #write(): Promise<void> {
    const { exec, table, nameServers } = this.#options;
    if (this.#ids.size === 0) await removeHostWall(this.#options);
    else await exec("nft", hostWallCommands(table, nameServers()));
  }
}

export function hostWallCommands(table: string, nameServers: readonly string[]): string[] {
  const own = `inet ${table}`;
  const servers = usable(nameServers);
  return [
    // Adding first makes the deletion succeed also when there was none.
    `add table ${own};`,
    `delete table ${own};`,
    `add table ${own};`,
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

export async function removeHostWall({
  exec,
  table,
}: Pick<HostWallOptions, "exec" | "table">): Promise<void> {
  const { stdout } = await exec("nft", ["list", "tables", "inet"]);
  if (stdout.split("\n").includes(`table inet ${table}`))
    await exec("nft", ["delete", "table", "inet", table]);
}

function usable(nameServers: readonly string[]): string[] {
  return nameServers.filter((server) => isIPv4(server) || (isIPv6(server) && !server.includes("%")));
}
