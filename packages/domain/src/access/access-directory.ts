// The access model as the records of this moment make it. Every part is rebuilt only when its own collection
// changed; between changes all requests share one model.
import { createAccessView } from "./access-view.ts";
import type { AccessModel } from "./model.ts";
import { buildAclTree, indexPools, indexRoles, indexTokens, indexUsers } from "./model.ts";
import type { Group, Realm, User } from "./types.ts";
import type { AccessView, Actor } from "../request/context.ts";
import { ROOT_USER } from "../request/context.ts";
import type { RecordCollection, RecordEntry, RecordReader } from "../record/collection.ts";
import { aclDef, groupsDef, poolsDef, realmsDef, rolesDef, tokensDef, usersDef } from "./collections.ts";

export const BUILTIN_REALMS: ReadonlyMap<string, Realm> = new Map([
  ["pam", { realm: "pam", type: "pam", comment: "Linux PAM standard authentication" }],
  ["pve", { realm: "pve", type: "pve", comment: "Proxmox VE authentication server" }],
]);

/** root@pam always exists, as in PVE. */
export const DEFAULT_ROOT: User = { userid: ROOT_USER, enable: true, expire: 0, groups: [] };

export class AccessDirectory {
  readonly #clock: { now(): number };
  readonly #parts: {
    readonly users: () => Pick<AccessModel, "users" | "members">;
    readonly groups: () => AccessModel["groups"];
    readonly roles: () => AccessModel["roles"];
    readonly tokens: () => AccessModel["tokens"];
    readonly acl: () => AccessModel["acl"];
    readonly pools: () => Pick<AccessModel, "pools" | "poolsOf">;
    readonly realms: () => AccessModel["realms"];
  };
  #model: AccessModel | undefined;

  constructor({
    records,
    clock,
  }: {
    readonly records: RecordReader;
    /** In milliseconds. */
    readonly clock: { now(): number };
  }) {
    this.#clock = clock;
    this.#parts = {
      users: derived(records, usersDef, (users) => indexUsers(withRoot(users))),
      groups: derived(
        records,
        groupsDef,
        (groups) => new Map<string, Group>(groups.map((g) => [g.groupid, g])),
      ),
      roles: derived(records, rolesDef, indexRoles),
      tokens: derived(records, tokensDef, indexTokens),
      acl: derived(records, aclDef, buildAclTree),
      pools: derived(records, poolsDef, indexPools),
      realms: derived(
        records,
        realmsDef,
        (realms) => new Map([...BUILTIN_REALMS, ...realms.map((r) => [r.realm, r] as const)]),
      ),
    };
  }

  model(): AccessModel {
    const { users, members } = this.#parts.users();
    const { pools, poolsOf } = this.#parts.pools();
    const groups = this.#parts.groups();
    const roles = this.#parts.roles();
    const tokens = this.#parts.tokens();
    const acl = this.#parts.acl();
    const realms = this.#parts.realms();
    const known = this.#model;
    if (
      known !== undefined &&
      known.users === users &&
      known.groups === groups &&
      known.roles === roles &&
      known.tokens === tokens &&
      known.acl === acl &&
      known.pools === pools &&
      known.realms === realms
    ) {
      return known;
    }
    this.#model = { users, members, groups, roles, tokens, acl, pools, poolsOf, realms };
    return this.#model;
  }

  view(actor: Actor | undefined): AccessView {
    return createAccessView(this.model(), actor, this.nowSeconds());
  }

  nowSeconds(): number {
    return Math.floor(this.#clock.now() / 1000);
  }
}

function withRoot(users: readonly User[]): readonly User[] {
  return users.some((user) => user.userid === ROOT_USER) ? users : [...users, DEFAULT_ROOT];
}

/** A value made from a collection, kept until the collection changes. */
function derived<T, V>(
  records: RecordReader,
  def: RecordCollection<T>,
  make: (values: readonly T[]) => V,
): () => V {
  let from: readonly RecordEntry<T>[] | undefined;
  let value: V | undefined;
  return () => {
    const entries = records.collection(def).list();
    if (value === undefined || from !== entries) {
      from = entries;
      value = make(entries.map((entry) => entry.value));
    }
    return value;
  };
}
