// Realms: `pam` and `pve` are built in and can be described, marked as default and told to demand a second
// factor. Directory realms do not exist here yet and say so.
import { alreadyThere, conflict, missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { listedNames } from "@gpve/domain/access/ids.ts";
import { byText } from "@gpve/domain/access/sorting.ts";
import type { Realm } from "@gpve/domain/access/types.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { BUILTIN_REALMS } from "@gpve/domain/access/access-directory.ts";
import { realmsDef } from "@gpve/domain/access/collections.ts";
import { prefixed } from "./prefixed.ts";

export interface RealmFields {
  readonly comment?: string | undefined;
  readonly default?: boolean | undefined;
  readonly tfa?: string | undefined;
}

export class Realms {
  readonly #records: Records;
  readonly #directory: AccessDirectory;

  constructor({ records, directory }: { readonly records: Records; readonly directory: AccessDirectory }) {
    this.#records = records;
    this.#directory = directory;
  }

  list(): Realm[] {
    return [...this.#directory.model().realms.values()].toSorted((a, b) => byText(a.realm, b.realm));
  }

  get(id: string): Realm & { readonly digest: string } {
    const realm = this.#directory.model().realms.get(id);
    if (realm === undefined) throw missing(`domain '${id}' does not exist`);
    return { ...realm, digest: digestOf(this.list()) };
  }

  create(id: string, type: string): Promise<never> {
    return prefixed("add auth server failed", () => {
      if (this.#directory.model().realms.has(id)) throw alreadyThere(`domain '${id}' already exists`);
      if (type === "pam" || type === "pve") throw refused(`unable to create builtin type '${type}'`);
      throw unsupported(type);
    });
  }

  /** `others` are parameters that only directory realms have. */
  update(
    id: string,
    fields: RealmFields,
    options: {
      readonly remove?: string | undefined;
      readonly digest?: string | undefined;
      readonly others?: readonly string[];
    } = {},
  ): Promise<void> {
    return prefixed("update auth server failed", () =>
      this.#records.transact((tx) => {
        const realms = currentRealms(tx);
        if (options.digest !== undefined && options.digest !== digestOf([...realms.values()])) {
          throw conflict("detected modified configuration - file changed by other user? Try again.");
        }
        const realm = realms.get(id);
        if (realm === undefined) throw missing(`domain '${id}' does not exist`);
        const removed = listedNames(options.remove);
        const given = Object.entries(fields).filter(([, value]) => value !== undefined);
        if (removed.length === 0 && given.length === 0 && !options.others?.length)
          throw refused("no options specified");
        const foreign = options.others?.[0];
        if (foreign !== undefined) {
          throw parameterError({
            [foreign]: `property is not defined in schema and the schema does not allow additional properties`,
          });
        }
        const next: Record<string, unknown> = { ...realm };
        for (const name of removed) if (name !== "realm" && name !== "type") delete next[name];
        for (const [name, value] of given) next[name] = value;
        if (next["default"] !== true) delete next["default"];
        else for (const other of realms.values()) if (other.realm !== id) clearDefault(tx, other);
        tx.put(realmsDef, id, next as unknown as Realm);
      }),
    );
  }

  /** A built-in realm comes back with its defaults. */
  remove(id: string): Promise<void> {
    return prefixed("delete auth server failed", () =>
      this.#records.transact((tx) => {
        if (!currentRealms(tx).has(id)) throw missing(`authentication domain '${id}' does not exist`);
        tx.delete(realmsDef, id);
      }),
    );
  }

  sync(id: string): never {
    const realm = this.#directory.model().realms.get(id);
    if (realm === undefined) throw parameterError({ realm: "Realm does not exist." });
    throw refused(`Cannot sync realm type '${realm.type}'! Only LDAP/AD realms can be synced.`);
  }
}

/** "oath" or "yubico" when the realm demands a second factor. */
export function tfaTypeOf(realm: Realm | undefined): string | undefined {
  return /(?:^|,)(?:type=)?(\w+)(?:,|$)/.exec(realm?.tfa ?? "")?.[1];
}

function currentRealms(tx: Tx): Map<string, Realm> {
  const realms = new Map(BUILTIN_REALMS);
  for (const { id, value } of tx.list(realmsDef)) realms.set(id, value);
  return new Map([...realms].toSorted(([a], [b]) => byText(a, b)));
}

function clearDefault(tx: Tx, realm: Realm): void {
  if (realm.default !== true) return;
  const { default: _was, ...rest } = realm;
  tx.put(realmsDef, realm.realm, rest);
}

/** 40 hex digits over all realms, as PVE's digest covers its whole file. */
function digestOf(realms: readonly Realm[]): string {
  const lines = realms.map((realm) =>
    JSON.stringify(Object.entries(realm).toSorted(([a], [b]) => byText(a, b))),
  );
  return createHash("sha1").update(lines.join("\n")).digest("hex");
}

function unsupported(type: string): AppError {
  return new AppError(
    "feature.unsupported",
    `realms of type '${type}' are not supported; use 'pam' or 'pve'`,
  );
}
