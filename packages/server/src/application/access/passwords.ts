// Passwords of the realms: `pve` is ours, `pam` is the host's, and so is root@pam beside the host's own.
import { missing } from "@gpve/domain/request/failures.ts";
import { parseUserid } from "@gpve/domain/access/ids.ts";
import type { HostAccounts, PasswordHasher, Sealer } from "@gpve/domain/access/ports.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { passwordContext, passwordsDef } from "./secret-collections.ts";

export interface PasswordsDeps {
  readonly records: Records;
  readonly directory: AccessDirectory;
  readonly hasher: PasswordHasher;
  readonly sealer: Sealer;
  readonly host: HostAccounts;
}

/** A password ready to be stored, or undefined when the host keeps it. */
export type PreparedPassword = { readonly sealed: string } | undefined;

export class Passwords {
  readonly #deps: PasswordsDeps;

  constructor(deps: PasswordsDeps) {
    this.#deps = deps;
  }

  /** Of those that are ours. */
  async matches(userid: string, password: string): Promise<boolean> {
    const entry = this.#deps.records.collection(passwordsDef).get(userid);
    if (entry === undefined) return false;
    const hash = this.#deps.sealer.open(entry.value.sealed, passwordContext(userid));
    return this.#deps.hasher.verify(password, hash);
  }

  /** Hashes, or hands the password to the host. To be stored by `put` in the caller's transaction. */
  async prepare(userid: string, password: string, signal?: AbortSignal): Promise<PreparedPassword> {
    const name = parseUserid(userid);
    const realm = name === undefined ? undefined : this.#deps.directory.model().realms.get(name.realm);
    if (name === undefined || realm === undefined) {
      throw missing(`auth domain '${name?.realm ?? userid}' does not exist`);
    }
    if (realm.type === "pve" || userid === ROOT_USER) {
      const hash = await this.#deps.hasher.hash(password);
      return { sealed: this.#deps.sealer.seal(hash, passwordContext(userid)) };
    }
    await this.#deps.host.setPassword(name.name, password, signal);
    return undefined;
  }

  put(tx: Tx, userid: string, prepared: PreparedPassword): void {
    if (prepared !== undefined) tx.put(passwordsDef, userid, prepared);
  }

  async set(userid: string, password: string, signal?: AbortSignal): Promise<void> {
    const prepared = await this.prepare(userid, password, signal);
    await this.#deps.records.transact((tx) => this.put(tx, userid, prepared));
  }
}
