// Permission answers on a node, from the same records the servers use.
import { createAccessView } from "@gpve/domain/access/access-view.ts";
import { buildAccessModel, type AccessModel } from "@gpve/domain/access/model.ts";
import type { AclEntry, Group, Pool, Realm, Role, Token, User } from "@gpve/domain/access/types.ts";
import { ROOT_USER, type AccessView, type Actor } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

const define = <T>(prefix: string): CollectionDef<T> => ({ prefix, decode: (json) => json as T });
const users = define<User>("/gpve/access/users/");
const groups = define<Group>("/gpve/access/groups/");
const roles = define<Role>("/gpve/access/roles/");
const tokens = define<Token>("/gpve/access/tokens/");
const acl = define<AclEntry>("/gpve/access/acl/");
const pools = define<Pool>("/gpve/pools/");
const realms = define<Realm>("/gpve/access/realms/");

export function createClusterAccess(
  records: Records,
  clock: Clock,
): (actor: Actor | undefined) => AccessView {
  const parts = [users, groups, roles, tokens, acl, pools, realms] as const;
  let from: readonly unknown[] = [];
  let model: AccessModel | undefined;
  const valuesOf = <T>(def: CollectionDef<T>): T[] =>
    records
      .collection(def)
      .list()
      .map((entry) => entry.value);
  return (actor) => {
    // A collection's list is the same object until it changes.
    const now = parts.map((def) => records.collection(def as CollectionDef<unknown>).list());
    if (model === undefined || now.some((list, index) => list !== from[index])) {
      const known = valuesOf(users);
      const root: User = { userid: ROOT_USER, enable: true, expire: 0, groups: [] };
      model = buildAccessModel({
        users: known.some((user) => user.userid === ROOT_USER) ? known : [...known, root],
        groups: valuesOf(groups),
        roles: valuesOf(roles),
        tokens: valuesOf(tokens),
        acl: valuesOf(acl),
        pools: valuesOf(pools),
        realms: valuesOf(realms),
      });
      from = now;
    }
    return createAccessView(model, actor, Math.floor(clock.now() / 1_000));
  };
}
