// The members of the store, as people see them. What is known of them comes through a port: a server knows where it keeps
// its records, and nothing of how.
import { AppError } from "@gpve/contracts/errors.ts";
import type { StoreMember } from "@gpve/contracts/v1/bodies.ts";

/** Where the store has members. */
export interface StoreMembersPort {
  /** gpve runs them, and so may change them. */
  readonly isEmbedded: boolean;
  list(): Promise<readonly StoreMember[]>;
  remove(id: string): Promise<void>;
}

export class StoreMembers {
  readonly #port: StoreMembersPort | undefined;
  readonly #servers: { forget(name: string): Promise<void> };

  /** `servers`: members go by the names of the servers that run them. */
  constructor(port: StoreMembersPort | undefined, servers: { forget(name: string): Promise<void> }) {
    this.#port = port;
    this.#servers = servers;
  }

  async list(): Promise<readonly StoreMember[]> {
    return this.#required().list();
  }

  /** One that is lost: one that answers would come back by itself, and its loss may cost the quorum. */
  async remove(name: string): Promise<void> {
    const port = this.#required();
    if (!port.isEmbedded)
      throw new AppError(
        "object.conflict",
        "gpve does not run this etcd (cluster.etcd.embedded): change its members with etcdctl",
      );
    const members = await port.list();
    const found = members.find((member) => member.name === name || member.id === name);
    if (found === undefined)
      throw new AppError(
        "object.not_found",
        `there is no member '${name}' of the store: it has ${members.map((member) => member.name || member.id).join(", ")}`,
      );
    if (members.length === 1) throw new AppError("object.conflict", `'${name}' is the store's only member`);
    if (found.healthy)
      throw new AppError(
        "object.conflict",
        `member '${name}' answers: stop its server first (./gpve down on that machine), it would come back by itself`,
      );
    await port.remove(found.id);
    await this.#servers.forget(found.name);
  }

  #required(): StoreMembersPort {
    if (this.#port !== undefined) return this.#port;
    throw new AppError(
      "object.not_found",
      "this server keeps its records in SQLite, which has no members: ./gpve cluster init moves them to etcd",
    );
  }
}
