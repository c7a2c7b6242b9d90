// The whole access configuration in the shape permission questions need: maps, an ACL tree, and which pools
// hold which object. Built from records when they change, then shared by every request.
import { pathSegments } from "../schema/path-segments.ts";
import { BUILTIN_ROLES } from "./builtin-roles.ts";
import { joinTokenid } from "./ids.ts";
import type { AclEntry, Group, Pool, Realm, Role, Token, User } from "./types.ts";

/** subject -> role -> propagates */
export type Grants = ReadonlyMap<string, ReadonlyMap<string, boolean>>;

export interface AclNode {
  readonly path: string;
  readonly users: Grants;
  readonly groups: Grants;
  readonly tokens: Grants;
  readonly children: ReadonlyMap<string, AclNode>;
}

export interface AccessRecords {
  readonly users: Iterable<User>;
  readonly groups: Iterable<Group>;
  /** Custom roles only; the built-in ones are added. */
  readonly roles: Iterable<Role>;
  readonly tokens: Iterable<Token>;
  readonly acl: Iterable<AclEntry>;
  readonly pools: Iterable<Pool>;
  readonly realms: Iterable<Realm>;
}

export interface AccessModel {
  readonly users: ReadonlyMap<string, User>;
  readonly groups: ReadonlyMap<string, Group>;
  /** groupid -> its members. Only groups with members. */
  readonly members: ReadonlyMap<string, ReadonlySet<string>>;
  readonly roles: ReadonlyMap<string, Role>;
  /** By full id, "joe@pve!ci". */
  readonly tokens: ReadonlyMap<string, Token>;
  readonly acl: AclNode;
  readonly pools: ReadonlyMap<string, Pool>;
  /** "/vms/100" or "/storage/local" -> ids of the pools that hold it. */
  readonly poolsOf: ReadonlyMap<string, readonly string[]>;
  readonly realms: ReadonlyMap<string, Realm>;
}

export function buildAccessModel(records: AccessRecords): AccessModel {
  const pools = indexPools(records.pools);
  return {
    ...indexUsers(records.users),
    groups: new Map([...records.groups].map((group) => [group.groupid, group])),
    roles: indexRoles(records.roles),
    tokens: indexTokens(records.tokens),
    acl: buildAclTree(records.acl),
    ...pools,
    realms: new Map([...records.realms].map((realm) => [realm.realm, realm])),
  };
}

export function indexUsers(users: Iterable<User>): Pick<AccessModel, "users" | "members"> {
  const byId = new Map<string, User>();
  const members = new Map<string, Set<string>>();
  for (const user of users) {
    byId.set(user.userid, user);
    for (const group of user.groups) {
      const set = members.get(group);
      if (set === undefined) members.set(group, new Set([user.userid]));
      else set.add(user.userid);
    }
  }
  return { users: byId, members };
}

export function indexRoles(roles: Iterable<Role>): ReadonlyMap<string, Role> {
  const byId = new Map([...roles].map((role) => [role.roleid, role]));
  for (const [roleid, role] of BUILTIN_ROLES) byId.set(roleid, role);
  return byId;
}

export function indexTokens(tokens: Iterable<Token>): ReadonlyMap<string, Token> {
  return new Map([...tokens].map((token) => [joinTokenid(token.userid, token.tokenid), token]));
}

export function indexPools(pools: Iterable<Pool>): Pick<AccessModel, "pools" | "poolsOf"> {
  const byId = new Map<string, Pool>();
  const poolsOf = new Map<string, string[]>();
  const add = (path: string, poolid: string): void => {
    const list = poolsOf.get(path);
    if (list === undefined) poolsOf.set(path, [poolid]);
    else list.push(poolid);
  };
  for (const pool of pools) {
    byId.set(pool.poolid, pool);
    for (const vmid of pool.vms) add(`/vms/${vmid}`, pool.poolid);
    for (const storage of pool.storage) add(`/storage/${storage}`, pool.poolid);
  }
  return { pools: byId, poolsOf };
}

interface GrowingNode extends AclNode {
  readonly users: Map<string, Map<string, boolean>>;
  readonly groups: Map<string, Map<string, boolean>>;
  readonly tokens: Map<string, Map<string, boolean>>;
  readonly children: Map<string, GrowingNode>;
}

export function buildAclTree(entries: Iterable<AclEntry>): AclNode {
  const root = growingNode("/");
  for (const entry of entries) {
    let node = root;
    for (const segment of pathSegments(entry.path)) {
      let child = node.children.get(segment);
      if (child === undefined) {
        child = growingNode(node === root ? `/${segment}` : `${node.path}/${segment}`);
        node.children.set(segment, child);
      }
      node = child;
    }
    const grants = { user: node.users, group: node.groups, token: node.tokens }[entry.type];
    const roles = grants.get(entry.ugid);
    if (roles === undefined) grants.set(entry.ugid, new Map([[entry.roleid, entry.propagate]]));
    else roles.set(entry.roleid, entry.propagate);
  }
  return root;
}

/** Every path of the tree, parents first. */
export function* aclNodes(node: AclNode): Generator<AclNode> {
  yield node;
  for (const child of node.children.values()) yield* aclNodes(child);
}

function growingNode(path: string): GrowingNode {
  return { path, users: new Map(), groups: new Map(), tokens: new Map(), children: new Map() };
}
