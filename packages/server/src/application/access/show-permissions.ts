import { createAccessView } from "@gpve/domain/access/access-view.ts";
import { parseTokenid } from "@gpve/domain/access/ids.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { effectivePermissions } from "./capabilities.ts";

/** One's own permissions and those of one's tokens; anybody's with Sys.Audit on /access. */
export function showPermissions(
  directory: AccessDirectory,
  input: { readonly userid?: string | undefined; readonly path?: string | undefined },
  ctx: RequestContext,
): Record<string, Record<string, boolean>> {
  const own = ctx.actor?.authid ?? "";
  const authid = input.userid ?? own;
  const owner = parseTokenid(authid)?.userid;
  if (authid !== own && owner !== own) ctx.access.require("/access", ["Sys.Audit"]);
  // What somebody is granted can be looked up while he is locked out, too.
  const view = createAccessView(directory.model(), { userid: owner ?? authid, authid }, "whenever");
  if (input.path) return { [input.path]: Object.fromEntries(view.privileges(input.path)) };
  return effectivePermissions(directory.model(), view);
}
