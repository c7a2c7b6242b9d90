// What backups of this node are made with where a request says nothing, as far as whoever asks may see it.
import { refused } from "@gpve/domain/request/failures.ts";
import { shownDefaults, visibleDefaults, type VzdumpSettings } from "@gpve/domain/backup/vzdump-defaults.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { STORAGE_SEEN_WITH } from "@gpve/domain/storage/seen-with.ts";
import type { GuestStorages } from "../guest-storages.ts";

export function showBackupDefaults(
  deps: { readonly host: { readonly storages: GuestStorages }; readonly settings: () => VzdumpSettings },
  { node, storage }: { readonly node: string; readonly storage?: string },
  ctx: RequestContext,
): ReturnType<typeof visibleDefaults> {
  const settings = deps.settings();
  const wanted = storage ?? settings["storage"];
  const id = typeof wanted === "string" ? wanted : settings["dumpdir"] === undefined ? "local" : undefined;
  if (id !== undefined) ctx.access.require(`/storage/${id}`, STORAGE_SEEN_WITH, "any");
  const shown = shownDefaults(settings, id === undefined ? undefined : defaultsOfStorage(deps.host, id));
  return visibleDefaults(shown, {
    auditNode: ctx.access.has(`/nodes/${node}`, ["Sys.Audit"]),
    auditPool: (pool) => ctx.access.has(`/pool/${pool}`, ["Pool.Audit"]),
  });
}

function defaultsOfStorage(
  host: { readonly storages: GuestStorages },
  id: string,
): { id: string; dumpdir?: string; prune?: string } {
  const definition = host.storages.definition(id);
  if (!contentOf(definition).has("backup"))
    throw refused(`can't use storage '${id}' for backups - wrong content type\n`);
  const prune = definition.options["prune-backups"];
  return {
    id,
    dumpdir: host.storages.plugin(id).backupFolder(),
    ...(typeof prune === "string" ? { prune } : {}),
  };
}
