// The walk that decides what a user or token may do on a path.
//
// From "/" downwards, at each level the most specific kind that says anything wins (the token's own entries,
// else the user's, else the union of the user's groups) and REPLACES what was inherited. Roles that do not
// propagate count only on the exact path. NoAccess at the deciding level cancels everything. Pools then add
// their roles to the guests and storages they hold.
import { ADMINISTRATOR, BUILTIN_ROLES, NO_ACCESS } from "./builtin-roles.ts";
import { parseTokenid } from "./ids.ts";
import type { AccessModel, AclNode, Grants } from "./model.ts";
import { ROOT_USER } from "../request/context.ts";
import { pathSegments } from "../schema/path-segments.ts";
import type { Token, User } from "./types.ts";

/** Name -> whether it propagates to what lies below. */
export type Effective = ReadonlyMap<string, boolean>;

const NOTHING: Effective = new Map();
const EVERYTHING: Effective = new Map(
  (BUILTIN_ROLES.get(ADMINISTRATOR)?.privileges ?? []).map((privilege) => [privilege, true]),
);

/** Unix seconds; "whenever" asks what is granted, whether or not its holder is enabled and not expired. */
export type Moment = number | "whenever";

export interface PrivilegeSource {
  /** Roles by ACL alone: pools and, for tokens, the owner's limits are not considered. */
  roles(path: string): Effective;
  privileges(path: string): Effective;
}

/**
 * Privileges of one user or token, remembered per ACL node: paths nobody set a permission on share the answer
 * of the nearest ancestor, so a list of 20 000 guests costs two look-ups for each.
 */
export function privilegeSource(model: AccessModel, authid: string, when: Moment): PrivilegeSource {
  if (authid === ROOT_USER) {
    return { roles: () => new Map([[ADMINISTRATOR, true]]), privileges: () => EVERYTHING };
  }
  const name = parseTokenid(authid);
  if (name === undefined) {
    return counts(model.users.get(authid), when) ? walker(model, authid) : nobody;
  }
  const token = model.tokens.get(authid);
  const owner = privilegeSource(model, name.userid, when);
  if (!counts(token, when) || !counts(model.users.get(name.userid), when)) return nobody;
  if (token?.privsep !== true) return owner;
  const own = walker(model, authid);
  // root@pam may do anything, so a privilege-separated token of root is bounded by its own ACLs alone.
  if (name.userid === ROOT_USER) return own;
  return {
    roles: (path) => own.roles(path),
    privileges: memoise((path) => intersect(own.privileges(path), owner.privileges(path))),
  };
}

export function isActive(
  subject: Pick<User, "enable" | "expire"> | Pick<Token, "expire"> | undefined,
  nowSeconds: number,
): boolean {
  if (subject === undefined) return false;
  if ("enable" in subject && !subject.enable) return false;
  return subject.expire === 0 || subject.expire >= nowSeconds;
}

function counts(subject: User | Token | undefined, when: Moment): boolean {
  return when === "whenever" ? subject !== undefined : isActive(subject, when);
}

const nobody: PrivilegeSource = { roles: () => NOTHING, privileges: () => NOTHING };

function walker(model: AccessModel, authid: string): PrivilegeSource {
  const groups = new Set(model.users.get(authid)?.groups);
  // What holds at a node for deeper paths, and what holds exactly on it.
  const below = new Map<AclNode, Effective>();
  const exact = new Map<AclNode, Effective>();
  const privilegesOf = new Map<Effective, Effective>();
  const mergedRoles = new Map<Effective, Map<string, Effective>>();
  const poolRoles = memoise((poolid) => roles(`/pool/${poolid}`));

  const decide = (node: AclNode, inherited: Effective, final: boolean): Effective =>
    grantsOf(node.tokens, authid, final) ??
    grantsOf(node.users, authid, final) ??
    groupGrants(node.groups, groups, final) ??
    inherited;

  const walk = (path: string): Effective => {
    let node = model.acl;
    let inherited = NOTHING;
    const segments = pathSegments(path);
    for (const [depth, segment] of segments.entries()) {
      inherited = remembered(below, node, () => decide(node, inherited, false));
      const child = node.children.get(segment);
      if (child === undefined) return inherited;
      node = child;
      if (depth === segments.length - 1) return remembered(exact, node, () => decide(node, inherited, true));
    }
    return remembered(exact, node, () => decide(node, inherited, true));
  };

  const roles = (path: string): Effective => {
    if (path === "") return NOTHING;
    const found = walk(path);
    const none = found.get(NO_ACCESS);
    return none === undefined || found.size === 1 ? found : new Map([[NO_ACCESS, none]]);
  };

  const withPools = (path: string): Effective => {
    const direct = roles(path);
    const pools = model.poolsOf.get(path);
    if (pools === undefined || direct.has(NO_ACCESS)) return direct;
    const known = remembered(mergedRoles, direct, () => new Map<string, Effective>());
    return remembered(known, pools.join(" "), () => merge(direct, pools));
  };

  const merge = (direct: Effective, pools: readonly string[]): Effective => {
    const merged = new Map(direct);
    for (const poolid of pools) {
      for (const role of poolRoles(poolid).keys()) {
        if (role === NO_ACCESS) return new Map([[NO_ACCESS, false]]);
        if (!merged.has(role)) merged.set(role, false);
      }
    }
    return merged.size === direct.size ? direct : merged;
  };

  const privileges = (path: string): Effective => {
    const held = withPools(path);
    return remembered(privilegesOf, held, () => privilegesOfRoles(model, held));
  };
  return { roles, privileges };
}

function grantsOf(grants: Grants, subject: string, final: boolean): Effective | undefined {
  const entries = grants.get(subject);
  if (entries === undefined) return undefined;
  if (final) return entries.size === 0 ? undefined : entries;
  const passing = [...entries].filter(([, propagate]) => propagate);
  return passing.length === 0 ? undefined : new Map(passing);
}

function groupGrants(grants: Grants, groups: ReadonlySet<string>, final: boolean): Effective | undefined {
  let union: Map<string, boolean> | undefined;
  for (const [group, entries] of grants) {
    if (!groups.has(group)) continue;
    for (const [role, propagate] of entries) {
      if (!final && !propagate) continue;
      union ??= new Map();
      union.set(role, propagate || union.get(role) === true);
    }
  }
  return union;
}

function privilegesOfRoles(model: AccessModel, held: Effective): Effective {
  const privileges = new Map<string, boolean>();
  for (const [roleid, propagate] of held) {
    for (const privilege of model.roles.get(roleid)?.privileges ?? []) {
      privileges.set(privilege, propagate || privileges.get(privilege) === true);
    }
  }
  return privileges;
}

function intersect(token: Effective, owner: Effective): Effective {
  const both = new Map<string, boolean>();
  for (const [privilege, propagate] of token) {
    const owned = owner.get(privilege);
    if (owned !== undefined) both.set(privilege, propagate && owned);
  }
  return both;
}

function remembered<K, V>(memory: Map<K, V>, key: K, compute: () => V): V {
  const known = memory.get(key);
  if (known !== undefined) return known;
  const value = compute();
  memory.set(key, value);
  return value;
}

function memoise(compute: (key: string) => Effective): (key: string) => Effective {
  const memory = new Map<string, Effective>();
  return (key) => remembered(memory, key, () => compute(key));
}
