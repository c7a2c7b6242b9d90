// Which object a path means, of a kind whose names are unique in their tenant only. Whoever asks learns of no tenant that he
// may not see: what he cannot see is not there, and a name that two have is one to him.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KindDeclaration } from "@gpve/contracts/v1/kind.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { V1Permission } from "@gpve/contracts/v1/permission.ts";
import { isPoolName } from "@gpve/domain/access/ids.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { mayDo, requireMay } from "../../application/v1/authorisation.ts";
import type { KindCache } from "../../application/v1/kind-cache.ts";
import { notFound } from "../../application/v1/object-service.ts";
import type { Tenant } from "./tenant-scope.ts";

export interface AskedObject {
  readonly kind: KindDeclaration;
  readonly permission: V1Permission;
  readonly name: string;
  /** As path or query have it. */
  readonly tenant: Tenant;
  /** As the body has it; read only where nothing else tells which is meant, and two may be seen. */
  readonly tenantInBody: () => Promise<Tenant>;
  /** A deletion that may have been done before is answered as it was then. */
  readonly mayBeGone: boolean;
  /** Whose it was, where what is asked about is left when it is gone; read where the request names no tenant. */
  readonly left?: () => readonly string[];
}

export interface FoundObject {
  readonly id: string;
  /** undefined = it is not there, and may be gone. */
  readonly object: V1Object | undefined;
  /** undefined = it is gone, and nothing tells whose it was. */
  readonly tenant: Tenant;
}

/** The one that is meant, and that this may be done to. */
export async function namedObject(
  cache: KindCache,
  asked: AskedObject,
  ctx: RequestContext,
): Promise<FoundObject> {
  const { kind, name, permission } = asked;
  const tenant = asked.tenant ?? (await oneTenant(cache, asked, ctx));
  const id = cache.idFor({ name, namespace: tenant ?? kind.defaultNamespace });
  const object = tenant === undefined ? undefined : cache.get(id);
  // One that is not there is judged as if it were: by the tenant that it would be in.
  const namespace = tenant !== undefined && isPoolName(tenant) ? { namespace: tenant } : {};
  requireMay(permission, ctx, { current: object ?? { metadata: { name, ...namespace } } });
  const mayBeGone = asked.mayBeGone || (asked.left !== undefined && tenant !== undefined);
  if (object === undefined && !mayBeGone) throw notFound(kind.kind, name);
  return { id, object, tenant };
}

/** Of the only one with that name, to whoever asks; undefined = there is none. */
async function oneTenant(
  cache: KindCache,
  { kind, name, permission, tenantInBody, left = () => [] }: AskedObject,
  ctx: RequestContext,
): Promise<Tenant> {
  const { get: read = permission } = kind.permissions;
  const seen = cache.idsNamed(name).flatMap((id) => {
    const current = cache.get(id);
    const isSeen = [read, permission].some((rule) => mayDo(rule, ctx, { current }));
    return current !== undefined && isSeen ? (current.metadata.namespace ?? []) : [];
  });
  if (seen.length === 0) return oneTenantLeft(left(), { kind, name, permission }, ctx);
  if (seen.length === 1) return seen[0];
  const said = await tenantInBody();
  if (said !== undefined) return said;
  throw several(seen, { kind, name }, "have");
}

/** Of those that were there the only one to whoever asks. */
function oneTenantLeft(
  left: readonly string[],
  { kind, name, permission }: Pick<AskedObject, "kind" | "name" | "permission">,
  ctx: RequestContext,
): Tenant {
  const seen = left.filter((namespace) =>
    mayDo(permission, ctx, { current: { metadata: { name, namespace } } }),
  );
  if (seen.length < 2) return seen[0];
  throw several(seen, { kind, name }, "had");
}

function several(
  seen: readonly string[],
  { kind, name }: Pick<AskedObject, "kind" | "name">,
  have: "have" | "had",
): AppError {
  const candidates = seen.toSorted();
  const tenants = candidates.join(", ");
  return new AppError(
    "object.conflict",
    `several tenants ${have} a ${kind.kind} '${name}' (${tenants}): say which is meant, as in /tenants/TENANT/${kind.plural}/${name}, with \`tenant\` in the query, or with gpvectl's --tenant`,
    { errors: { tenant: `must be one of ${tenants}` }, data: { tenants: candidates } },
  );
}
