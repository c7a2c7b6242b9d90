// Who may set which key of a VM's configuration.
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { privilegesForChange, rootOnlyError } from "@gpve/domain/vm/change-privileges.ts";
import { keyKind } from "@gpve/domain/vm/keys.ts";
import { requireTagAccess, storedTags, type TagRules } from "@gpve/domain/vm/tags.ts";
import type { VmValues } from "@gpve/domain/vm/vm-config.ts";
import type { VmHost } from "../../application/vm/vm-host.ts";

/** Every key has its own privilege; the first that is missing is named. */
export function checkPrivileges(
  vmid: number,
  before: Readonly<Record<string, string>>,
  set: Readonly<Record<string, string>>,
  removed: readonly string[],
  ctx: RequestContext,
): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  for (const key of [...Object.keys(set), ...removed]) {
    const value = set[key];
    const oldValue = before[key];
    const needs = privilegesForChange(key, {
      vmid,
      ...(value === undefined ? {} : { value }),
      ...(oldValue === undefined ? {} : { oldValue }),
    });
    if (needs.kind === "root-only") throw rootOnlyError(needs.message);
    for (const { path, privileges, mode } of needs.needs) ctx.access.require(path, privileges, mode);
  }
}

/** What a copy of a VM uses of others: networks, devices, directories, CPU models, drives of the host. */
export function checkCopiedKeys(vmid: number, values: VmValues, ctx: RequestContext): void {
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  const require = (kinds: readonly string[]): void => {
    for (const [key, value] of Object.entries(values)) {
      if (!kinds.includes(keyKind(key))) continue;
      const needs = privilegesForChange(key, { vmid, value });
      if (needs.kind === "root-only") throw rootOnlyError(needs.message);
      for (const { path, privileges, mode } of needs.needs)
        if (!path.startsWith("/vms/")) ctx.access.require(path, privileges, mode);
    }
  };
  require(["ide", "sata", "scsi"]);
  const storage = values["vmstatestorage"];
  if (storage !== undefined) ctx.access.require(`/storage/${storage}`, ["Datastore.AllocateSpace"]);
  for (const kinds of [["usb", "hostpci", "rng0", "virtiofs"], ["net"], ["cpu"]]) require(kinds);
}

/** Tags as they are stored, once the caller may have them; nothing where the request says nothing about them. */
export function checkedTags(
  host: VmHost,
  { tags }: VmValues,
  before: string | undefined,
  ctx: RequestContext,
): { tags?: string } {
  if (tags === undefined) return {};
  const { configs } = host;
  const rules: TagRules = {
    style: configs.datacenterOption("tag-style"),
    registered: configs.datacenterOption("registered-tags"),
    access: configs.datacenterOption("user-tag-access"),
  };
  const seen = (): string[] =>
    configs
      .tagsInUse()
      .flatMap((guest) => (ctx.access.has(`/vms/${guest.vmid}`, ["VM.Audit"]) ? [guest.tags] : []));
  requireTagAccess(before, tags, rules, ctx.access, seen);
  return { tags: storedTags(tags, rules) };
}
