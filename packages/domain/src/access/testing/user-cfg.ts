// PVE's user.cfg, in which suites and tests describe who may do what. Lines are colon-separated records; later lines may only
// name what earlier ones defined. What cannot be understood is left out with a warning, never guessed.
import { ROOT_USER } from "../../request/context.ts";
import { normalizeAclPath } from "../acl-path.ts";
import { BUILTIN_ROLES, isBuiltinRole, isPrivilege } from "../builtin-roles.ts";
import { isPoolName, listedNames, parseTokenid, parseUserid } from "../ids.ts";
import { sortedUnique } from "../sorting.ts";
import type { AclEntry, AclSubject, Group, Pool, Role, Token, User } from "../types.ts";

/** Groups and roles. */
const OBJECT_NAME = /^[A-Za-z0-9.\-_]+$/;
const STORAGE_NAME = /^[a-z][a-z0-9\-_.]*[a-z0-9]$/i;

export interface UserCfg {
  readonly users: readonly User[];
  readonly tokens: readonly Token[];
  readonly groups: readonly Group[];
  readonly pools: readonly Pool[];
  readonly roles: readonly Role[];
  readonly acl: readonly AclEntry[];
}

export interface ParsedUserCfg extends UserCfg {
  readonly warnings: readonly string[];
}

export function parseUserCfg(text: string): ParsedUserCfg {
  const draft = newDraft();
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    if (line === "") continue;
    const [kind, ...fields] = line.split(":").map((field) => field.trim());
    const read = readers.get(kind ?? "");
    if (read === undefined) draft.warnings.push(`ignore config line: ${line}`);
    else read(draft, fields);
  }
  return finish(draft);
}

interface Draft {
  readonly users: Map<string, Omit<User, "groups">>;
  readonly groupsOfUser: Map<string, Set<string>>;
  readonly tokens: Map<string, Token>;
  readonly groups: Map<string, Group>;
  readonly roles: Map<string, Set<string>>;
  readonly acl: Map<string, AclEntry>;
  readonly pools: Map<string, { comment?: string; vms: Set<number>; storage: Set<string> }>;
  readonly poolOfVm: Map<number, string>;
  readonly warnings: string[];
}

function newDraft(): Draft {
  return {
    users: new Map(),
    groupsOfUser: new Map(),
    tokens: new Map(),
    groups: new Map(),
    roles: new Map(),
    acl: new Map(),
    pools: new Map(),
    poolOfVm: new Map(),
    warnings: [],
  };
}

type Reader = (draft: Draft, fields: readonly string[]) => void;

const readers: ReadonlyMap<string, Reader> = new Map([
  ["user", readUser],
  ["token", readToken],
  ["group", readGroup],
  ["role", readRole],
  ["pool", readPool],
  ["acl", readAcl],
]);

function readUser(draft: Draft, fields: readonly string[]): void {
  const [userid = "", enable, expire, firstname, lastname, email, comment, keys] = fields;
  if (parseUserid(userid) === undefined) {
    draft.warnings.push(`ignore user '${userid}' - invalid user name`);
    return;
  }
  const seconds = readExpire(expire);
  if (seconds === undefined) {
    draft.warnings.push(`ignore user '${userid}' - (illegal characters in expire '${expire}')`);
    return;
  }
  draft.users.set(userid, {
    userid,
    enable: isTrue(enable),
    expire: seconds,
    ...text("firstname", decodeText(firstname)),
    ...text("lastname", decodeText(lastname)),
    ...text("email", email),
    ...text("comment", decodeText(comment)),
    ...text("keys", keys),
  });
}

function readToken(draft: Draft, [authid = "", expire, privsep, comment]: readonly string[]): void {
  const name = parseTokenid(authid);
  if (name === undefined) {
    draft.warnings.push(`ignore invalid tokenid '${authid}'`);
    return;
  }
  const seconds = readExpire(expire);
  if (seconds === undefined) {
    draft.warnings.push(`ignore token '${authid}' - (illegal characters in expire '${expire}')`);
    return;
  }
  if (!isUser(draft, name.userid)) {
    draft.warnings.push(`ignore token '${authid}' - user does not exist`);
    return;
  }
  draft.tokens.set(authid, {
    userid: name.userid,
    tokenid: name.tokenid,
    privsep: isTrue(privsep),
    expire: seconds,
    ...text("comment", decodeText(comment)),
  });
}

function readGroup(draft: Draft, [groupid = "", members, comment]: readonly string[]): void {
  if (!OBJECT_NAME.test(groupid)) {
    draft.warnings.push(`ignore group '${groupid}' - invalid characters in group name`);
    return;
  }
  const said = decodeText(comment) ?? draft.groups.get(groupid)?.comment;
  draft.groups.set(groupid, { groupid, ...text("comment", said) });
  for (const userid of listedNames(members)) {
    if (!isUser(draft, userid)) {
      draft.warnings.push(`ignore invalid group member '${userid}'`);
      continue;
    }
    addTo(draft.groupsOfUser, userid, groupid);
  }
}

function readRole(draft: Draft, [roleid = "", privileges]: readonly string[]): void {
  if (!OBJECT_NAME.test(roleid) || isBuiltinRole(roleid)) {
    draft.warnings.push(`ignore role '${roleid}' - invalid role name`);
    return;
  }
  const set = draft.roles.get(roleid) ?? new Set<string>();
  draft.roles.set(roleid, set);
  for (const privilege of listedNames(privileges)) {
    if (isPrivilege(privilege)) set.add(privilege);
    else draft.warnings.push(`ignore invalid privilege '${privilege}'`);
  }
}

function readPool(draft: Draft, [poolid = "", comment, vms, storage]: readonly string[]): void {
  if (!isPoolName(poolid)) {
    draft.warnings.push(`ignore pool '${poolid}' - invalid characters in pool name`);
    return;
  }
  const pool = draft.pools.get(poolid) ?? { vms: new Set<number>(), storage: new Set<string>() };
  draft.pools.set(poolid, pool);
  const said = decodeText(comment);
  if (said !== undefined && said !== "") pool.comment = said;
  for (const item of listedNames(vms)) {
    const vmid = /^\d{1,15}$/.test(item) ? Number(item) : undefined;
    if (vmid === undefined) draft.warnings.push(`ignore invalid vmid '${item}' in pool '${poolid}'`);
    else if (draft.poolOfVm.has(vmid))
      draft.warnings.push(`ignore duplicate vmid '${item}' in pool '${poolid}'`);
    else {
      pool.vms.add(vmid);
      draft.poolOfVm.set(vmid, poolid);
    }
  }
  for (const item of listedNames(storage)) {
    if (STORAGE_NAME.test(item)) pool.storage.add(item);
    else draft.warnings.push(`ignore invalid storage '${item}' in pool '${poolid}'`);
  }
}

function readAcl(draft: Draft, [propagate, pathText, members, roles]: readonly string[]): void {
  const path = normalizeAclPath(pathText);
  if (path === undefined) {
    draft.warnings.push(`ignore invalid path in acl '${pathText ?? ""}'`);
    return;
  }
  for (const roleid of listedNames(roles)) {
    if (!draft.roles.has(roleid) && !BUILTIN_ROLES.has(roleid)) {
      draft.warnings.push(`ignore invalid acl role '${roleid}'`);
      continue;
    }
    for (const member of listedNames(members)) {
      const subject = aclSubject(draft, member);
      if (subject === undefined) {
        draft.warnings.push(`ignore invalid user/group '${member}' in acl`);
        continue;
      }
      const entry = { path, ...subject, roleid, propagate: isTrue(propagate) };
      draft.acl.set(`${path}:${entry.type}:${entry.ugid}:${roleid}`, entry);
    }
  }
}

function aclSubject(draft: Draft, member: string): { type: AclSubject; ugid: string } | undefined {
  if (member.startsWith("@")) {
    const ugid = member.slice(1);
    return draft.groups.has(ugid) ? { type: "group", ugid } : undefined;
  }
  if (isUser(draft, member)) return { type: "user", ugid: member };
  return draft.tokens.has(member) ? { type: "token", ugid: member } : undefined;
}

function finish(draft: Draft): ParsedUserCfg {
  return {
    users: [...draft.users.values()].map((user) => ({
      ...user,
      groups: sortedUnique(draft.groupsOfUser.get(user.userid) ?? []),
    })),
    tokens: [...draft.tokens.values()],
    groups: [...draft.groups.values()],
    roles: [...draft.roles].map(([roleid, privileges]) => ({ roleid, privileges: sortedUnique(privileges) })),
    acl: [...draft.acl.values()],
    pools: [...draft.pools].map(([poolid, pool]) => ({
      poolid,
      ...text("comment", pool.comment),
      vms: [...pool.vms].toSorted((a, b) => a - b),
      storage: sortedUnique(pool.storage),
    })),
    warnings: draft.warnings,
  };
}

/** root@pam is there even where no line names it; it is added once something is said of it. */
function isUser(draft: Draft, userid: string): boolean {
  if (userid === ROOT_USER && !draft.users.has(userid))
    draft.users.set(userid, { userid, enable: true, expire: 0 });
  return draft.users.has(userid);
}

function addTo(map: Map<string, Set<string>>, key: string, value: string): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}

/** Perl's idea of true: anything but nothing and "0". */
function isTrue(field: string | undefined): boolean {
  return field !== undefined && field !== "" && field !== "0";
}

function readExpire(field: string | undefined): number | undefined {
  if (!isTrue(field)) return 0;
  return /^\d{1,15}$/.test(field ?? "") ? Number(field) : undefined;
}

function text<K extends string>(key: K, value: string | undefined): { [P in K]?: string } {
  return value === undefined || value === "" ? {} : ({ [key]: value } as { [P in K]?: string });
}

function decodeText(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  const bytes: number[] = [];
  for (let i = 0; i < value.length; i++) {
    const code = value.charAt(i) === "%" ? value.slice(i + 1, i + 3) : "";
    if (/^[0-9a-fA-F]{2}$/.test(code)) {
      bytes.push(Number.parseInt(code, 16));
      i += 2;
    } else {
      const point = value.codePointAt(i) ?? 0;
      bytes.push(...new TextEncoder().encode(String.fromCodePoint(point)));
      if (point > 0xffff) i++;
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}
