import { alreadyThere, missing } from "@gpve/domain/request/failures.ts";
import { requireUserid, listedNames } from "@gpve/domain/access/ids.ts";
import { noSuchUser, usersInGroupsWith } from "@gpve/domain/access/permission-check.ts";
import { sortedUnique } from "@gpve/domain/access/sorting.ts";
import type { Token, User } from "@gpve/domain/access/types.ts";
import { allocatesUsers, seesUsersOf, tenantOfNewUser } from "@gpve/domain/access/tenant-users.ts";
import type { AccessModel } from "@gpve/domain/access/model.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { DEFAULT_ROOT } from "@gpve/domain/access/access-directory.ts";
import { removeAclEntries } from "./acl.ts";
import { groupsDef, poolsDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import { passwordsDef, tokenSecretsDef } from "./secret-collections.ts";
import { prefixed } from "./prefixed.ts";
import type { Passwords } from "./passwords.ts";

/** Users one may see or change by these privileges on their groups. */
export const USER_READERS = ["User.Modify", "Sys.Audit"] as const;

export interface UserFields {
  readonly enable?: boolean | undefined;
  readonly expire?: number | undefined;
  readonly firstname?: string | undefined;
  readonly lastname?: string | undefined;
  readonly email?: string | undefined;
  readonly comment?: string | undefined;
  readonly keys?: string | undefined;
}

export interface UserView extends User {
  readonly tokens: readonly Token[];
  readonly realmType: string | undefined;
}

export interface UsersDeps {
  readonly records: Records;
  readonly directory: AccessDirectory;
  readonly passwords: Passwords;
}

export class Users {
  readonly #deps: UsersDeps;

  constructor(deps: UsersDeps) {
    this.#deps = deps;
  }

  /** Those the caller may see; always himself. */
  list(ctx: RequestContext, filter: { readonly enabled?: boolean | undefined } = {}): UserView[] {
    const model = this.#deps.directory.model();
    const all = ctx.access.has("/access/groups", USER_READERS, "any");
    const visible = all ? undefined : usersInGroupsWith(model, ctx.access, USER_READERS);
    const tokens = Map.groupBy(model.tokens.values(), (token) => token.userid);
    return [...model.users.values()]
      .filter(
        ({ userid, tenant }) =>
          visible === undefined ||
          visible.has(userid) ||
          userid === ctx.actor?.authid ||
          seesUsersOf(ctx.access, tenant),
      )
      .filter(({ enable }) => filter.enabled === undefined || filter.enabled === enable)
      .map((user) => this.#view(user, tokens.get(user.userid) ?? []))
      .toSorted((a, b) => (a.userid < b.userid ? -1 : 1));
  }

  get(userid: string): UserView {
    const model = this.#deps.directory.model();
    const user = model.users.get(requireUserid(userid).userid);
    if (user === undefined) throw noSuchUser(userid);
    return this.#view(
      user,
      [...model.tokens.values()].filter((token) => token.userid === userid),
    );
  }

  create(
    input: UserFields & {
      readonly userid: string;
      readonly password?: string | undefined;
      readonly groups?: string | undefined;
    },
    ctx: RequestContext,
  ): Promise<void> {
    return prefixed("create user failed", async () => {
      const { userid, realm } = requireUserid(input.userid);
      const taken = (): Error => alreadyThere(`user '${userid}' already exists`);
      if (this.#deps.directory.model().users.has(userid)) throw taken();
      const { passwords, records, directory } = this.#deps;
      const groups = sortedUnique(listedNames(input.groups));
      const tenant = tenantOfNew(directory.model(), ctx.access, { realm, groups });
      const secret =
        input.password === undefined
          ? undefined
          : await passwords.prepare(userid, input.password, ctx.signal);
      await records.transact((tx) => {
        if (tx.get(usersDef, userid) !== undefined) throw taken();
        requireGroups(tx, groups);
        if (tenant !== undefined) requirePool(tx, tenant);
        const user = {
          userid,
          enable: input.enable ?? true,
          expire: input.expire ?? 0,
          groups,
          ...given({ tenant }),
        };
        tx.put(usersDef, userid, withTexts(user, input));
        passwords.put(tx, userid, secret);
      });
    });
  }

  update(
    userid: string,
    input: UserFields & { readonly groups?: string | undefined; readonly append?: boolean | undefined },
  ): Promise<void> {
    requireUserid(userid);
    return prefixed("update user failed", () =>
      this.#deps.records.transact((tx) => {
        const user = tx.get(usersDef, userid)?.value ?? (userid === ROOT_USER ? DEFAULT_ROOT : undefined);
        if (user === undefined) throw noSuchUser(userid);
        const named = listedNames(input.groups);
        requireGroups(tx, named);
        const kept = input.groups === undefined || input.append === true ? user.groups : [];
        const changed: User = {
          ...user,
          enable: input.enable ?? user.enable,
          expire: input.expire ?? user.expire,
          groups: sortedUnique([...kept, ...named]),
        };
        tx.put(usersDef, userid, withTexts(changed, input));
      }),
    );
  }

  /** Takes everything with it: tokens, permissions, password. Deleting nobody is no error, as in PVE. */
  remove(userid: string): Promise<void> {
    requireUserid(userid);
    return prefixed("delete user failed", () => this.#deps.records.transact((tx) => removeUser(tx, userid)));
  }

  #view(user: User, tokens: readonly Token[]): UserView {
    const realm = user.userid.slice(user.userid.lastIndexOf("@") + 1);
    return { ...user, tokens, realmType: this.#deps.directory.model().realms.get(realm)?.type };
  }
}

/** Whoever makes users of the cluster makes none of a tenant. */
function tenantOfNew(
  model: AccessModel,
  access: AccessView,
  user: { readonly realm: string; readonly groups: readonly string[] },
): string | undefined {
  return allocatesUsers(model, access, user) ? undefined : tenantOfNewUser(model, access, user.realm);
}

/** Read in the transaction, so that no tenant goes while users come. */
function requirePool(tx: Tx, tenant: string): void {
  if (tx.get(poolsDef, tenant) === undefined) throw missing(`pool '${tenant}' does not exist`);
}

function requireGroups(tx: Tx, groups: readonly string[]): void {
  for (const group of groups) {
    if (tx.get(groupsDef, group) === undefined) throw missing(`no such group '${group}'`);
  }
}

const TEXTS = ["firstname", "lastname", "email", "comment", "keys"] as const;

/** A text given as empty is removed; one not given stays. */
function withTexts(user: User, input: UserFields): User {
  const next: Record<string, unknown> = { ...user };
  for (const name of TEXTS) {
    const text = input[name];
    if (text === "") delete next[name];
    else if (text !== undefined) next[name] = text;
  }
  return next as unknown as User;
}

/** Takes everything of a user with it: tokens, permissions, password. */
export function removeUser(tx: Tx, userid: string): void {
  tx.delete(usersDef, userid);
  const gone = new Set<string>();
  for (const { id, value } of tx.list(tokensDef)) {
    if (value.userid !== userid) continue;
    gone.add(id);
    tx.delete(tokensDef, id);
    tx.delete(tokenSecretsDef, id);
  }
  removeAclEntries(
    tx,
    ({ type, ugid }) => (type === "user" && ugid === userid) || (type === "token" && gone.has(ugid)),
  );
  // root@pam comes back bare; without its password nobody could enter.
  if (userid !== ROOT_USER) tx.delete(passwordsDef, userid);
}
