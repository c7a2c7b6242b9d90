import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { userKind } from "@gpve/contracts/v1/kinds/user.ts";
import { parseUserid } from "@gpve/domain/access/ids.ts";
import type { User } from "@gpve/domain/access/types.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { BUILTIN_REALMS, DEFAULT_ROOT } from "@gpve/domain/access/access-directory.ts";
import { groupsDef, poolsDef, realmsDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import {
  allocatesUsers,
  entersGroup,
  requireNotBeyond,
  requireTenantRealm,
} from "@gpve/domain/access/tenant-users.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";
import { modelOfRecords } from "../../access/model-of-records.ts";
import { removeUser } from "../../access/users.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject, Reader } from "../adapter.ts";

const TEXTS = ["firstname", "lastname", "email", "comment"] as const;

export function userAdapter(): KindAdapter {
  return {
    kind: userKind,
    collections: [usersDef as CollectionDef<unknown>, tokensDef as CollectionDef<unknown>],
    list: (reader) => {
      const tokens = Map.groupBy(reader.list(tokensDef), (entry) => entry.value.userid);
      const names = (userid: string): string[] =>
        (tokens.get(userid) ?? []).map((entry) => entry.value.tokenid);
      const users = reader.list(usersDef).map((entry) => raw(entry, names(entry.id)));
      const hasRoot = users.some((user) => user.name === ROOT_USER);
      return (hasRoot ? users : [...users, raw(BARE_ROOT, names(ROOT_USER))]).toSorted(byName);
    },
    get: (reader, name) => {
      const entry = reader.get(usersDef, name) ?? (name === ROOT_USER ? BARE_ROOT : undefined);
      return entry === undefined ? undefined : raw(entry, tokensOf(reader, name));
    },
    onChange: (records, changed) => {
      const stops = [
        records.collection(usersDef).onChange((id) => changed([id])),
        records.collection(tokensDef).onChange((id) => changed([id.slice(0, id.lastIndexOf("!"))])),
      ];
      return () => stops.forEach((stop) => stop());
    },
    write: {
      put: (tx, { name, namespace, spec, previous, ctx }) => {
        const parsed = parseUserid(name);
        if (parsed === undefined) throw new AppError("request.invalid", `'${name}' is not a user name`);
        if (
          previous === undefined &&
          !BUILTIN_REALMS.has(parsed.realm) &&
          tx.get(realmsDef, parsed.realm) === undefined
        ) {
          throw new AppError("request.invalid", `realm '${parsed.realm}' does not exist`);
        }
        const groups = Array.isArray(spec["groups"]) ? spec["groups"].map(String).toSorted() : [];
        for (const group of groups) {
          if (tx.get(groupsDef, group) === undefined) {
            throw new AppError("request.invalid", `group '${group}' does not exist`, {
              errors: { "spec.groups": `no such group '${group}'` },
            });
          }
        }
        const tenant = namespace ?? previous?.namespace;
        if (tenant !== undefined && tx.get(poolsDef, tenant) === undefined) {
          throw new AppError("request.invalid", `'${tenant}' is no tenant`, {
            errors: { "metadata.namespace": `'${tenant}' is no tenant` },
          });
        }
        requireMayManage(tx, { userid: name, realm: parsed.realm, groups, previous }, ctx.access);
        const keys = tx.get(usersDef, name)?.value.keys;
        const texts = TEXTS.map((field) => [field, spec[field]] as const).filter(
          ([, text]) => typeof text === "string" && text !== "",
        );
        const user: User = {
          userid: name,
          enable: spec["enable"] !== false,
          expire: typeof spec["expire"] === "number" ? spec["expire"] : 0,
          groups,
          ...given({ keys, tenant }),
          ...Object.fromEntries(texts),
        };
        tx.put(usersDef, name, user);
      },
      remove: (tx, { name, previous, ctx }) => {
        if (name === ROOT_USER) throw new AppError("request.invalid", `${ROOT_USER} cannot be deleted`);
        const groups = previous === undefined ? [] : groupsOf(previous);
        const realm = name.slice(name.lastIndexOf("@") + 1);
        requireMayManage(tx, { userid: name, realm, groups, previous }, ctx.access);
        removeUser(tx, name);
      },
    },
  };
}

/** What the declared permission cannot say: how far an administrator of a tenant goes with the tenant's users. */
function requireMayManage(
  tx: Reader,
  user: {
    readonly userid: string;
    readonly realm: string;
    readonly groups: readonly string[];
    readonly previous: RawObject | undefined;
  },
  access: AccessView,
): void {
  const { userid, realm, groups, previous } = user;
  const before = previous === undefined ? [] : groupsOf(previous);
  const model = modelOfRecords(tx);
  const asCluster =
    previous === undefined
      ? allocatesUsers(model, access, { realm, groups })
      : access.has("/access/groups", ["User.Modify"]) ||
        before.some((group) => entersGroup(model, access, group));
  if (asCluster) return;
  if (previous === undefined) requireTenantRealm(model, realm);
  else requireNotBeyond(model, access, userid);
  const foreign = [...before, ...groups].find(
    (group) => before.includes(group) !== groups.includes(group) && !entersGroup(model, access, group),
  );
  if (foreign !== undefined) throw permissionDenied(`/access/groups/${foreign}, User.Modify`);
}

function groupsOf({ spec }: RawObject): readonly string[] {
  return Array.isArray(spec["groups"]) ? spec["groups"].map(String) : [];
}

/** root@pam always exists, stored or not. */
const BARE_ROOT: Entry<User> = {
  id: ROOT_USER,
  value: DEFAULT_ROOT,
  createRevision: 0,
  revision: 0,
  version: 1,
};

function tokensOf(reader: Reader, userid: string): string[] {
  return reader
    .list(tokensDef)
    .filter((entry) => entry.value.userid === userid)
    .map((entry) => entry.value.tokenid);
}

function raw(entry: Entry<User>, tokens: readonly string[]): RawObject {
  const user = entry.value;
  const texts = TEXTS.filter((field) => user[field] !== undefined && user[field] !== "");
  return {
    name: entry.id,
    ...given({ namespace: user.tenant }),
    spec: {
      enable: user.enable,
      expire: user.expire,
      ...Object.fromEntries(texts.map((field) => [field, user[field]])),
      ...(user.groups.length === 0 ? {} : { groups: [...user.groups] }),
    },
    status: { realm: entry.id.slice(entry.id.lastIndexOf("@") + 1), tokens: [...tokens].toSorted() },
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
  };
}
